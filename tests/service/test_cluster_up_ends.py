"""`streamscribe cluster up`: what who ends it is told, and what it leaves behind."""

import asyncio
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamscribe.bootstrap.cluster.preflight import LEAST_OPEN_FILES
from streamscribe.client.address import websocket_url
from streamscribe.client.native import NativeClient
from tests.service.test_cluster_up import FLAGS, alive, cluster_up

pytestmark = pytest.mark.timeout(150)


async def test_who_ends_it_is_told_of_the_sessions_that_are_waited_for_and_a_second_signal_ends_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with cluster_up(tmp_path, "--workers=1", "--gateways=1") as up:
        async with NativeClient(websocket_url(up.ready["url"])) as client:
            await client.send(bytes(3200))
            up.process.send_signal(signal.SIGINT)
            while "waiting for 1 open session, " not in (said := up.errors.read_text()):
                assert up.process.poll() is None, said
                await asyncio.sleep(0.1)
            assert "another Ctrl-C ends all at once" in said
            up.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(up.process.wait) == -signal.SIGINT
            client.drop_connection()
            while any(alive(role["pid"]) for role in up.ready["roles"]):
                await asyncio.sleep(0.05)
    assert list(temporary.iterdir()) == []


async def test_each_step_of_the_end_is_told_in_turn_and_by_each_role(tmp_path: Path) -> None:
    roles = "--workers=1", "--gateways=1", "--finalizers=1"
    with cluster_up(tmp_path, *roles, "--set=observe.log_level=info") as up:
        up.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(up.process.wait) == 0, up.errors.read_text()[-3000:]
        said = up.errors.read_text()
    steps = [
        "draining the gateways …",
        "letting workers and finalizers leave …",
        "ending the broker and Redis …",
        "The cluster has ended",
    ]
    assert [line for line in said.splitlines() if line in steps] == steps
    begun = said.index(steps[1])
    assert said.index('"event": "draining"') < said.index('"event": "drained"') < begun
    for role, first in ("worker", "leaving the group; "), ("finalizer", "draining: "):
        told = "".join(line for line in said[begun:].splitlines() if line.startswith(f"{role}-0"))
        assert told.index(f'"event": "{first}') < told.index('"event": "left the group"')


def test_too_few_files_that_may_be_open_are_one_line_before_anything_starts(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = subprocess.run(
        [sys.executable, "-m", "streamscribe.cli", "cluster", "up", *FLAGS],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_OPEN_FILES - 1, most)),
    )
    assert (done.returncode, done.stderr.splitlines()) == (
        2, ["error: a process may have 255 files open here, a cluster needs 256; type: ulimit -n 1024"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--set=kafka.gateway_number=1"], "kafka.gateway_number: 2 gateways cannot all be 1; "),
        (["--set=kafka.instance_id=one"], "kafka.instance_id: all workers and finalizers would be one, "),
        (["--workers=1", "--finalizers=2", "--set=kafka.instance_id=one"], "kafka.instance_id: all workers and "),
    ],
)
def test_a_name_or_number_that_only_one_may_have_is_refused_for_several(
    flags: list[str], told: str, tmp_path: Path
) -> None:
    """The small broker does not fence twins: two workers of one name had all partitions each."""
    command = [sys.executable, "-m", "streamscribe.cli", "cluster", "up", *FLAGS, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: setting {told}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
