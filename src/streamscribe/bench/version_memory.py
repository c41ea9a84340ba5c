"""What one more version of a profile's models takes, measured in a process that does nothing else.

`python -m streamscribe.bench.version_memory FILE` loads and warms all that a swap replaces, twice, by the settings of
FILE, and writes by how many bytes the second version made the process grow: libraries and what all versions share are
in it already. What loading left to the C library is given back before each look.
"""

import subprocess
import sys
from pathlib import Path

from streamscribe.bootstrap.models import ModelLoader
from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.memory import resident_bytes, share_heap, trim
from streamscribe.models.pool import close_version, start_and_wait
from streamscribe.models.slot import Version
from streamscribe.settings import ModelSettings, load


def version_bytes(config: Path) -> int:
    """The growth, of a process of its own; blocks. Raises ModelUnavailable where the models cannot be loaded."""
    command = [sys.executable, "-m", "streamscribe.bench.version_memory", str(config)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ModelUnavailable((done.stderr.strip().splitlines() or ["the models cannot be loaded"])[-1])
    return int(done.stdout.split()[-1])


def _measure(settings: ModelSettings) -> int:
    share_heap()
    loader = ModelLoader()
    kept = _warm(loader, settings)
    trim()
    before = resident_bytes()
    kept += _warm(loader, settings)
    trim()
    grown = resident_bytes() - before
    for version in kept:
        close_version(version)
    return grown


def _warm(loader: ModelLoader, settings: ModelSettings) -> list[Version]:
    made: list[Version] = [loader.recognition(settings)]
    made += [one for one in (loader.first_pass(settings), loader.punctuation(settings)) if one is not None]
    for version in made:
        start_and_wait(version)
    return made


if __name__ == "__main__":
    sys.stdout.write(f"{_measure(load(Path(sys.argv[1])).model)}\n")
