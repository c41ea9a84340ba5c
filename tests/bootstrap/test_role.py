"""How a process of `cluster up` is kept alive."""

import asyncio
import errno
import json
import sys

import pytest

from streamscribe.bootstrap.cluster import role as roles
from streamscribe.bootstrap.cluster.child import Child
from streamscribe.bootstrap.cluster.role import Role, RoleDidNotStart

READY = f"print({json.dumps(json.dumps({'url': 'http://here'}))}, flush=True); "
ENDS = f"{READY}import sys; sys.exit(3)"
STAYS = f"{READY}import time; time.sleep(1000)"


class Told:
    """An audience that keeps what it is told."""

    def __init__(self):
        self.lines = []
        self.codes = []
        self.ready = asyncio.Queue()

    def role_ready(self, address):
        self.ready.put_nowait(address)

    def role_ended(self, name, code, pause_s):
        self.codes.append(code)

    def said(self, name, line):
        self.lines.append(line)


@pytest.fixture
def starts(monkeypatch):
    """What becomes of each start in turn: a program's text, or an error."""
    left = []
    start = Child.start

    async def next_start(command, hear_error, *, environment=None, folder=None):
        what = left.pop(0)
        if isinstance(what, OSError):
            raise what
        return await start((sys.executable, "-c", what), hear_error, environment=environment, folder=folder)

    monkeypatch.setattr(Child, "start", next_start)
    monkeypatch.setattr(roles, "Restarts", lambda: _AtOnce())
    return left


class _AtOnce:
    def ended(self, lived_s):
        return 0.0


async def test_a_role_is_started_again_where_for_a_while_no_process_can_be(starts):
    starts += [ENDS, OSError(errno.EMFILE, "Too many open files"), OSError(errno.EAGAIN, "No more processes"), STAYS]
    told = Told()
    role = Role("worker-0", ["worker"], {}, told)
    keeping = asyncio.create_task(role.keep())
    await told.ready.get()
    await told.ready.get()
    role.stop()
    await keeping
    assert told.codes[0] == 3
    assert len(told.codes) == 3
    assert [line for line in told.lines if "Too many open files" in line]


async def test_a_role_that_no_process_can_be_had_for_at_first_has_not_started(starts):
    starts += [OSError(errno.EMFILE, "Too many open files")]
    with pytest.raises(RoleDidNotStart, match=r"^worker-0: no process can be started: .*Too many open files"):
        await Role("worker-0", ["worker"], {}, Told()).keep()
