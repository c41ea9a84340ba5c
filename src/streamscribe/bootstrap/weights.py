"""The sums of models' weights, for the keys of what is kept."""

import hashlib

from streamscribe.core.cachekey import encode
from streamscribe.models.registry import catalogue
from streamscribe.settings import ModelSettings


def weights_digest(settings: ModelSettings, model_id: str) -> str:
    """One sum of all the files that a model is loaded of: those of the settings' folder as they are now, read whole,
    else the catalogue's pins, which loading has checked; of no files for what has none.
    """
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
