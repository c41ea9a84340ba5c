"""Tenants with their keys, hot words and rules in one YAML file, which is read again when it changes."""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from streamscribe.core.errors import BadRequest
from streamscribe.core.fair_share import MAX_WEIGHT
from streamscribe.core.hotwords import parse_hotwords
from streamscribe.core.ids import TenantId
from streamscribe.core.options import Hotword
from streamscribe.core.rules import (
    MAX_RULE_PHRASE_CHARS,
    MAX_RULE_PHRASES,
    MAX_RULES,
    Rule,
    RuleKind,
    TextPolicy,
)
from streamscribe.files import read_small
from streamscribe.ports import Tenant
from streamscribe.store.keys import KeyFileError, mac_of, read_pepper, split_key

MAX_FILE_BYTES = 16 * 2**20
_NOBODY = "0" * 64


class KeyEntry(BaseModel):
    """A key as kept: never the key itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Za-z0-9]{1,64}$")
    mac: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: str = ""


def _listed_hotwords(value: object) -> tuple[Hotword, ...]:
    try:
        return parse_hotwords(value)
    except BadRequest as error:
        raise ValueError(error.message) from None


def _phrase(text: str) -> str:
    phrase = " ".join(text.split())
    if not 0 < len(phrase) <= MAX_RULE_PHRASE_CHARS:
        raise ValueError(f"a phrase must have 1 to {MAX_RULE_PHRASE_CHARS} characters")
    if not phrase.isprintable():
        raise ValueError("a phrase holds characters that cannot be printed")
    return phrase


Phrase = Annotated[str, AfterValidator(_phrase)]


class RuleEntry(BaseModel):
    """A rule: phrases of one kind that are reported where they are said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Phrase
    kind: RuleKind
    phrases: tuple[Phrase, ...] = Field(min_length=1)


class TenantEntry(BaseModel):
    """A tenant's quotas, share, keys, hot words, rules, redaction, whether caches may keep anything of it, and whether
    it operates the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_sessions: int | None = Field(default=None, ge=1, le=100_000)
    max_new_sessions_per_min: int | None = Field(default=None, ge=1, le=100_000)
    weight: int = Field(default=1, ge=1, le=MAX_WEIGHT)
    priority: bool = False
    hotwords: Annotated[tuple[Hotword, ...], BeforeValidator(_listed_hotwords)] = ()
    rules: tuple[RuleEntry, ...] = Field(default=(), max_length=MAX_RULES)
    redact: tuple[Phrase, ...] = Field(default=(), max_length=MAX_RULE_PHRASES)
    redact_digits: bool = False
    zero_retention: bool = False
    operator: bool = False
    keys: tuple[KeyEntry, ...] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> "TenantEntry":
        if sum(len(rule.phrases) for rule in self.rules) > MAX_RULE_PHRASES:
            raise ValueError(f"rules have more than {MAX_RULE_PHRASES} phrases together")
        if len({rule.name for rule in self.rules}) < len(self.rules):
            raise ValueError("rules: two have one name")
        return self

    @property
    def policy(self) -> TextPolicy:
        """The rules for the tenant's texts."""
        rules = tuple(Rule(rule.name, rule.kind, rule.phrases) for rule in self.rules)
        return TextPolicy(rules, self.redact, self.redact_digits)


class TenantsFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenants: Mapping[str, TenantEntry] = {}


def read_tenants(path: Path) -> TenantsFile:
    """Reads and validates the file. Raises KeyFileError that names the first bad field."""
    return _validated(path, _content(path))


def _content(path: Path) -> bytes:
    try:
        return read_small(path, MAX_FILE_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None


def _validated(path: Path, content: bytes) -> TenantsFile:
    try:
        parsed = TenantsFile.model_validate(_parse(content) or {})
        for tenant in parsed.tenants:
            TenantId(tenant)
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise KeyFileError(f"{path} is not valid YAML{place}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise KeyFileError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}") from None
    return parsed


def _parse(text: bytes) -> object:
    """The YAML's content. Raises YAMLError alone: PyYAML itself stumbles in other ways over nesting and odd scalars."""
    try:
        return yaml.safe_load(text)
    except (RecursionError, LookupError, AttributeError, TypeError, ValueError):
        raise yaml.YAMLError from None


@dataclass(frozen=True, slots=True)
class _Known:
    mac: str
    tenant: Tenant


class FileTenantStore:
    """`ports.TenantStore` of a tenants file. `authenticate` never touches the disk; `refresh` does."""

    def __init__(self, path: Path, *, default_max_sessions: int) -> None:
        """Raises KeyFileError where the file or its pepper cannot be used."""
        self._path = path
        self._default_max_sessions = default_max_sessions
        self._stamp = _stamp(path)
        content = _content(path)  # first: a folder has no pepper
        self._pepper = read_pepper(path)
        self._keys = self._known(content)

    def authenticate(self, key: str) -> Tenant | None:
        """The tenant whose key this is; the same work and comparison for an unknown id as for a wrong secret."""
        key_id, secret = split_key(key)
        known = self._keys.get(key_id)
        matches = hmac.compare_digest(mac_of(self._pepper, secret), known.mac if known is not None else _NOBODY)
        return known.tenant if known is not None and matches else None

    def refresh(self) -> bool:
        """Reads the file again if it has changed; says whether it had.

        Blocks: call it off the event loop. Raises KeyFileError for a file that cannot be used, and goes on with the
        keys that it has; the next call tries again. So it does for an empty one, as editors leave for a moment: who
        means that nobody may enter writes `tenants: {}`.
        """
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        content = _content(self._path)
        if not content.strip():
            raise KeyFileError(f"{self._path} is empty")
        self._keys = self._known(content)
        self._stamp = stamp
        return True

    def _known(self, content: bytes) -> dict[str, _Known]:
        keys: dict[str, _Known] = {}
        tenants = _validated(self._path, content).tenants
        any_priority = any(entry.priority for entry in tenants.values())
        for name, entry in tenants.items():
            tenant = Tenant(
                TenantId(name),
                entry.max_sessions or self._default_max_sessions,
                entry.hotwords,
                entry.policy,
                entry.zero_retention,
                max_new_sessions_per_min=entry.max_new_sessions_per_min,
                weight=entry.weight,
                yields=any_priority and not entry.priority,
                operator=entry.operator,
            )
            for key in entry.keys:
                if key.id in keys:
                    raise KeyFileError(f"{self._path}: two keys have the id {key.id}")
                keys[key.id] = _Known(key.mac, tenant)
        return keys


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _unreadable(path: Path, error: OSError) -> KeyFileError:
    hint = f"; make it by: streamscribe keys new TENANT --file {path}" if isinstance(error, FileNotFoundError) else ""
    return KeyFileError(f"{path}: {error.strerror}{hint}")
