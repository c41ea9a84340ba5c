"""Models loaded and warmed only to see that they can be, and how long that takes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from time import monotonic

from streamscribe.bootstrap.engines import VAD_ID, punctuator_id, recognizer_ids, streaming_id
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.models.stage import Part
from streamscribe.settings import ModelSettings, SettingsError


@dataclass(frozen=True, slots=True)
class Warmed:
    """How long it took to load all, and to warm each."""

    load_s: float
    warmup_s: Mapping[str, float]


def warm(settings: ModelSettings, only: Collection[str] = ()) -> Warmed:
    """Loads and warms the profile's models, or those of these ids `only`, and closes them; blocks.

    Raises SettingsError for an id that is none of the profile's, or a device that none of them can use, and
    ModelUnavailable where one cannot be loaded or warmed, for instance because the device is not there.
    """
    loader = ModelLoader()
    first, marks = streaming_id(settings), punctuator_id(settings)
    roles: dict[str, tuple[set[str], Callable[[], tuple[Part, ...]]]] = {
        "vad": ({VAD_ID}, lambda: (loader.vad(settings)[1],)),
        "recognizer": (set(recognizer_ids(settings)), lambda: loader.recognition(settings).parts),
    }
    if first is not None:
        roles["first-pass"] = ({first}, lambda: made.parts if (made := loader.first_pass(settings)) else ())
    if marks is not None:
        roles["punctuation"] = ({marks}, lambda: made.parts if (made := loader.punctuation(settings)) else ())
    known = {model_id for ids, _ in roles.values() for model_id in ids}
    if unknown := sorted(set(only) - known):
        raise SettingsError(
            f"{', '.join(unknown)}: none of this profile's models; there are: {', '.join(sorted(known))}"
        )
    if settings.device != "cpu" and not _uses_torch(settings):
        raise SettingsError(f"setting model.device: {settings.device}: of these models none runs by PyTorch")
    began = monotonic()
    parts = [part for ids, load in roles.values() if not only or ids & set(only) for part in load()]
    load_s = monotonic() - began
    try:
        for part in parts:
            part.start()
        for part in parts:
            part.wait_ready()
        return Warmed(load_s, {part.name: part.warmup_s for part in parts})
    finally:
        for part in parts:
            part.close()


def _uses_torch(settings: ModelSettings) -> bool:
    second = {settings.second_pass}
    if settings.second_pass == "auto":
        second = {settings.auto_short, settings.auto_long}
    return settings.profile in ("tiny", "zh") and (settings.engine == "torch" or bool(second & {"nano", "funasr"}))
