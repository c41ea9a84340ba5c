"""How commands end where a model does not end its step, or before they have begun."""

import os
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


TOLD = """
import sys
from streamscribe.bootstrap.cluster.up import ClusterAddress
from streamscribe.cli.cluster_up import {who}
onlooker = {who}()
onlooker.ready(ClusterAddress("http://127.0.0.1:1", None, 1.0, (), "127.0.0.1:2", {{}}))
for _ in range(3):
    onlooker.said("worker-0", "a line of its log")
    onlooker.role_ended("worker-0", -9, 1.0)
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("who", "stream", "line", "times"),
    [
        ("_Lines", "stdout", b"a line of its log", 3),
        ("_Lines", "stderr", b'"event":"role_ended"', 3),
        ("_Screen", "stdout", b"worker-0", 6),
        ("_Screen", "stderr", b"The cluster is ready", 1),
    ],
)
def test_a_cluster_goes_on_when_who_read_what_it_says_has_gone_and_says_the_rest(who, stream, line, times):
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writing}
    done = subprocess.run([sys.executable, "-c", TOLD.format(who=who)], timeout=60, check=False, **streams)
    os.close(writing)
    assert done.returncode == 7, done.stderr
    told = done.stderr if stream == "stdout" else done.stdout
    assert told.count(line) == times
    assert b"Error" not in told
