"""Takes punctuation out of a text for clients that want none."""

import re

from streamscribe.text.timed import Edit

_MARK = re.compile(
    r"""
    (?<=\d)[.,:](?=\d) |           # part of a number, kept
    (?<=\w)['’\-/@_](?=\w) |       # part of a word, kept
    (?P<ends>[,.;:!?，。、；：！？…·—–\-'’"“”‘()（）\[\]【】「」『』《》〈〉¡¿~～]+)
    """,
    re.VERBOSE,
)


def punctuation(text: str) -> list[Edit]:
    """Edits that delete the text's punctuation, but not the marks inside numbers and words (3.5, 10:30, don't).

    A mark between two words that no space parts leaves one, where their script has spaces.
    """
    edits = []
    for match in _MARK.finditer(text):
        if match["ends"]:
            start, end = match.span()
            torn = text[start - 1 : start].isascii() and text[end : end + 1].isascii()
            apart = torn and text[start - 1 : start].isalnum() and text[end : end + 1].isalnum()
            edits.append(Edit(start, end, " " if apart else ""))
    return edits
