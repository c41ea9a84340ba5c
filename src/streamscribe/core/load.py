"""How busy the models are and how late chunks come out, over the last seconds.

The time of a step is fitted as t(w) = a + b w, w its work (seconds of audio), by least squares over the window. A full
step has work W (its limit of requests, of mean length), so a model can do at most W / t(W) of work a second; what live
sessions ask for is L a second, whether it gets done, waits, or is given up meanwhile. The utilisation is
L t(W) / W = L (a / W + b): the share of the time that the live work would take in full steps. It is below the share of
time that the model is busy, which nears 1 long before full steps do.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Protocol

from streamscribe.core.integrity import ensure

WINDOW_S = 10
"""What is older is forgotten."""
SETTLED_S = 2
"""Voices that came so long ago have shown in lags and steps."""
REAL_TIME = 1.25
"""A voice asks for so much audio a second at most in the long run, pre-roll included, however fast it is sent now."""
_ENOUGH_SPREAD = 1e-3
"""Variance of the work over its squared mean, below which all steps are alike and tell nothing of a and b apart."""
_LAG_RATIO = 1.25
_LAG_UNIT_S = 0.001
_HIGH = 0.95


@dataclass(frozen=True, slots=True)
class StepLoad:
    """A step of `requests` requests that took `busy_s`, its work, and what live sessions asked for since the last.

    Work is seconds of audio, or requests where they have none. Of such requests `limit` could have shared the step.
    """

    busy_s: float
    requests: int
    work: float
    live_asked: float
    limit: int


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """How busy a model was, measured of `heard` voices on average, and how late its chunks came out."""

    name: str
    utilisation: float
    heard: float
    lag_p95_s: float

    def predicted(self, voices: int, more: int) -> float:
        """The utilisation with `more` than so many voices, as `LoadGauge.predicted` has it."""
        return self.utilisation * (voices + more) / (self.heard + more)


@dataclass(slots=True)
class _Second:
    """Sums over the steps that ended in one second, and counts of lags by size."""

    at: int
    steps: int = 0
    requests: int = 0
    room: float = 0.0
    work: float = 0.0
    work_squared: float = 0.0
    live_asked: float = 0.0
    busy: float = 0.0
    work_busy: float = 0.0
    lags: Counter[int] = field(default_factory=Counter)

    def add(self, step: StepLoad) -> None:
        self.steps += 1
        self.requests += step.requests
        self.room += step.limit
        self.work += step.work
        self.work_squared += step.work**2
        self.live_asked += step.live_asked
        self.busy += step.busy_s
        self.work_busy += step.work * step.busy_s


@dataclass(slots=True)
class _VoiceSecond:
    """Voices times seconds that they were there in one second, and how many more came than went."""

    at: int
    voice_s: float = 0.0
    came: int = 0


class Gauge(Protocol):
    """What is known of the models that newcomers would come to (`LoadGauge`, `core.cluster_load.WorkerGauge`)."""

    @property
    def voices(self) -> int:
        """Voices there are now."""
        ...

    def newcomers(self, now: float) -> int:
        """Those that have not shown in the figures yet."""
        ...

    def names(self) -> Iterable[str]:
        """Of the models, and whatever else may be late."""
        ...

    def lag_p95_s(self, name: str, now: float) -> float:
        """How late chunks come out."""
        ...

    def predicted(self, name: str, more: int, now: float) -> float:
        """The utilisation with `more` voices."""
        ...

    def add_voices(self, count: int, now: float) -> None:
        """So many came; went, where negative."""
        ...


class LoadGauge:
    """What models did for how many voices (channels of live sessions), each model under its name.

    `now` may come out of order by less than a second, as reports of several threads do. Memory is bounded by the names
    and the window; each report costs the same.
    """

    def __init__(self, now: float) -> None:
        self._born = now
        self._seconds: dict[str, deque[_Second]] = {}
        self._voices = 0
        self._voice_s: deque[_VoiceSecond] = deque(maxlen=WINDOW_S + 1)
        self._counted_to = now

    @property
    def voices(self) -> int:
        """Voices there are now."""
        return self._voices

    def newcomers(self, now: float) -> int:
        """Voices that have not been there for `SETTLED_S` yet, as far as those who went did not take their places."""
        return sum(max(0, second.came) for second in self._voice_s if second.at > int(now) - SETTLED_S)

    def add_voices(self, count: int, now: float) -> None:
        """So many came; went, where negative."""
        self._count_voices(now)
        self._voices += count
        self._voice_second(now).came += count

    def step(self, name: str, load: StepLoad, now: float) -> None:
        """A model ended a step."""
        self._second(name, now).add(load)

    def lagged(self, name: str, lag_s: float, count: int, now: float) -> None:
        """So many chunks came out so long after they came in."""
        size = ceil(log(lag_s / _LAG_UNIT_S, _LAG_RATIO)) if lag_s > _LAG_UNIT_S else 0
        self._second(name, now).lags[size] += count

    def utilisation(self, name: str, now: float) -> float:
        """The share of a model's time that what live sessions asked for in the window takes in full steps."""
        seconds = self._recent(name, now)
        return self._asked(seconds, now) * _full_step_cost(seconds)

    def predicted(self, name: str, more: int, now: float) -> float:
        """The utilisation with `more` voices, when those that came within the window ask for as much as the others.

        A voice is heard of only when its first request is full: so much later it counts as there, and as gone. The
        newcomers count on both sides, so that a handful is not judged by the little that one was heard for; and no
        voice is thought to ask for more than one can.
        """
        seconds = self._recent(name, now)
        asked = self._asked(seconds, now)
        return asked * _full_step_cost(seconds) * (self._voices + more) / (self._heard(seconds, asked, now) + more)

    def measured(self, name: str, now: float) -> ModelLoad:
        """What another process needs to predict."""
        seconds = self._recent(name, now)
        asked = self._asked(seconds, now)
        utilisation = asked * _full_step_cost(seconds)
        return ModelLoad(name, utilisation, self._heard(seconds, asked, now), self.lag_p95_s(name, now))

    def _heard(self, seconds: Sequence[_Second], asked: float, now: float) -> float:
        """The voices that asked for so much."""
        request = sum(s.work for s in seconds) / max(1, sum(s.requests for s in seconds))
        return max(self._mean_voices(now, late_s=request), asked / REAL_TIME)

    def lag_p95_s(self, name: str, now: float) -> float:
        """What 95 % of the chunks of the window did not exceed, a quarter too high at most; 0 without any."""
        lags: Counter[int] = Counter()
        for second in self._recent(name, now):
            lags.update(second.lags)
        left = (1 - _HIGH) * lags.total()
        for size in sorted(lags, reverse=True):
            left -= lags[size]
            if left < 0:
                return _LAG_UNIT_S * _LAG_RATIO**size
        return 0.0

    def names(self) -> Iterable[str]:
        """All that ever reported."""
        return tuple(self._seconds)

    def check_integrity(self) -> None:
        """Voices are counted; no second is kept twice or beyond the window."""
        ensure(self._voices >= 0, "voices came before they went")
        for seconds in self._seconds.values():
            at = [second.at for second in seconds]
            ensure(at == sorted(set(at)) and len(at) <= WINDOW_S + 1, "one entry a second, of the window")

    def _second(self, name: str, now: float) -> _Second:
        seconds = self._seconds.setdefault(name, deque(maxlen=WINDOW_S + 1))
        if not seconds or seconds[-1].at < int(now):
            seconds.append(_Second(int(now)))
        return seconds[-1]

    def _recent(self, name: str, now: float) -> list[_Second]:
        return [second for second in self._seconds.get(name, ()) if second.at > int(now) - WINDOW_S]

    def _asked(self, seconds: Sequence[_Second], now: float) -> float:
        """Live work that came in a second.

        A model that is full does no more than it can, however many ask; of what it did, too many would be let in.
        """
        asked = sum(second.live_asked for second in seconds)
        return min(asked / self._covered_s(now), REAL_TIME * self._mean_voices(now))

    def _covered_s(self, now: float) -> float:
        """How long the recent seconds are together, the running one as far as it went."""
        return max(1.0, now - max(self._born, int(now) - WINDOW_S + 1))

    def _mean_voices(self, now: float, late_s: float = 0.0) -> float:
        """Voices there were on average in the window, when each came and went so much later."""
        self._count_voices(now)
        recent = [second for second in self._voice_s if second.at > int(now) - WINDOW_S]
        voice_s = sum(second.voice_s - late_s * second.came for second in recent)
        return max(0.0, voice_s) / self._covered_s(now)

    def _count_voices(self, now: float) -> None:
        """Books the time since the last change, second by second."""
        self._counted_to = max(self._counted_to, now - WINDOW_S)
        while self._counted_to < now:
            until = min(now, int(self._counted_to) + 1.0)
            self._voice_second(self._counted_to).voice_s += self._voices * (until - self._counted_to)
            self._counted_to = until

    def _voice_second(self, now: float) -> _VoiceSecond:
        if not self._voice_s or self._voice_s[-1].at < int(now):
            self._voice_s.append(_VoiceSecond(int(now)))
        return self._voice_s[-1]


def _full_step_cost(seconds: Sequence[_Second]) -> float:
    """Time a work takes in full steps: a / W + b of the fit."""
    steps, work = sum(s.steps for s in seconds), sum(s.work for s in seconds)
    if not work:
        return 0.0
    mean, mean_busy = work / steps, sum(s.busy for s in seconds) / steps
    spread = sum(s.work_squared for s in seconds) / steps - mean**2
    together = sum(s.work_busy for s in seconds) / steps - mean * mean_busy
    each = together / spread if spread > _ENOUGH_SPREAD * mean**2 else mean_busy / mean
    each = min(max(each, 0.0), mean_busy / mean)
    full = sum(s.room for s in seconds) / steps * work / sum(s.requests for s in seconds)
    return (mean_busy - each * mean) / max(full, mean) + each
