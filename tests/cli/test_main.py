"""The entry point."""

import os
import sys

import pytest

from streamscribe.cli.main import NUMPY_THREADS, main


@pytest.mark.parametrize(("asked", "taken"), [(None, "1"), ("4", "4")])
def test_numpy_gets_one_thread_where_nobody_asks_for_more(monkeypatch, asked, taken):
    monkeypatch.setenv(NUMPY_THREADS, "to be restored")
    if asked is None:
        monkeypatch.delenv(NUMPY_THREADS)
    else:
        monkeypatch.setenv(NUMPY_THREADS, asked)
    monkeypatch.setattr(sys, "argv", ["streamscribe", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert os.environ[NUMPY_THREADS] == taken
