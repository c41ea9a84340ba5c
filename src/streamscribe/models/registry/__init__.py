"""The model registry: what exists (catalogue), what is on disk (disk), and how it gets there (pull)."""

from streamscribe.models.registry.catalogue import FilePin, Model, Source, catalogue, find, of_profile
from streamscribe.models.registry.disk import installed, open_verified, path, remove, verify
from streamscribe.models.registry.errors import ChangedOnDisk, NoSpace, NotInstalled, PartOfThePackage, PullFailed
from streamscribe.models.registry.pull import pull
from streamscribe.models.registry.staging import Progress

__all__ = [
    "ChangedOnDisk",
    "FilePin",
    "Model",
    "NoSpace",
    "NotInstalled",
    "PartOfThePackage",
    "Progress",
    "PullFailed",
    "Source",
    "catalogue",
    "find",
    "installed",
    "of_profile",
    "open_verified",
    "path",
    "pull",
    "remove",
    "verify",
]
