"""Where tensors live and how running out of memory is told."""

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raises MemoryError where PyTorch says in its own ways that there was not enough memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError("the device is out of memory") from error
    except RuntimeError as error:
        if "not enough memory" in str(error) or "out of memory" in str(error):
            raise MemoryError("the device is out of memory") from error
        raise
