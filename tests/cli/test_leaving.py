"""How `serve` ends where a model does not end its step."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading, time
from streamscribe.cli.serve import leave
threading.Thread(target=time.sleep, args=(1000,), name={name!r}, daemon=True).start()
leave()
sys.exit(7)
"""


@pytest.mark.parametrize(("thread", "code"), [("replica-recognizer", 0), ("another", 7)])
def test_a_server_does_not_wait_for_a_model_that_is_still_in_a_step(thread, code):
    assert subprocess.run([sys.executable, "-c", SCRIPT.format(name=thread)], timeout=60).returncode == code
