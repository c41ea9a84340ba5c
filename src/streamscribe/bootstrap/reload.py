"""New versions of models while they serve: what has changed, and whether there is room for two."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from streamscribe.bootstrap.engines import VAD_ID, punctuator_id, recognizer_ids, streaming_id
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.weights import size_bytes, weights_digest
from streamscribe.models.memory import free_bytes, gpu_free_bytes, resident_bytes, trim
from streamscribe.models.pool import FirstPass, Models, Punctuation, Recognition, close_version
from streamscribe.models.slot import Slot, Version
from streamscribe.models.swap import Refusal, SwapRefused, prepare
from streamscribe.observe.logs import get_logger
from streamscribe.settings import ModelSettings, Settings, SettingsError

BYTES_OF_FILE = 2.5
"""What a model takes while it is loaded and warmed, in sizes of its files: 2.2 were measured of Whisper base."""
DONE = "done"

Recipe = tuple[object, ...]

_OF_SWAPS = frozenset({"folders", "dir", "max_memory_bytes", "swap_timeout_s"})
"""What no version depends on but by its files."""
_SEGMENTS_ONLY = {"second_pass", "auto_short", "auto_long", "auto_up_to_ms", "compute_type", "fake_cost_ms"}
_NOT_OF_RECOGNIZER = frozenset({"engine", "max_chunk_batch_size"})
_NOT_OF_FIRST_PASS = frozenset({*_SEGMENTS_ONLY, "max_batch_size", "max_batch_s"})
_NOT_OF_PUNCTUATION = frozenset({*_SEGMENTS_ONLY, "engine", "device", "max_chunk_batch_size"})


class _Weighed(Version, Protocol):
    @property
    def weights(self) -> str: ...


V = TypeVar("V", bound=_Weighed)

_log = get_logger(__name__)


class ReloadObserver(Protocol):
    """Hears what became of swaps, on the event loop."""

    def model_swapped(self, role: str, result: str) -> None:
        """A role's version was replaced (`done`), or a new one refused for a reason of `models.swap.Refusal`."""
        ...


@dataclass(frozen=True, slots=True)
class Role(Generic[V]):
    """One slot, the catalogue's ids of what fills it, and the settings that its versions do not depend on."""

    name: str
    slot: Slot[V]
    ids: Callable[[ModelSettings], tuple[str, ...]]
    load: Callable[[ModelSettings], V | None]
    unfit: Callable[[V, V], str | None]
    indifferent: frozenset[str]

    def recipe(self, settings: ModelSettings, weights: str) -> Recipe:
        """All that a version is made of."""
        rest = settings.model_dump(mode="json", exclude={*self.indifferent, *_OF_SWAPS})
        return (self.ids(settings), weights, *sorted((name, str(value)) for name, value in rest.items()))

    def flaw(self, weights: str, version: V) -> str | None:
        """Why a version that was to be loaded of such files may not take over."""
        if version.weights != weights:
            return "its files changed while it was loaded"
        return self.unfit(self.slot.current, version)

    def version(self, settings: ModelSettings) -> V:
        """A new one; blocks."""
        version = self.load(settings)
        if version is None:
            raise AssertionError("a profile's roles are those that its models were loaded with")
        return version


