"""OpenAI's SDK at a server with the real models: every format of answer, every container."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import openai
import pytest
import soundfile

from streamscribe.client.local_server import RunningServer
from tests.audio.files import PYAV, SOUNDFILE, encode
from tests.service.kit import spoken

pytestmark = [pytest.mark.models, pytest.mark.timeout(120)]

FOX = "en/quick_brown_fox.wav"


@pytest.fixture
async def sdk(server: RunningServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.address.http}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def fox(recordings: dict[str, Path]) -> list[str]:
    """What the recording says."""
    return spoken(recordings["en/quick_brown_fox.txt"].read_text())


def converted(source: Path, kind: str, folder: Path) -> Path:
    """The recording in another container."""
    samples, rate = soundfile.read(source, dtype="float32")
    path = folder / f"fox.{kind}"
    if kind in SOUNDFILE:
        container, codec, _ = SOUNDFILE[kind]
        soundfile.write(path, samples, rate, format=container, subtype=codec)
    else:
        container, codec, rate_out = PYAV[kind]
        at = np.arange(0, len(samples), rate / rate_out)
        resampled = np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
        encode(path, container, codec, rate_out, resampled[:, None])
    return path


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "opus", "m4a", "webm"])
async def test_every_container_gives_the_same_words(
    kind: str, sdk: openai.AsyncOpenAI, recordings: dict[str, Path], fox: list[str], tmp_path: Path
) -> None:
    file = converted(recordings[FOX], kind, tmp_path)
    answer = await sdk.audio.transcriptions.create(model="whisper-1", file=file, language="en")
    assert spoken(answer.text) == fox


async def test_verbose_json_has_words_and_segments_with_times(
    sdk: openai.AsyncOpenAI, recordings: dict[str, Path], fox: list[str]
) -> None:
    answer = await sdk.audio.transcriptions.create(
        model="whisper-1",
        file=recordings[FOX],
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert spoken(answer.text) == fox
    assert answer.language == "en"
    assert answer.duration == pytest.approx(2.9, abs=0.1)
    assert answer.words is not None
    assert answer.segments is not None
    assert [word for entry in answer.words for word in spoken(entry.word)] == fox
    times = [time for entry in answer.words for time in (entry.start, entry.end)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= answer.duration + 0.01
    assert " ".join(segment.text.strip() for segment in answer.segments) == answer.text.strip()


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
async def test_text_and_subtitles_come_as_text(
    form: str, sdk: openai.AsyncOpenAI, recordings: dict[str, Path], fox: list[str]
) -> None:
    answer: object = await sdk.audio.transcriptions.create(
        model="whisper-1", file=recordings[FOX], response_format=form
    )
    assert isinstance(answer, str)
    begin = {"text": "The", "srt": "1\n00:00:00,", "vtt": "WEBVTT\n"}[form]
    assert answer.startswith(begin)
    lines = [line for line in answer.splitlines() if line and "-->" not in line and line != "WEBVTT"]
    assert [word for line in lines for word in spoken(line) if not word.isdigit()] == fox


async def test_a_stream_tells_deltas_that_make_up_the_text(
    sdk: openai.AsyncOpenAI, recordings: dict[str, Path], fox: list[str]
) -> None:
    stream = await sdk.audio.transcriptions.create(model="whisper-1", file=recordings[FOX], stream=True)
    events = [event async for event in stream]
    deltas = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    assert events[-1].type == "transcript.text.done"
    assert deltas == events[-1].text
    assert spoken(deltas) == fox


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # so the SDK calls its own method
async def test_a_translation_is_english(sdk: openai.AsyncOpenAI, recordings: dict[str, Path]) -> None:
    answer = await sdk.audio.translations.create(model="whisper-1", file=recordings["zh/nihao_shijie.wav"])
    assert "world" in spoken(answer.text)


async def test_chinese_is_written_in_simplified_characters(
    sdk: openai.AsyncOpenAI, recordings: dict[str, Path]
) -> None:
    answer = await sdk.audio.transcriptions.create(model="whisper-1", file=recordings["zh/nihao_shijie.wav"])
    assert spoken(answer.text) == spoken(recordings["zh/nihao_shijie.txt"].read_text())


async def test_the_models_are_listed_and_others_are_not_found(
    sdk: openai.AsyncOpenAI, recordings: dict[str, Path]
) -> None:
    names = [model.id async for model in await sdk.models.list()]
    assert "whisper-1" in names
    assert (await sdk.models.retrieve("whisper-1")).id == "whisper-1"
    with pytest.raises(openai.NotFoundError) as refused:
        await sdk.audio.transcriptions.create(model="no-such-model", file=recordings[FOX])
    assert refused.value.code == "model_not_found"
