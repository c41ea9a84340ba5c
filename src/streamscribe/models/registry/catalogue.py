"""The catalogue as types: which models exist, the sums of their files, and where they come from."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec

from streamscribe.core.errors import NotFound
from streamscribe.core.nearest import did_you_mean

SourceKind = Literal["pypi", "deb", "modelscope", "huggingface"]


class FilePin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a model: its name inside the model's folder (with `/`), and the only content that is accepted."""

    name: str
    size_bytes: int
    sha256: str


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a model's files can be had: packages of PyPI or Debian, or a repository of a hub."""

    kind: SourceKind
    packages: tuple[str, ...] = ()
    repo: str = ""
    revision: str = ""
    folder: str = ""
    parts: dict[str, tuple[str, ...]] = {}
    download_bytes: int = 0

    @property
    def label(self) -> str:
        """What people read: the kind and the names to look for."""
        return f"{self.kind} {' '.join(self.packages) or self.repo}"

    def members(self, name: str) -> tuple[str, ...]:
        """The source's own paths of what a file is joined of."""
        return self.parts.get(name) or (f"{self.folder}/{name}" if self.folder else name,)


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: a model, or recordings to test with (task `recordings`).

    One that is `bundled` lies in the package itself: it is always installed, and has no sources.
    """

    id: str
    family: str
    task: Literal["vad", "asr", "punctuation", "recordings"]
    languages: tuple[str, ...]
    licence: str
    files: tuple[FilePin, ...]
    sources: tuple[Source, ...] = ()
    bundled: bool = False
    tail_padding_ms: int = 0
    profiles: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes on disk once installed."""
        return sum(pin.size_bytes for pin in self.files)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[Model, ...]


@cache
def catalogue() -> Mapping[str, Model]:
    """What this version of StreamScribe can install, by id, in the order of the file."""
    text = resources.files("streamscribe.models").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return MappingProxyType({model.id: model for model in msgspec.toml.decode(text, type=_Document).models})


def find(model_id: str) -> Model:
    """The entry of that id; raises NotFound, whose message names those there are, and the nearest last."""
    try:
        return catalogue()[model_id]
    except KeyError:
        near = did_you_mean(model_id, catalogue())
        raise NotFound(f"there is no model {model_id!r}; there are: {', '.join(catalogue())}{near}") from None


def of_profile(profile: str) -> tuple[Model, ...]:
    """The models that a server with this `model.profile` needs; none for one that needs no files."""
    return tuple(model for model in catalogue().values() if profile in model.profiles)
