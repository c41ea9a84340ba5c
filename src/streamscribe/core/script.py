"""Where a text may be cut: between words where the script has spaces, between any two characters where it has none."""

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0xA4CF),  # Chinese, Japanese, their punctuation, Yi
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),  # full-width forms
    (0x20000, 0x3FFFF),
)

CLOSING_MARKS = ",.;:!?，。；：！？、…"
"""Marks that follow what they belong to."""


def is_unspaced(char: str) -> bool:
    """Whether the character is of a script that writes words without spaces."""
    code = ord(char)
    return any(low <= code <= high for low, high in _UNSPACED)


def _joins(char: str) -> bool:
    """Whether the character belongs to a word that may go on after it."""
    return (char.isalnum() or char in "'’") and not is_unspaced(char)


def is_boundary(text: str, at: int) -> bool:
    """Whether cutting `text` before index `at` tears no word apart."""
    return at <= 0 or at >= len(text) or not (_joins(text[at - 1]) and _joins(text[at]))


def ending(text: str, most: int) -> str:
    """The longest end of at most so many characters that tears no word apart; without spaces around it."""
    at = max(0, len(text) - most)
    while not is_boundary(text, at):
        at += 1
    return text[at:].strip()


def common_prefix(one: str, other: str) -> str:
    """The longest beginning that both share and that tears no word apart in either; without trailing spaces."""
    shortest = min(len(one), len(other))
    at = next((i for i in range(shortest) if one[i] != other[i]), shortest)
    while not (is_boundary(one, at) and is_boundary(other, at)):
        at -= 1
    return one[:at].rstrip()


def unit_ends(text: str) -> list[int]:
    """Where each word (or character of a script without spaces) ends; punctuation and spaces are no words."""
    ends: list[int] = []
    for at, char in enumerate(text, 1):
        if not char.isalnum() and char not in "'’":
            continue
        if is_boundary(text, at):
            ends.append(at)
    return ends


def move_leading_mark(previous: str, text: str) -> tuple[str, str]:
    """Both texts, with the marks at the head of the second behind the first, which they belong to.

    They are left out where the first ends with a mark already. Nothing is moved to an empty text.
    """
    rest = text.lstrip(CLOSING_MARKS + " ")
    head = text[: len(text) - len(rest)].replace(" ", "")
    if not head or not previous or (head[-1] == "." and rest[:1].isdigit()):
        return previous, text
    return previous if previous.rstrip()[-1:] in CLOSING_MARKS else previous.rstrip() + head, rest


def join(before: str, after: str) -> str:
    """Both texts in one, with a space between them where their script wants one; no mark begins the second."""
    before, after = move_leading_mark(before.rstrip(), after.lstrip())
    if not before or not after:
        return before + after
    glued = is_unspaced(before[-1]) or is_unspaced(after[0]) or after[0] in ",.;:!?%)]}"
    return before + ("" if glued else " ") + after
