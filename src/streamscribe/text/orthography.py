"""How English is written: capitals where sentences begin and in I, and spaces around marks."""

import re

from streamscribe.text.timed import Edit

_SPACES = re.compile(
    r"(?P<gone>(?<=\S) +(?=[,.;:!?，。；：！？、](?![\w.]))|(?<= ) +)|(?<=[A-Za-z])(?P<tight>[,;!?])(?=[A-Za-z])"
)
_SENTENCE = re.compile(r"(?:^|[.?!][\"”’)]{0,3}\s+)[\"“‘(]{0,3}(?P<word>[a-z][\w'’]*)")
_GOES_ON = re.compile(r"(?:\.|(?:^|\W)(?:[A-Za-z]|[A-Za-z]\.[A-Za-z]|mr|mrs|ms|dr|st|vs|etc))$", re.IGNORECASE)
"""With these before its full stop a sentence is not over: p.m., Dr., an ellipsis."""
_PROPER = re.compile(
    r"\bi(?![\w.-])|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"january|february|april|june|july|september|october|november|december)\b"
)
"""Lower-case words with a capital wherever they stand; march, may and august are verbs and adjectives, too."""


def spaces(text: str) -> list[Edit]:
    """No space before a mark, one behind it where words would be glued, one between words."""
    found = _SPACES.finditer(text)
    return [Edit(match.start(), match.end(), "" if match["gone"] else match[0] + " ") for match in found]


def capitals(text: str) -> list[Edit]:
    """A capital at the beginning of the text and of each sentence, and in I and names of days and months."""
    starts = {match.start() for match in _PROPER.finditer(text)}
    for match in _SENTENCE.finditer(text):
        before = text[max(0, match.start() - 6) : match.start()]
        if match["word"].islower() and not _GOES_ON.search(before):
            starts.add(match.start("word"))
    return [Edit(at, at + 1, text[at].upper()) for at in sorted(starts)]
