"""A tenant's policy, compiled: what its rules find in a final, and what it must not see of any text."""

from collections.abc import Callable
from dataclasses import replace

from streamscribe.core.rules import RuleHit, TextPolicy
from streamscribe.text.redaction import Redactor
from streamscribe.text.rules import RuleIndex
from streamscribe.text.timed import TimedText


class PolicyIndex:
    """Rules and redaction of one tenant. `simplify` writes listed phrases as texts are written."""

    def __init__(self, policy: TextPolicy, simplify: Callable[[str], str]) -> None:
        rules = [replace(rule, phrases=tuple(map(simplify, rule.phrases))) for rule in policy.rules]
        self._rules = RuleIndex(rules)
        self._redactor = Redactor([simplify(word) for word in policy.redact], digits=policy.redact_digits)

    def hits(self, spoken: TimedText, written: TimedText, start_ms: int, end_ms: int) -> tuple[RuleHit, ...]:
        """What the rules find in a final as it was spoken or as it is written (百分之百, 100%), each once, in order.

        No hit tells what is redacted.
        """
        found = dict.fromkeys(self._rules.hits(spoken, start_ms, end_ms))
        if written.text != spoken.text:
            found.update(dict.fromkeys(self._rules.hits(written, start_ms, end_ms)))
        hits = (replace(hit, phrase=self._redactor.mask(hit.phrase)) for hit in found)
        return tuple(sorted(hits, key=lambda hit: (hit.start_ms, hit.end_ms)))

    def redact(self, text: TimedText) -> TimedText:
        """A final that may be seen; its words keep their times."""
        return text.edited(self._redactor.edits(text.text))

    def draft(self, text: str) -> str:
        """As much of a partial as may be seen."""
        return self._redactor.draft(text)


def policy_chars(policy: TextPolicy) -> int:
    """The characters of all its phrases."""
    return sum(len(phrase) for rule in policy.rules for phrase in rule.phrases) + sum(map(len, policy.redact))
