"""The sums of models' weights, for the keys of what is kept."""

import hashlib

from streamscribe.core.cachekey import encode
from streamscribe.models.registry import catalogue
from streamscribe.settings import ModelSettings

_DIGITS = 12
"""Of a sum, by which people tell two versions apart."""


def weights_digest(settings: ModelSettings, *model_ids: str) -> str:
    """One sum of all the files that models are loaded of: those of the settings' folders as they are now, read whole,
    else the catalogue's pins, which loading has checked; of no files for what has none.
    """
    return "+".join(_digest(settings, model_id) for model_id in model_ids)


def version_of(weights: str, *model_ids: str) -> str:
    """The models' name and version for people: the catalogue's ids, each with the first digits of its sum in `weights`,
    which is of just these."""
    return "+".join(
        f"{model_id}@{sum_[:_DIGITS]}" for model_id, sum_ in zip(model_ids, weights.split("+"), strict=True)
    )


def size_bytes(settings: ModelSettings, model_id: str) -> int:
    """How large the model's files are."""
    if (folder := settings.folders.get(model_id)) is not None:
        return sum(file.stat().st_size for file in folder.expanduser().rglob("*") if file.is_file())
    entry = catalogue().get(model_id)
    return 0 if entry is None else entry.size_bytes


def _digest(settings: ModelSettings, model_id: str) -> str:
    if (folder := settings.folders.get(model_id)) is not None:
        sums = {}
        for file in folder.expanduser().rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    sums[str(file.relative_to(folder.expanduser()))] = hashlib.file_digest(opened, "sha256").hexdigest()
    else:
        entry = catalogue().get(model_id)
        sums = {} if entry is None else {pin.name: pin.sha256 for pin in entry.files}
    return hashlib.sha256(encode(*(field for pair in sorted(sums.items()) for field in pair))).hexdigest()
