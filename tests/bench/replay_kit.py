"""A model of two steps that is made in no time, and a workload for it."""

import numpy as np

from streamscribe.bench.replay_stub import StubEncoder
from streamscribe.bench.replay_workload import Clip, Workload, arrivals
from streamscribe.models.ports import Hypothesis


class Model(StubEncoder):
    """Its text is a number for each row that it reads."""

    decoder_identity = ("stub", 1)

    def __init__(self):
        super().__init__(step_s=0.001, item_s=0.0)

    def check_language(self, code):
        """Knows all of them."""

    def decode(self, batch):
        return [Hypothesis(" ".join(f"{value:.6f}" for value in one.embedding[:, 0])) for one in batch]


def workload(distinct=12, requests=20):
    random = np.random.default_rng(7)
    clips = [
        Clip(random.normal(0, 0.1, 3200 + 1600 * at).astype(np.float32), "three words said") for at in range(distinct)
    ]
    return Workload("kit", tuple(clips), tuple(arrivals(distinct, requests)))
