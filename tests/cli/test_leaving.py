"""How commands end where a model does not end its step, or before they have begun."""

import subprocess
import sys

import pytest

from streamscribe.cli.__main__ import main

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


def test_a_ctrl_c_that_comes_while_a_command_imports_ends_it_in_silence(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("streamscribe.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
