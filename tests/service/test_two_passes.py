"""Two passes at a whole server, with the models that come with the package: both finals, hot words, files."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
import yaml

from streamscribe.bench.recordings import RECORDINGS, Recording, recordings
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.control.keys import new_key
from streamscribe.core.options import Mode
from streamscribe.models.registry import open_verified
from streamscribe.wire.native_server import ResultMessage, ServerWire
from tests.fakes import funasr_clients as clients
from tests.fakes.funasr_client import Recording as FunasrRecording
from tests.fakes.funasr_socket import converse
from tests.service.conftest import EVERYBODY
from tests.service.kit import RATE, cut, figure, finals_of, session, spoken, until_no_session, wav

pytestmark = pytest.mark.timeout(120)

PACKET_BYTES = 3200
SILENCE = np.zeros(RATE, np.int16)


@pytest.fixture(scope="module")
def tiny() -> Iterator[RunningServer]:
    with LocalServer(["--profile", "tiny", *EVERYBODY]) as running:
        yield running


@pytest.fixture(scope="module")
def dialogues() -> list[Recording]:
    """Two sentences each, with a rest between them, and no number, which would be written in digits."""
    return [one for one in recordings("paused") if not set(one.text) & set("零一二三四五六七八九")]


def pcm(samples: np.ndarray) -> bytes:
    """With a rest before and behind it."""
    return np.concatenate([SILENCE, samples, SILENCE]).tobytes()


def results_of(messages: list[ServerWire]) -> list[ResultMessage]:
    return [message for message in messages if isinstance(message, ResultMessage)]


def heard(messages: list[ServerWire], pass_: int) -> list[tuple[str, ...]]:
    """The words of each final of the pass."""
    return [tuple(spoken(m.text)) for m in results_of(messages) if m.is_final and m.pass_ == pass_]


def sentences(one: Recording) -> list[tuple[str, ...]]:
    return [(sentence,) for sentence in one.text.split()]


async def test_a_segment_grows_and_then_gets_the_final_of_each_pass(
    tiny: RunningServer, dialogues: list[Recording]
) -> None:
    grown = 0
    assert len(dialogues) >= 2
    for one in dialogues:
        messages = await session(tiny.address.websocket, cut(pcm(one.samples), PACKET_BYTES))
        assert heard(messages, 1) == heard(messages, 2) == sentences(one)
        for segment in (0, 1):
            versions = [m for m in results_of(messages) if m.segment_id == segment]
            assert [m.version for m in versions] == sorted({m.version for m in versions})
            *partials, first, second = versions
            assert ((first.pass_, first.is_final), (second.pass_, second.is_final)) == ((1, True), (2, True))
            assert (first.start_ms, first.end_ms) == (second.start_ms, second.end_ms)
            assert not any(m.is_final for m in partials)
            grown += bool(partials)  # those that are overtaken are not told
    assert grown >= len(dialogues)


async def test_law_6_where_the_audio_ends_soon_after_its_last_word_nothing_is_lost_or_made_up(
    tiny: RunningServer, dialogues: list[Recording]
) -> None:
    for one in dialogues:
        for samples in (one.samples, one.samples[: one.speech_end]):
            messages = await session(tiny.address.websocket, cut(samples.tobytes(), PACKET_BYTES))
            assert heard(messages, 1) == heard(messages, 2) == sentences(one)


@pytest.mark.parametrize(("mode", "passes"), [(Mode.ONLINE, {1}), (Mode.OFFLINE, {2})])
async def test_one_pass_is_had_alone(
    mode: Mode, passes: set[int], tiny: RunningServer, dialogues: list[Recording]
) -> None:
    messages = await session(tiny.address.websocket, cut(pcm(dialogues[0].samples), PACKET_BYTES), mode=mode)
    assert {m.pass_ for m in results_of(messages)} == passes
    assert heard(messages, *passes) == sentences(dialogues[0])


async def test_law_4_many_at_once_hear_what_one_hears_alone_whatever_the_packets(
    tiny: RunningServer, dialogues: list[Recording]
) -> None:
    async def finals(one: Recording, size: int) -> list[tuple[object, ...]]:
        messages = await session(tiny.address.websocket, cut(pcm(one.samples), size))
        return [(m.segment_id, m.pass_, m.text, m.start_ms, m.end_ms) for m in results_of(messages) if m.is_final]

    alone = [sorted(await finals(one, PACKET_BYTES), key=str) for one in dialogues]
    sizes = (1001, PACKET_BYTES, 20_000)
    together = await asyncio.gather(*(finals(one, size) for size in sizes for one in dialogues for _ in range(3)))
    expected = [one for _ in sizes for one in alone for _ in range(3)]
    assert [sorted(one, key=str) for one in together] == expected
    await until_no_session(tiny)
    assert await figure(tiny, "streamscribe_failed_sessions_total") == 0
    steps = await figure(tiny, "streamscribe_step_batch_size_count")
    assert await figure(tiny, "streamscribe_step_batch_size_sum") > 1.5 * steps


@pytest.mark.parametrize("mode", ["2pass", "online", "offline"])
async def test_funasr_s_page_shows_the_whole_text(mode: str, tiny: RunningServer, dialogues: list[Recording]) -> None:
    audio = pcm(dialogues[0].samples)
    client = clients.Html5(mode, FunasrRecording(audio, wav(audio), rate=RATE))
    assert tiny.address.funasr is not None
    await converse(client, f"{tiny.address.funasr}/")
    assert "".join(spoken(client.shown)) == dialogues[0].text.replace(" ", "")
    modes = {message["mode"] for message in client.answers if message["text"]}
    assert modes == {"2pass": {"2pass-online", "2pass-offline"}, "online": {"2pass-online"}}.get(mode, {"offline"})


async def test_a_file_is_heard_by_the_second_pass(tiny: RunningServer, dialogues: list[Recording]) -> None:
    one = dialogues[0]
    messages = await session(tiny.address.websocket, cut(pcm(one.samples), PACKET_BYTES), mode=Mode.OFFLINE)
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.post(
            f"{tiny.address.http}/v1/audio/transcriptions",
            files={"file": ("a.wav", wav(pcm(one.samples)))},
            data={"response_format": "verbose_json"},
        )
    assert answer.status_code == 200
    told = [(segment["text"], segment["start"]) for segment in answer.json()["segments"]]
    assert told == [(final.text, final.start_ms / 1000) for final in finals_of(messages)]


async def test_rare_names_are_written_for_the_tenant_that_lists_them_and_for_no_other(tmp_path: Path) -> None:
    files = open_verified(RECORDINGS, tmp_path)
    names = json.loads(files["hotwords.json"].read_text(encoding="utf-8"))[:8]
    tenants = tmp_path / "tenants.yaml"
    keys = {tenant: new_key(tenants, tenant) for tenant in ("acme", "other")}
    content = yaml.safe_load(tenants.read_text())
    content["tenants"]["acme"]["hotwords"] = [entry["name"] for entry in names]
    tenants.write_text(yaml.safe_dump(content, allow_unicode=True))
    with LocalServer(["--profile", "tiny", *EVERYBODY, "--tenants", str(tenants)]) as server:

        async def texts(key: str) -> list[str]:
            said = [soundfile.read(files[entry["file"]], dtype="int16")[0] for entry in names]
            packets = [cut(pcm(samples), PACKET_BYTES) for samples in said]
            every = await asyncio.gather(*(session(server.address.websocket, one, key=key) for one in packets))
            return ["".join(final.text for final in finals_of(messages)) for messages in every]

        acme, other = [await texts(key) for key in keys.values()]
    assert sum(entry["name"] in text for entry, text in zip(names, acme, strict=True)) >= len(names) / 2
    assert not [text for text in other for entry in names if entry["name"] in text]
