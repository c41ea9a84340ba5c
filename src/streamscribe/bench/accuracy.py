"""Error rates of the running service, by WebSocket and by REST, beside the bare engine's on the same files.

The bare engine gets each file whole, without voice activity detection, sessions or text rules: what the service
loses or wins against it is the platform's doing.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import httpx
import numpy as np

from streamscribe.bench.corpus import Utterance, read_manifest, telephone_prompts
from streamscribe.bench.hearing import read
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import corpus_error_rate, counts_characters
from streamscribe.client.address import websocket_url
from streamscribe.client.errors import ConnectionLost
from streamscribe.client.local_server import LocalServer
from streamscribe.client.native import NativeClient
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.options import Mode
from streamscribe.core.script import join
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import ModelSettings, Settings
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage

REST_TIMEOUT_S = 600.0
BLOCK_BYTES = 2 * SAMPLE_RATE
"""A second of audio: what is sent at once."""


@dataclass(frozen=True, slots=True)
class _Spoken:
    """An utterance and its samples, s16le at 16 kHz."""

    utterance: Utterance
    pcm: bytes


Recognise = Callable[[_Spoken], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Heard:
    texts: list[str]
    elapsed_s: float
    audio_s: float


def run(
    settings: Settings,
    *,
    manifest: Path | None,
    prompts: int,
    url: str | None = None,
    key: str | None = None,
    at_once: int = 1,
) -> Report:
    """Measures on a manifest or on telephone prompts, against the server at `url` or one started for it.

    The service gets `at_once` files at a time; its real-time factor is that of one user for 1.
    Raises BadRequest for a manifest that cannot be used, ServerError and ConnectionLost for a server.
    """
    with ExitStack() as stack:
        if manifest is not None:
            corpus = read_manifest(manifest)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="streamscribe-"))
            corpus = telephone_prompts(settings.model.dir.expanduser(), prompts, Path(folder))
        spoken = asyncio.run(_decoded(corpus))
        figures: dict[str, float] = {}
        if url is None:
            with LocalServer() as server:
                figures |= asyncio.run(_through_service(spoken, server.address.http, None, at_once))
                figures["ready_s"] = server.address.ready_s
                figures["peak_memory_mib"] = server.memory_bytes("VmHWM") / 2**20
        else:
            figures |= asyncio.run(_through_service(spoken, url, key, at_once))
        if manifest is None:
            figures |= _rates("bare", spoken, asyncio.run(_through_engine(spoken, settings.model)))
            worst = max(figures["wer_websocket"], figures["wer_rest"])
            figures["wer_above_bare_engine"] = worst - figures["wer_bare"]
    source = str(manifest.name) if manifest else "telephone-prompts"
    parts = {"characters" if counts_characters(one.utterance.text) else "words" for one in spoken}
    parts |= {"own_server"} if url is None else set()
    parts |= {"bare_engine"} if manifest is None else set()
    return report("accuracy", {"corpus": source, "utterances": len(corpus)}, figures, sorted(parts))


async def _decoded(corpus: Iterable[Utterance]) -> list[_Spoken]:
    """Each file is decoded once, and in nobody's time."""
    return [_Spoken(said, (await read(said.audio)).tobytes()) for said in corpus]


async def _through_service(spoken: Sequence[_Spoken], http_url: str, key: str | None, at_once: int) -> dict[str, float]:
    websocket = websocket_url(http_url)
    heard = await _all(spoken, lambda one: _by_websocket(websocket, key, one), at_once)
    figures = _rates("websocket", spoken, heard)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=http_url, headers=headers, timeout=REST_TIMEOUT_S) as client:
        heard = await _all(spoken, lambda one: _by_rest(client, one.utterance), at_once)
    return figures | _rates("rest", spoken, heard)


async def _all(spoken: Sequence[_Spoken], recognise: Recognise, at_once: int = 1) -> _Heard:
    places = asyncio.Semaphore(at_once)

    async def in_turn(one: _Spoken) -> str:
        async with places:
            return await recognise(one)

    began = monotonic()
    texts = await asyncio.gather(*map(in_turn, spoken))
    return _Heard(texts, monotonic() - began, sum(len(one.pcm) for one in spoken) / BLOCK_BYTES)


async def _by_websocket(url: str, key: str | None, spoken: _Spoken) -> str:
    start = StartMessage(language=spoken.utterance.language, itn=False)
    text = ""
    async with NativeClient(url, key=key, start=start) as client, asyncio.TaskGroup() as tasks:

        async def send() -> None:
            for at in range(0, len(spoken.pcm), BLOCK_BYTES):
                await client.send(spoken.pcm[at : at + BLOCK_BYTES])
            await client.end()

        tasks.create_task(send())
        async for message in client:
            if isinstance(message, ResultMessage) and message.is_final and message.pass_ == Mode.TWO_PASS.last_pass:
                text = join(text, message.text)
    return text


async def _by_rest(client: httpx.AsyncClient, utterance: Utterance) -> str:
    fields = {"model": "whisper-1", "response_format": "json"}
    if utterance.language:
        fields["language"] = utterance.language
    try:
        with utterance.audio.open("rb") as file:
            answer = await client.post("/v1/audio/transcriptions", data=fields, files={"file": ("audio.wav", file)})
    except httpx.HTTPError as error:
        raise ConnectionLost(f"REST: {error}") from error
    if not answer.is_success:
        raise ConnectionLost(f"REST: {answer.status_code} {answer.text}")
    return str(answer.json()["text"])


async def _through_engine(spoken: Sequence[_Spoken], settings: ModelSettings) -> _Heard:
    from streamscribe.bootstrap.models import load_models

    recognizer = load_models(settings).recognition.current.recognizer

    async def recognise(one: _Spoken) -> str:
        samples = np.frombuffer(one.pcm, "<i2").astype(np.float32) / np.float32(32768)
        pieces = [samples[at : at + recognizer.max_samples] for at in range(0, len(samples), recognizer.max_samples)]
        text = ""
        for piece in pieces:
            text = join(text, recognizer.recognize([SegmentRequest(piece, one.utterance.language)])[0].text)
        return text

    return await _all(spoken, recognise)


def _rates(name: str, spoken: Sequence[_Spoken], heard: _Heard) -> dict[str, float]:
    """Word error rate of the spaced scripts, character error rate of the others, and the real-time factor."""
    figures: dict[str, float] = {}
    pairs = list(zip([one.utterance.text for one in spoken], heard.texts, strict=True))
    for figure, wanted in ((f"wer_{name}", False), (f"cer_{name}", True)):
        chosen = [pair for pair in pairs if counts_characters(pair[0]) is wanted]
        if chosen:
            figures[figure] = corpus_error_rate([said for said, _ in chosen], [text for _, text in chosen])
    return figures | {f"rtf_{name}": heard.elapsed_s / heard.audio_s}
