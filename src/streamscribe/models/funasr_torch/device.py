"""Where tensors live and how many threads work on them."""

import torch

from streamscribe.core.errors import ModelUnavailable


def open_device(name: str, *, threads: int) -> torch.device:
    """The device `cpu`, `cuda` or `cuda:N`; `threads` work at one step on a CPU, for the whole process.

    On a GPU float32 is exact from then on, see `use_exact_floats`.

    Raises ModelUnavailable where there is no such device.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelUnavailable(f"there is no device {name!r} here") from error
    torch.set_num_threads(threads)
    if device.type == "cuda":
        use_exact_floats()
    return device


def use_exact_floats() -> None:
    """Has float32 computed in float32 on GPUs: TF32, which convolutions use by default, has 10 bits of a number's 23.

    That is more than a batch may differ from its members alone. The switches are the process's, not a thread's, so they
    are set for good: a scope would be ended by another thread. What computes in 16 bits does not know them.
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
