"""The model registry: what exists (catalogue), what is on disk (installed), and how it gets there (pull)."""

from streamscribe.models.registry.catalogue import Catalogue, FilePin, Model, Source, catalogue
from streamscribe.models.registry.errors import ChangedOnDisk, NoSpace, NotInstalled, PullFailed
from streamscribe.models.registry.installed import is_installed, open_verified, path, remove, verify
from streamscribe.models.registry.pull import pull
from streamscribe.models.registry.staging import Progress

__all__ = [
    "Catalogue",
    "ChangedOnDisk",
    "FilePin",
    "Model",
    "NoSpace",
    "NotInstalled",
    "Progress",
    "PullFailed",
    "Source",
    "catalogue",
    "is_installed",
    "open_verified",
    "path",
    "pull",
    "remove",
    "verify",
]
