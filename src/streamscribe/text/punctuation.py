"""Takes punctuation out of a text for clients that want none."""

import re

from streamscribe.text.timed import Edit

_MARKS = re.compile(
    r"""
    (?<=\d)[.,:](?=\d) |                        # in a number, kept: 3.5
    (?<!\w)-(?=\d) |                            # before one, kept: -5
    (?<=\w)['’\-/@_](?=\w) |                    # in a word, kept: don't
    (?<=[A-Za-z])\.(?=[A-Za-z]) |               # kept too: p.m
    (?P<gone>[,.;:!?，。、；：！？…·—–\-'’"“”‘()（）\[\]【】「」『』《》〈〉¡¿~～]+)
    """,
    re.VERBOSE,
)


def punctuation(text: str) -> list[Edit]:
    """Edits that delete the text's punctuation, but not the marks inside numbers and words (3.5, 10:30, don't).

    Words that only a mark parts get a space where their script has spaces.
    """
    edits: list[Edit] = []
    for match in _MARKS.finditer(text):
        if match["gone"] is None:
            continue
        start, end = match.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        if after == " " and before in ("", " "):
            end += 1
        parts = before.isascii() and after.isascii() and before.isalnum() and after.isalnum()
        edits += [Edit(at, at + 1, " " if parts and at == start else "") for at in range(start, end)]
    return edits
