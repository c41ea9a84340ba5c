"""What a tenant wants found in its texts, and what must not be told."""

from dataclasses import dataclass
from enum import StrEnum

MAX_RULES = 100
MAX_RULE_PHRASES = 5_000
"""Phrases of a tenant's rules together; as many words may be redacted."""

MAX_RULE_PHRASE_CHARS = 64


class RuleKind(StrEnum):
    """What a phrase means to the tenant."""

    FORBIDDEN = "forbidden"
    PROMISED = "promised"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True)
class Rule:
    """Phrases of one kind under one name."""

    name: str
    kind: RuleKind
    phrases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextPolicy:
    """A tenant's rules for finals. `redact` are words that are masked; `redact_digits` masks all digits."""

    rules: tuple[Rule, ...] = ()
    redact: tuple[str, ...] = ()
    redact_digits: bool = False


NO_POLICY = TextPolicy()


@dataclass(frozen=True, slots=True)
class RuleHit:
    """A phrase of a rule was said, by the session's clock."""

    rule: str
    kind: RuleKind
    phrase: str
    start_ms: int
    end_ms: int
