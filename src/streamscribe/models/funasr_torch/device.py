"""Where tensors live and how many threads work on them."""

import torch

from streamscribe.core.errors import ModelUnavailable


def open_device(name: str, *, threads: int) -> torch.device:
    """The device `cpu`, `cuda` or `cuda:N`; `threads` work at one step on a CPU, for the whole process.

    Raises ModelUnavailable where there is no such device.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelUnavailable(f"there is no device {name!r} here") from error
    torch.set_num_threads(threads)
    return device
