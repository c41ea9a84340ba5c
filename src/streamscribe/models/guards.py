"""What keeps language models from telling more than was said: audio without sound, and texts that go round."""

from collections.abc import Sequence

import numpy as np

from streamscribe.models.ports import Samples

LOOP_TOKENS = 16
"""Tokens of a loop, all its rounds together, that nobody says: shorter ones are spelt numbers and stammers."""

_SILENT_PEAK = 1e-3
"""-60 dBFS: the loudest sample of what no one can have said."""
_LOOP_TIMES = 4


def is_silent(samples: Samples) -> bool:
    """Whether nothing in the audio is louder than -60 dBFS."""
    return not len(samples) or float(np.abs(samples).max()) < _SILENT_PEAK


def loop_start(tokens: Sequence[int], at_least: int = LOOP_TOKENS) -> int | None:
    """Where the tokens begin to say the same again, for four times and `at_least` tokens or more up to the end."""
    size = len(tokens)
    for period in range(1, size // _LOOP_TIMES + 1):
        repeated = 0
        while repeated < size - period and tokens[size - 1 - repeated] == tokens[size - 1 - repeated - period]:
            repeated += 1
        if repeated + period >= max(_LOOP_TIMES * period, at_least):
            return size - repeated
    return None
