"""What chaos is judged by: scripts, what sessions were told, and one short run."""

import asyncio
import json
import math
import subprocess
import sys

import pytest

from streamscribe.bench.chaos_voice import Script, Voice, held_against
from streamscribe.bench.cluster_faults import longest_wait_s
from streamscribe.bench.load import CHUNK_BYTES, CHUNK_S

SCRIPT = Script.of(1, 14.0)


def result(segment: int, text: str, *, final: bool = True) -> bytes:
    said = {"type": "result", "pass": 2, "segment_id": segment, "text": text, "start_ms": 0, "end_ms": 100}
    return json.dumps(said | {"is_final": final}, separators=(",", ":")).encode()


async def voice(*told: bytes, said: int = 3, heard_ms: int | None = 300) -> Voice:
    """A session that said so many chunks, all acknowledged, and was told this."""
    one = Voice("host", "/", SCRIPT)
    for number in range(said):
        one.say()
        one._take(0x81, b'{"type":"ack","sequence":%d}' % number, 0.0)
    for payload in told:
        one.told(payload, 1000.0)
    if heard_ms is not None:
        one.told(b'{"type":"closed","reason":"end","audio_ms":%d}' % heard_ms, 1000.0)
    return one


def test_a_script_is_the_same_for_a_seed_and_silent_at_its_end() -> None:
    assert Script.of(1, 14.0) == SCRIPT
    assert Script.of(2, 14.0) != SCRIPT
    assert sum(map(len, SCRIPT.chunks)) == 140 * CHUNK_BYTES
    assert not any(SCRIPT.chunks[-1])
    (begin, end), *_ = SCRIPT.bursts
    assert any(SCRIPT.chunks[round((begin + end) / 2 / CHUNK_S)])


async def test_what_is_lost_doubled_changed_and_broken_is_counted_each_for_itself() -> None:
    expected = [await voice(result(0, "a"), result(1, "b"))]
    whole = await voice(result(0, "a", final=False), result(0, "a"), result(1, "b"))
    assert set(list(held_against(expected, [whole]).values())[2:]) == {0}
    lost = held_against(expected, [await voice(result(0, "a"))])
    assert (lost["lost_finals"], lost["changed_finals"]) == (1, 0)
    doubled = held_against(expected, [await voice(result(0, "a"), result(0, "a"), result(1, "b"))])
    assert (doubled["doubled_finals"], doubled["lost_finals"]) == (1, 0)
    changed = held_against(expected, [await voice(result(0, "x"), result(1, "b"))])
    assert (changed["changed_finals"], changed["lost_finals"]) == (1, 0)
    deaf = held_against(expected, [await voice(result(0, "a"), result(1, "b"), heard_ms=100)])
    assert (deaf["lost_acked_audio_s"], deaf["session_errors"]) == (0.2, 0)
    broken = held_against(expected, [await voice(result(0, "a"), result(1, "b"), heard_ms=None)])
    assert (broken["lost_acked_audio_s"], broken["session_errors"]) == (0.3, 1)


async def test_who_is_silent_or_stops_soon_is_not_waited_for() -> None:
    one = await voice(result(0, "a"))
    one._sent_at[0] = 990.0
    (begin, end), *_ = SCRIPT.bursts
    assert one.wait_s(990.0 + end + 0.1, 1.5) is None
    assert one.wait_s(990.0 + end - 1.0, 1.5) is None
    one.told_.texts_at[:] = [990.0 + end - 1.0]
    assert one.wait_s(990.0 + begin + 1.5, 1.5) == pytest.approx(end - begin - 2.5)


async def speaks(*texts_after_s: float) -> Voice:
    """A session whose first burst began at 1000 s, and which was told a text so long after that each."""
    one = await voice(heard_ms=None)
    one._sent_at[0] = 1000.0 - SCRIPT.bursts[0][0]
    one.told_.texts_at[:] = [1000.0 + after_s for after_s in texts_after_s]
    return one


async def test_whoever_falls_silent_for_a_while_and_catches_up_later_is_seen_to_have_waited() -> None:
    steady = await speaks(*(number / 2 for number in range(12)))
    assert longest_wait_s([steady], 1000.0, 1006.0) <= 0.5
    late = await speaks(0.5, 1.5, 40.0)
    assert longest_wait_s([steady, late], 1000.0, 1006.0) == pytest.approx(38.0)
    assert math.isnan(longest_wait_s([], 1000.0, 1006.0))
    assert math.isnan(longest_wait_s([late], 900.0, 906.0))


@pytest.mark.timeout(180)
async def test_workers_are_killed_and_nothing_is_lost() -> None:
    command = [sys.executable, "-m", "streamscribe.cli", "bench", "cluster", "--part", "kill"]
    command += ["--sessions", "4", "--seconds", "10", "--json"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    wrong = ("lost_finals", "doubled_finals", "changed_finals", "lost_acked_audio_s", "session_errors")
    assert [figures[f"kill_{name}"] for name in wrong] == [0] * len(wrong)
    assert figures["kill_finals"] > 0
    assert figures["kill_worker_ends"] >= 1
