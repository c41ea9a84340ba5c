"""Error rates of the running service, by WebSocket and by REST, beside the bare engine's on the same files.

The bare engine gets each file whole, without voice activity detection, sessions or text rules: what the service
loses or wins against it is the platform's doing.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import httpx
import numpy as np

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.bench.corpus import Utterance, read_manifest, telephone_prompts
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

Recognise = Callable[[Utterance], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Heard:
    texts: list[str]
    elapsed_s: float
    audio_s: float


def run(
    settings: Settings, *, manifest: Path | None, prompts: int, url: str | None = None, key: str | None = None
) -> Report:
    """Measures on a manifest or on telephone prompts, against the server at `url` or one started for it.

    Raises BadRequest for a manifest that cannot be used, ServerError and ConnectionLost for a server.
    """
    with ExitStack() as stack:
        if manifest is not None:
            corpus = read_manifest(manifest)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="streamscribe-"))
            corpus = telephone_prompts(settings.model.dir.expanduser(), prompts, Path(folder))
        figures: dict[str, float] = {}
        if url is None:
            with LocalServer() as server:
                figures |= asyncio.run(_through_service(corpus, server.address.http, None))
                figures["ready_s"] = server.address.ready_s
                figures["peak_memory_mib"] = server.memory_bytes("VmHWM") / 2**20
        else:
            figures |= asyncio.run(_through_service(corpus, url, key))
        if manifest is None:
            bare = asyncio.run(_through_engine(corpus, settings.model))
            figures |= _rates("bare", corpus, bare)
            worst = max(figures["wer_websocket"], figures["wer_rest"])
            figures["wer_above_bare_engine"] = worst - figures["wer_bare"]
    source = str(manifest.name) if manifest else "telephone-prompts"
    return report("accuracy", {"corpus": source, "utterances": len(corpus)}, figures)


async def _through_service(corpus: Sequence[Utterance], http_url: str, key: str | None) -> dict[str, float]:
    websocket = websocket_url(http_url)
    figures = _rates("websocket", corpus, await _all(corpus, lambda u: _by_websocket(websocket, key, u)))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=http_url, headers=headers, timeout=REST_TIMEOUT_S) as client:
        return figures | _rates("rest", corpus, await _all(corpus, lambda u: _by_rest(client, u)))


async def _all(corpus: Sequence[Utterance], recognise: Recognise) -> _Heard:
    lengths_s = [len(await _pcm(utterance)) / 2 / SAMPLE_RATE for utterance in corpus]
    began = monotonic()
    texts = [await recognise(utterance) for utterance in corpus]
    return _Heard(texts, monotonic() - began, sum(lengths_s))


async def _pcm(utterance: Utterance) -> bytes:
    return b"".join([block async for block in decode(utterance.audio, DecodeLimits())])


async def _by_websocket(url: str, key: str | None, utterance: Utterance) -> str:
    start = StartMessage(language=utterance.language, itn=False)
    text = ""
    async with NativeClient(url, key=key, start=start) as client, asyncio.TaskGroup() as tasks:

        async def send() -> None:
            async for block in decode(utterance.audio, DecodeLimits()):
                await client.send(block)
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
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise ConnectionLost(f"REST: {error}") from error
    return str(answer.json()["text"])


async def _through_engine(corpus: Sequence[Utterance], settings: ModelSettings) -> _Heard:
    from streamscribe.bootstrap.models import load_models

    recognizer = load_models(settings).recognition.current.recognizer

    async def recognise(utterance: Utterance) -> str:
        samples = np.frombuffer(await _pcm(utterance), "<i2").astype(np.float32) / np.float32(32768)
        pieces = [samples[at : at + recognizer.max_samples] for at in range(0, len(samples), recognizer.max_samples)]
        text = ""
        for piece in pieces:
            text = join(text, recognizer.recognize([SegmentRequest(piece, utterance.language)])[0].text)
        return text

    return await _all(corpus, recognise)


def _rates(name: str, corpus: Sequence[Utterance], heard: _Heard) -> dict[str, float]:
    """Word error rate of the spaced scripts, character error rate of the others, and the real-time factor."""
    figures: dict[str, float] = {}
    pairs = list(zip([utterance.text for utterance in corpus], heard.texts, strict=True))
    for figure, wanted in ((f"wer_{name}", False), (f"cer_{name}", True)):
        chosen = [pair for pair in pairs if counts_characters(pair[0]) is wanted]
        if chosen:
            figures[figure] = corpus_error_rate([said for said, _ in chosen], [text for _, text in chosen])
    return figures | {f"rtf_{name}": heard.elapsed_s / heard.audio_s}
