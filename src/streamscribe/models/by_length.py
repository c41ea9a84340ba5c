"""Two recognisers as one: short segments go to one that is quick or good with few words, longer ones to the other."""

from collections.abc import Hashable, Sequence

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.models.pool import Recognition
from streamscribe.models.ports import Hypothesis, Identity, SegmentRecognizer, SegmentRequest
from streamscribe.models.stage import Part, Stage


class RecognizerByLength:
    """Gives segments of up to `up_to` samples to `short`, and longer ones to `long`."""

    def __init__(self, short: SegmentRecognizer, long: SegmentRecognizer, up_to: int) -> None:
        self._short = short
        self._long = long
        self._up_to = min(up_to, short.max_samples)

    @property
    def identity(self) -> Identity:
        """That of both and the rule; who keeps answers asks for that of the one that gave them."""
        return ("by-length", self._up_to, *self._short.identity, *self._long.identity)

    @property
    def deterministic(self) -> bool:
        """Whether both are."""
        return self._short.deterministic and self._long.deterministic

    @property
    def max_samples(self) -> int:
        """The longest that either takes."""
        return max(self._up_to, self._long.max_samples)

    @property
    def tail_padding_ms(self) -> int:
        """Enough for both: a segment's length is not known before its end."""
        return max(self._short.tail_padding_ms, self._long.tail_padding_ms)

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language that one of them does not know."""
        self._short.check_language(code)
        self._long.check_language(code)

    def is_short(self, request: SegmentRequest) -> bool:
        """Whether it goes to the short one."""
        return len(request.samples) <= self._up_to

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order."""
        heard: dict[int, Hypothesis] = {}
        for recognizer, wanted in ((self._short, True), (self._long, False)):
            mine = [index for index, request in enumerate(batch) if self.is_short(request) is wanted]
            if mine:
                heard.update(zip(mine, recognizer.recognize([batch[index] for index in mine]), strict=True))
        return [heard[index] for index in range(len(batch))]


class StageByLength:
    """The stages of both: each gathers its own steps, under one policy."""

    def __init__(self, short: Recognition, long: Recognition, recognizer: RecognizerByLength) -> None:
        self._short: Stage[SegmentRequest, Hypothesis] = short.stage
        self._long: Stage[SegmentRequest, Hypothesis] = long.stage
        self._recognizer = recognizer

    @property
    def population(self) -> int:
        """How many sessions may have a request, in either."""
        return self._long.population

    @population.setter
    def population(self, sessions: int) -> None:
        self._short.population = self._long.population = sessions

    @property
    def policy(self) -> BatchPolicy:
        """How requests are gathered into steps."""
        return self._long.policy

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those of both."""
        return (*self._short.parts, *self._long.parts)

    async def submit(
        self,
        request: SegmentRequest,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        patient: bool = False,
    ) -> Hypothesis:
        """The answer of the one whose length it is."""
        stage = self._short if self._recognizer.is_short(request) else self._long
        return await stage.submit(
            request,
            priority=priority,
            audio_s=audio_s,
            group=group,
            exclusive=exclusive,
            share=share,
            patient=patient,
        )


def recognition_by_length(short: Recognition, long: Recognition, up_to: int) -> Recognition:
    """Both as one, of which each request's source is the one that recognises it."""
    recognizer = RecognizerByLength(short.recognizer, long.recognizer, up_to)
    return Recognition(
        recognizer,
        StageByLength(short, long, recognizer),
        f"{short.weights}+{long.weights}",
        lambda request: short if recognizer.is_short(request) else long,
        version="+".join(one.version for one in (short, long) if one.version),
    )
