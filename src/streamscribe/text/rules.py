"""Finds the phrases of a tenant's rules in finals, and says when they were said."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from streamscribe.core.rules import Rule, RuleHit
from streamscribe.text.phrases import Found, PhraseFinder, leftmost_longest
from streamscribe.text.timed import TimedText, word_starts


class RuleIndex:
    """A tenant's rules, compiled: one pass over a text for all phrases of all of them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._listed = [(rule, phrase) for rule in rules for phrase in rule.phrases]
        self._finder = PhraseFinder([phrase for _, phrase in self._listed])

    def hits(self, text: TimedText, start_ms: int, end_ms: int) -> list[RuleHit]:
        """What the text has, in order; of the phrases of one rule that overlap, the leftmost and longest.

        Times are those of the words it lies in, or where the text has none, the given ones.
        """
        by_rule: dict[str, list[Found]] = {}
        for one in self._finder.find(text.text):
            by_rule.setdefault(self._listed[one.phrase][0].name, []).append(one)
        if not by_rule:
            return []
        kept = sorted(
            (one for found in by_rule.values() for one in leftmost_longest(found)),
            key=lambda one: (one.start, one.end, one.phrase),
        )
        return list(self._told(kept, text, start_ms, end_ms))

    def _told(self, kept: Sequence[Found], text: TimedText, start_ms: int, end_ms: int) -> Iterator[RuleHit]:
        starts = word_starts(text.text, text.words)
        for one in kept:
            rule, phrase = self._listed[one.phrase]
            if starts and len(starts) == len(text.words):
                first = text.words[max(bisect_right(starts, one.start) - 1, 0)]
                last = text.words[max(bisect_right(starts, one.end - 1) - 1, 0)]
                yield RuleHit(rule.name, rule.kind, phrase, first.start_ms, last.end_ms)
            else:
                yield RuleHit(rule.name, rule.kind, phrase, start_ms, end_ms)
