"""What a replica tells of each of its steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepReport:
    """One batch: `queue_wait_s` is that of the request that waited longest; `failed` requests got an error.

    Of the requests, `live` are of live sessions; `lag_s` is the longest time from the arrival of a live stream's chunk
    to the step's end, None without one. `batch_limit` requests of such length could have shared the step.
    `out_of_memory` counts the tries that failed so. Since the last step ended `live_asked` requests of live sessions
    came, with `live_asked_s` of audio, also such as were given up since.
    """

    name: str
    batch_size: int
    queue_wait_s: float
    step_s: float
    audio_s: float
    failed: int
    live: int = 0
    lag_s: float | None = None
    batch_limit: int = 1
    out_of_memory: int = 0
    live_asked: int = 0
    live_asked_s: float = 0.0
