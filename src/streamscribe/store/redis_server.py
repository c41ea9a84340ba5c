"""Whether a Redis is one that the session store can rely on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIN_VERSION = (7, 0)
"""The first whose scripts say that they may run where memory is full."""

SAFE_POLICY = "noeviction"


@dataclass(frozen=True, slots=True)
class RedisServer:
    """What a server says of itself. `max_memory_bytes` 0: unbounded."""

    version: str
    is_replica: bool
    used_bytes: int
    max_memory_bytes: int
    policy: str

    @property
    def evicts(self) -> bool:
        """Whether it would drop what the store keeps, where it is full."""
        return self.policy != SAFE_POLICY

    @property
    def trouble(self) -> str | None:
        """Why it is none to rely on; None where it is."""
        if _numbers(self.version) < MIN_VERSION:
            return f"version {self.version}; the store needs {'.'.join(map(str, MIN_VERSION))} or later"
        if self.is_replica:
            return "a replica, which takes no writes; name its primary"
        if self.evicts:
            return f"maxmemory-policy is {self.policy}: a full Redis would drop leases and quotas; set {SAFE_POLICY}"
        return None


def server_of(info: Mapping[str, Any]) -> RedisServer:
    """From what `INFO` answers."""
    return RedisServer(
        str(info["redis_version"]),
        info["role"] != "master",
        int(info["used_memory"]),
        int(info["maxmemory"]),
        str(info["maxmemory_policy"]),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
