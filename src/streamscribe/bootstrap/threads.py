"""How many threads a model's step has."""

import os

from streamscribe.settings import ModelSettings


def step_threads(model: ModelSettings, processes: int = 1) -> int:
    """Those that were chosen; else one for the short steps of the small models, which others would only wait for, and
    for the others a process' share of the cores, where so many processes have models."""
    return model.threads or (1 if model.profile == "tiny" else max(1, (os.cpu_count() or 1) // max(1, processes)))
