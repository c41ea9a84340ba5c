"""How much memory this process has, and how much more it could get: asked before a second model is loaded; and what a
freed one leaves."""

import ctypes
import os
import sys
from math import inf
from pathlib import Path

PAGE_BYTES = 4096
_M_ARENA_MAX = -8
"""Of glibc's `mallopt`."""
_CHOSEN_BY_HAND = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def resident_bytes() -> int:
    """What this process has in memory; 0 where the system does not tell."""
    try:
        return int((_PROC / "self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def free_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> float:
    """What could be taken without swapping: of the machine, and of each control group above; else infinite.

    Linux only. Pages of files that nobody uses now count as free, as the kernel gives them up.
    """
    return min(_machine(proc), *(_left(group) for group in _own_groups(proc, groups)), inf)


def share_heap() -> None:
    """Has threads that are started from now on allocate from one heap; to be called while there is one thread.

    By default glibc gives threads heaps of their own, eight for each core. What a model's threads leave in theirs is
    used by no other model's, and not given back by `trim`: it took 30 MiB more with each swap of Whisper. The steps of
    CTranslate2 are quicker with one. Does nothing where the environment chooses, or the library has no such call.
    """
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is not None and not any(os.environ.get(name) for name in _CHOSEN_BY_HAND):
        choose(_M_ARENA_MAX, 1)


def gpu_free_bytes(device: str) -> float:
    """What PyTorch could take of the GPU `cuda` or `cuda:N`: what nobody has, and what it keeps there without using it.

    Infinite for other devices, and where PyTorch was not loaded by now or finds no GPU. Blocks for the driver.
    """
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return inf
    free, _ = torch.cuda.mem_get_info(device)
    return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def trim() -> None:
    """Gives the system back what freed models have left to the C library; blocks, without Python's lock.

    CTranslate2 leaves as much as its model takes. Does nothing where the library has no such call.
    """
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)


def _machine(proc: Path) -> float:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return inf
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), inf)


def _own_groups(proc: Path, groups: Path) -> list[Path]:
    """The process' group of version 2 and those around it; in a container it is seen as the root."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    named = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    own = groups / named
    return [group for group in (own, *own.parents) if group == groups or groups in group.parents]


def _left(group: Path) -> float:
    try:
        most = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return inf
    return inf if most == "max" else float(max(0, int(most) - used + int(stat.get("inactive_file", 0))))