class Reloading:
    """Brings the models of a platform to other settings, one role after the other and one call at a time.

    A version is replaced where its settings or the files of its folder have changed; sessions move to the new one at
    their next segment. What is refused, or hangs, leaves the former serving, and is tried again at the next call. The
    profile and voice activity detection change with a restart only.
    """

    def __init__(
        self,
        roles: Sequence[Role[Any]],
        settings: ModelSettings,
        observer: ReloadObserver,
        *,
        replaced: Callable[[], None] = lambda: None,
        free: Callable[[], float] = free_bytes,
        gpu_free: Callable[[str], float] = gpu_free_bytes,
    ) -> None:
        """`replaced` is called when a role has another version, on the event loop.

        `free` tells bytes of memory, `gpu_free` those of a device, infinite where that is no GPU.
        """
        self._settings = settings
        self._observer = observer
        self._replaced = replaced
        self._free = free
        self._gpu_free = gpu_free
        self._one_at_a_time = asyncio.Lock()
        self._roles = roles
        self._serving = {role.name: role.recipe(settings, role.slot.current.weights) for role in roles}

    async def to(self, settings: ModelSettings) -> Mapping[str, str]:
        """What became of each role that was to change: `done` or why not. Returns when former versions are freed."""
        async with self._one_at_a_time:
            was = self._settings
            if settings.profile != was.profile or settings.folders.get(VAD_ID) != was.folders.get(VAD_ID):
                _log.error("models are not replaced: another profile or voice activity detection needs a restart")
                return {}
            self._settings = settings
            told = {role.name: await self._bring(role, settings) for role in self._roles}
            if not any(told.values()):
                _log.info("no model is to be replaced; all other settings hold until a restart")
            return {name: result for name, result in told.items() if result is not None}

    async def _bring(self, role: Role[Any], settings: ModelSettings) -> str | None:
        """What became of it; None where nothing has changed."""
        try:
            recipe, version = await self._load(role, settings)
        except SwapRefused as refused:
            _log.error("a model is not replaced", role=role.name, reason=refused.reason.value, detail=str(refused))
            self._observer.model_swapped(role.name, refused.reason.value)
            return refused.reason.value
        if version is None:
            return None
        former = role.slot.replace(version)
        self._serving[role.name] = recipe
        self._replaced()
        await role.slot.freed(former)
        await asyncio.to_thread(close_version, former)
        del former
        await asyncio.to_thread(trim)
        _log.info("a model was replaced", role=role.name)
        self._observer.model_swapped(role.name, DONE)
        return DONE

    async def _load(self, role: Role[V], settings: ModelSettings) -> tuple[Recipe, V | None]:
        """What the role is to be made of, and a warm version of that unless it serves already."""
        ids = role.ids(settings)
        try:
            weights = await asyncio.to_thread(weights_digest, settings, *ids)
            recipe = role.recipe(settings, weights)
            if recipe == self._serving[role.name]:
                return recipe, None
            self._check_memory(role, settings, ids)
        except OSError as error:
            raise SwapRefused(Refusal.DAMAGED, f"its files cannot be read: {error.strerror}") from None
        version = await prepare(partial(role.version, settings), partial(role.flaw, weights), settings.swap_timeout_s)
        return recipe, version

    def _check_memory(self, role: Role[Any], settings: ModelSettings, ids: tuple[str, ...]) -> None:
        """Raises SwapRefused where a second version has no room beside the one that serves."""
        need = BYTES_OF_FILE * sum(size_bytes(settings, one) for one in ids)
        room, most = self._free(), settings.max_memory_bytes
        if most:
            room = min(room, most - resident_bytes())
        if "device" not in role.indifferent:
            room = min(room, self._gpu_free(settings.device))
        if need > room:
            raise SwapRefused(Refusal.MEMORY, f"{need / 2**20:.0f} MiB are needed, {max(0.0, room) / 2**20:.0f} left")


def roles_of(models: Models, loader: ModelLoader) -> list[Role[Any]]:
    """All that may be replaced of a worker's models."""
    first, marks = models.first_pass, models.punctuation
    roles: list[Role[Any]] = []
    if loader.elsewhere is None:
        roles.append(_recognizer_role(models.recognition, loader, _shorter))
    if first is not None:
        roles.append(
            Role("first-pass", first, _only(streaming_id), loader.first_pass, _other_chunks, _NOT_OF_FIRST_PASS)
        )
    if marks is not None:
        roles.append(
            Role("punctuation", marks, _only(punctuator_id), loader.punctuation, _anything, _NOT_OF_PUNCTUATION)
        )
    return roles


def role_of_finalizer(slot: Slot[Recognition], loader: ModelLoader) -> Role[Recognition]:
    """The recogniser of a finalizer, for which workers cut segments by their settings."""
    return _recognizer_role(slot, loader, _not_for_workers)


def _recognizer_role(
    slot: Slot[Recognition], loader: ModelLoader, unfit: Callable[[Recognition, Recognition], str | None]
) -> Role[Recognition]:
    return Role("recognizer", slot, recognizer_ids, loader.recognition, unfit, _NOT_OF_RECOGNIZER)


def _only(id_of: Callable[[ModelSettings], str | None]) -> Callable[[ModelSettings], tuple[str, ...]]:
    def ids(settings: ModelSettings) -> tuple[str, ...]:
        only = id_of(settings)
        return () if only is None else (only,)

    return ids


def _shorter(former: Recognition, new: Recognition) -> str | None:
    if new.recognizer.max_samples < former.recognizer.max_samples:
        return "it takes shorter segments than sessions cut"
    return None


def _not_for_workers(former: Recognition, new: Recognition) -> str | None:
    if new.recognizer.tail_padding_ms > former.recognizer.tail_padding_ms:
        return "it needs more audio behind a segment than workers send: they have to know of it first"
    if new.reads_on != former.reads_on:
        return "workers send it what was said before where it reads none, or the reverse: they have to know of it first"
    return _shorter(former, new)


def _other_chunks(former: FirstPass, new: FirstPass) -> str | None:
    if new.recognizer.chunk_choices_ms != former.recognizer.chunk_choices_ms:
        return "it takes chunks of other lengths than sessions asked for"
    return None


def _anything(former: Punctuation, new: Punctuation) -> str | None:
    return None


class Reloads(Protocol):
    """Who brings the models to other settings."""

    async def to(self, settings: ModelSettings) -> object:
        """Returns when it is done; what is refused is in the logs."""
        ...


async def reload_at_hangup(asked: asyncio.Event, reloading: Reloads, reread: Callable[[], Settings]) -> NoReturn:
    """Each time that `hangups` was `asked` brings the models to the settings as they are then; ends by cancellation.

    Signals that come meanwhile are one more. Settings that cannot be read change nothing, and the log says why.
    """
    while True:
        await asked.wait()
        asked.clear()
        try:
            settings = await asyncio.to_thread(reread)
        except SettingsError as error:
            _log.error("models are not replaced", detail=str(error))
        else:
            await reloading.to(settings.model)
