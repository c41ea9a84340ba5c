"""What can be wrong with a model's files. Each message names the file and says what to type."""

from streamscribe.core.errors import ModelUnavailable


class NotInstalled(ModelUnavailable):
    """The model's files are not in the model folder."""

    def __init__(self, model_id: str) -> None:
        super().__init__(f"model {model_id} is not installed; type: streamscribe models pull {model_id}")


class ChangedOnDisk(ModelUnavailable):
    """Installed files are not those that the catalogue pins; they are not loaded."""

    def __init__(self, model_id: str, problems: list[str]) -> None:
        listed = "; ".join(problems)
        super().__init__(f"model {model_id} is damaged ({listed}); type: streamscribe models pull {model_id}")


class PartOfThePackage(ModelUnavailable):
    """The model comes with StreamScribe: it is neither pulled nor removed."""

    def __init__(self, model_id: str) -> None:
        super().__init__(f"model {model_id} is a part of the package streamscribe; to mend it, install that again")


class NoSpace(ModelUnavailable):
    """The disk has no room for the model; nothing was installed."""


class PullFailed(ModelUnavailable):
    """No source gave the model; the message has each source's reason."""


class SourceFailed(Exception):
    """One source did not give the model; the next one is tried."""
