"""What happens to a recognised text before people read it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from threading import Lock

from streamscribe.compiled import Compiled
from streamscribe.core.ids import TenantId
from streamscribe.core.options import Hotword
from streamscribe.core.results import Word
from streamscribe.core.rules import NO_POLICY, RuleHit, TextPolicy
from streamscribe.core.tokens import Mark
from streamscribe.text import orthography, punctuation
from streamscribe.text.hotwords import HotwordIndex, hotword_chars
from streamscribe.text.itn import number_edits
from streamscribe.text.phrases import Found
from streamscribe.text.policy import PolicyIndex, policy_chars
from streamscribe.text.script import Simplifier, is_chinese, is_english
from streamscribe.text.timed import Edit, TimedText, timed


@dataclass(frozen=True, slots=True)
class FinishRequest:
    """A final's text as the model gave it, its words on the session's clock (or none), and its segment's times.

    `marks` is the punctuation that a model found for the text, which has none then; its last one ends the text, unless
    that `goes_on` in the next final. `hotwords` are corrected by sound.
    `itn` writes spoken numbers in digits; without `punctuation` its marks are taken out. What is compiled of the lists
    is kept for the tenant.
    """

    text: str
    words: tuple[Word, ...] = ()
    language: str | None = None
    itn: bool = True
    punctuation: bool = True
    marks: tuple[Mark, ...] = ()
    goes_on: bool = False
    hotwords: tuple[Hotword, ...] = ()
    policy: TextPolicy = NO_POLICY
    tenant_id: TenantId | None = None
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A text for people; its words, if any, are equal to it but for white space. `hits` are those of the rules.

    `hotwords` are the phrases of the request's hot words that the text has.
    """

    text: str
    words: tuple[Word, ...]
    hits: tuple[RuleHit, ...] = ()
    hotwords: tuple[str, ...] = ()


class TextPipeline:
    """Rewrites recognised text: simplified Chinese, hot words, numbers in digits, punctuation, redaction as wished.

    Synchronous and safe to use from many threads; its parts are loaded by `warm_up` or else by the first use.
    """

    def __init__(self) -> None:
        self._simplifier: Simplifier | None = None
        self._loading = Lock()
        self._hotwords = Compiled(HotwordIndex, hotword_chars)
        self._policies = Compiled(lambda policy: PolicyIndex(policy, self._simplified), policy_chars)

    def warm_up(self) -> None:
        """Loads the dictionaries of characters, words and readings: a second or two, once."""
        self._simplify("開會", "zh")
        HotwordIndex((Hotword("异夏"),)).correct(TimedText("一下"), "zh")

    def policy(self, policy: TextPolicy, tenant_id: TenantId | None = None) -> PolicyIndex | None:
        """What `draft` needs of a policy; None where it asks for nothing. The longest lists take 0.1 s, once."""
        return None if policy == NO_POLICY else self._policies.of(tenant_id, policy)

    def draft(self, text: str, language: str | None, policy: PolicyIndex | None = None) -> str:
        """A partial's text: in simplified characters, redacted, else as it is. Microseconds.

        What may be the beginning of a redacted word is held back, so that text that goes on stays a prefix.
        """
        text = self._simplify(text, language)
        return text if policy is None else policy.draft(text)

    def finish(self, request: FinishRequest) -> Finished:
        """A final's text. Never empty where the request's is not; words that do not tell the text are left out."""
        heard = timed(request.text.strip(), request.words)
        heard = heard.edited(_changes(heard.text, self._simplify(heard.text, request.language)))
        hotwords = self._hotwords.of(request.tenant_id, request.hotwords)
        names = hotwords.places(heard.text, request.language) if request.marks else ()
        spoken = result = hotwords.correct(_marked(heard, request, names), request.language)
        if request.itn:
            result = result.edited(_outside(hotwords.find(result.text), number_edits(result.text, request.language)))
        written = _written(result, request)
        return self._told(request, spoken, written, hotwords.said(written.text))

    def _told(self, request: FinishRequest, spoken: TimedText, written: TimedText, said: tuple[str, ...]) -> Finished:
        """The text as its readers may see it, and what was found in it before."""
        policy = self.policy(request.policy, request.tenant_id)
        if policy is None:
            return Finished(written.text, written.words, hotwords=said)
        hits = policy.hits(spoken, written, request.start_ms, request.end_ms)
        seen = policy.redact(written)
        return Finished(seen.text, seen.words, hits, said)

    def _simplified(self, phrase: str) -> str:
        """A listed phrase as texts are written."""
        return self._simplify(phrase, None)

    def _simplify(self, text: str, language: str | None) -> str:
        if not is_chinese(text, language):
            return text
        if self._simplifier is None:
            with self._loading:
                self._simplifier = self._simplifier or Simplifier()
        return self._simplifier.simplify(text)


def _marked(heard: TimedText, request: FinishRequest, names: Iterable[tuple[int, int]]) -> TimedText:
    """What was heard with the punctuator's marks, without marks at its head.

    None is put into a name: a punctuator, which knows texts only, divides names that were heard as other words.
    """
    if not request.punctuation:
        return heard
    skipped = len(request.text) - len(request.text.lstrip())
    inside = {at for start, end in names for at in range(start + 1, end)}
    marks = [replace(mark, at=mark.at - skipped) for mark in request.marks if mark.at - skipped not in inside]
    marked = heard.edited(punctuation.added(heard.text, marks, goes_on=request.goes_on))
    return marked.edited(punctuation.leading(marked.text))


def _written(text: TimedText, request: FinishRequest) -> TimedText:
    """The text with the capitals and spaces of its script, and with its marks only where they are wanted."""
    if not request.punctuation:
        bare = text.edited(punctuation.removed(text.text))
        return TimedText(bare.text.strip(), bare.words) if bare.text.strip() else text
    spaced = text.edited(orthography.spaces(text.text))
    return spaced.edited(orthography.capitals(spaced.text)) if is_english(spaced.text, request.language) else spaced


def _outside(names: list[Found], edits: list[Edit]) -> list[Edit]:
    """The edits that change no hot word: 三体 stays."""
    return [edit for edit in edits if all(edit.end <= name.start or edit.start >= name.end for name in names)]


def _changes(before: str, after: str) -> list[Edit]:
    """The characters that differ in two texts of one length."""
    pairs = enumerate(zip(before, after, strict=True))
    return [Edit(at, at + 1, new) for at, (old, new) in pairs if old != new]
