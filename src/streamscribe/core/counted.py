"""Numbers with their nouns, as every message for people writes them."""


def counted(count: int, noun: str) -> str:
    """`1 worker`, `2 workers`; of nouns whose plural is by `s`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
