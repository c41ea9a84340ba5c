"""OpenAI's audio API, asked by OpenAI's own SDK and by hand."""

import asyncio
import glob
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.core.options import Hotword, Mode, Task
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from tests.audio.files import make
from tests.gateway.rest_rig import final, serving
from tests.security.audio_corpus import hostile

SOME_HOSTILE = {"sdp.wav", "empty.wav", "text.wav", "forged.flac", "damaged.flac", "magic_only.m4a", "ten_hours.opus"}
"""One of each kind: all of them meet the same decoder in tests/security."""

HELLO = (final(0, "Hello there."), final(1, "你好。", "zh"), final(2, "好的", "zh"), final(3, "Good bye."))
TEXT = "Hello there.你好。好的Good bye."


class Keys:
    """One key, one session."""

    def authenticate(self, key: str) -> Tenant | None:
        return Tenant(TenantId("acme"), 1) if key == "right" else None


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    return make(tmp_path, "wav", 3.0)


@pytest.fixture(autouse=True)
def _own_temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads of other servers on this machine are not ours to count."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


def uploads_left() -> list[str]:
    return glob.glob(f"{tempfile.gettempdir()}/streamscribe-*")


async def post(base_url: str, path: Path | None, task: str = "transcriptions", **fields: str) -> httpx.Response:
    files = {"file": ("a.wav", path.read_bytes())} if path else {"other": (None, b"")}
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(f"{base_url}/v1/audio/{task}", data={"model": "whisper-1"} | fields, files=files)


def error_of(response: httpx.Response) -> dict[str, str]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, str] = body["error"]
    return error


async def test_json_holds_the_joined_text_and_the_usage(wav: Path) -> None:
    async with serving(*HELLO) as service:
        answer = await service.openai.audio.transcriptions.create(model="whisper-1", file=wav)
        assert answer.text == TEXT
        assert answer.usage is not None
        assert answer.usage.type == "duration"
        assert answer.usage.seconds == 3
        assert service.worker.received_bytes == 3 * 32_000
        assert service.worker.options is not None
        assert service.worker.options.mode is Mode.OFFLINE
        assert not service.worker.options.live
    assert uploads_left() == []


async def test_verbose_json_holds_segments_and_words_as_asked(wav: Path) -> None:
    async with serving(*HELLO) as service:
        create = service.openai.audio.transcriptions.create
        both = await create(
            model="whisper-base",
            file=wav,
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
        )
        assert (both.task, both.language, both.duration) == ("transcribe", "en", 3.0)
        assert both.segments is not None
        assert both.words is not None
        assert [(one.id, one.start, one.end, one.text) for one in both.segments][1] == (1, 1.0, 1.9, "你好。")
        assert both.segments[0].avg_logprob == pytest.approx(-0.6931)
        assert (both.words[1].word, both.words[1].start, both.words[1].end) == ("there.", 0.1, 0.2)
        assert service.worker.options is not None
        assert service.worker.options.words
        plain = await create(model="whisper-1", file=wav, response_format="verbose_json")
        assert plain.words is None
        assert plain.segments is not None
        assert not service.worker.options.words


@pytest.mark.parametrize(("format_", "begins"), [("text", TEXT + "\n"), ("srt", "1\n00:00:00,000"), ("vtt", "WEBVTT")])
async def test_text_and_subtitles_are_plain_bodies(format_: str, begins: str, wav: Path) -> None:
    async with serving(*HELLO) as service:
        answer = await service.openai.audio.transcriptions.create(
            model="whisper-1",
            file=wav,
            response_format=format_,  # type: ignore[arg-type]
        )
        assert str(answer).startswith(begins)


async def test_a_stream_has_openais_events_and_its_deltas_make_the_text(wav: Path) -> None:
    async with serving(*HELLO) as service:
        stream = await service.openai.audio.transcriptions.create(model="whisper-1", file=wav, stream=True)
        events = [event async for event in stream]
    assert [event.type for event in events] == ["transcript.text.delta"] * 4 + ["transcript.text.done"]
    assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == TEXT
    last = events[-1]
    assert last.type == "transcript.text.done"
    assert last.text == TEXT


async def test_a_stream_tells_segments_and_progress_to_those_who_ask(wav: Path) -> None:
    async with serving(*HELLO) as service:
        response = await post(service.base_url, wav, stream="true", **{"include[]": "progress"})
        again = await post(service.base_url, wav, stream="true", **{"include[]": "logprobs"})
    assert "transcript.text.delta" in again.text
    assert "transcript.text.segment" not in again.text
    assert "progress" not in again.text
    lines = response.text.strip().split("\n\n")
    assert lines.pop() == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    kinds = ["transcript.text.delta", "transcript.text.segment", "streamscribe.progress"]
    assert [event["type"] for event in events] == [*kinds * 4, "transcript.text.done"]
    assert events[4] == {"type": kinds[1], "id": "seg_1", "start": 1.0, "end": 1.9, "text": "你好。"}
    assert events[5] == {"type": kinds[2], "processed_s": 3.9, "duration_s": 3.0}


async def test_a_failure_inside_a_stream_reaches_the_client_as_an_error(wav: Path) -> None:
    async with serving(final(0, "Hello."), error=ModelUnavailable()) as service:
        stream = await service.openai.audio.transcriptions.create(model="whisper-1", file=wav, stream=True)
        with pytest.raises(openai.APIError, match="not available"):
            async for _ in stream:
                pass


async def test_a_failed_session_answers_with_its_error(wav: Path) -> None:
    async with serving(error=ModelUnavailable()) as service:
        response = await post(service.base_url, wav)
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert error_of(response)["code"] == "model_unavailable"


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the SDK's own, of its translations
async def test_translations_ask_for_english(wav: Path) -> None:
    async with serving(final(0, "Hello.")) as service:
        answer = await service.openai.audio.translations.create(model="whisper-1", file=wav)
        assert answer.text == "Hello."
        assert service.worker.options is not None
        assert service.worker.options.task is Task.TRANSLATE


async def test_language_hot_words_and_silence_reach_the_session(wav: Path) -> None:
    async with serving() as service:
        await service.openai.audio.transcriptions.create(
            model="whisper-1",
            file=wav,
            language="zh",
            prompt="Digique Plus, GPT-3.5",
            chunking_strategy={"type": "server_vad", "silence_duration_ms": 500},
            extra_body={"hotwords": "阿里巴巴"},
        )
        options = service.worker.options
    assert options is not None
    assert options.language == "zh"
    assert options.hotwords == (Hotword("阿里巴巴"), Hotword("Digique Plus"), Hotword("GPT-3.5"))
    assert options.endpoint.silence_ms == 500


async def test_silence_is_an_empty_text(wav: Path) -> None:
    async with serving() as service:
        answer = await service.openai.audio.transcriptions.create(
            model="whisper-1", file=wav, response_format="verbose_json"
        )
    assert (answer.text, answer.segments, answer.language) == ("", [], "und")


@pytest.mark.parametrize("kind", ["flac", "mp3", "ogg", "opus", "m4a", "webm"])
async def test_every_format_is_taken(kind: str, tmp_path: Path) -> None:
    async with serving(final(0, "Hello.")) as service:
        path = make(tmp_path, kind, 2.0)
        answer = await service.openai.audio.transcriptions.create(model="whisper-1", file=path)
        assert answer.text == "Hello."
        assert service.worker.received_bytes == pytest.approx(64_000, abs=3_500)


async def test_models_are_listed_and_an_unknown_one_is_not_found(wav: Path) -> None:
    async with serving() as service:
        assert [model.id async for model in service.openai.models.list()] == ["whisper-1", "whisper-base"]
        assert (await service.openai.models.retrieve("whisper-base")).id == "whisper-base"
        with pytest.raises(openai.NotFoundError) as caught:
            await service.openai.models.retrieve("gpt-5/x")
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as caught:
            await service.openai.audio.transcriptions.create(model="gpt-4o-transcribe", file=wav)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "diarized_json"}, "response_format"),
        ({"temperature": "1.5"}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"timestamp_granularities[]": "phoneme"}, "timestamp_granularities"),
        ({"language": "not a language"}, "language"),
        ({"stream": "perhaps"}, "stream"),
        ({"stream": "true", "response_format": "srt"}, "stream"),
        ({"hotwords": "x" * 65}, "hotwords"),
        ({"chunking_strategy": '{"type": "server_vad", "silence_duration_ms": 1}'}, "chunking_strategy"),
    ],
)
async def test_a_bad_field_is_named(fields: dict[str, str], param: str, wav: Path) -> None:
    async with serving() as service:
        response = await post(service.base_url, wav, **fields)
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert error_of(response)["type"] == "invalid_request_error"
    assert uploads_left() == []


async def test_every_other_refusal_has_openais_body_too(wav: Path) -> None:
    async with serving() as service, httpx.AsyncClient(base_url=service.base_url, timeout=None) as client:
        url = "/v1/audio/transcriptions"
        no_file = await post(service.base_url, None)
        assert (no_file.status_code, error_of(no_file)["param"]) == (400, "file")
        wrong_method = await client.get(url)
        assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "POST")
        assert error_of(wrong_method)["code"] == "method_not_allowed"
        for path in ("/v1/nothing", "/v1/audio/nothing"):
            nothing = await client.post(path)
            assert (nothing.status_code, error_of(nothing)["code"]) == (404, "not_found")
        no_form = await client.post(url, json={"model": "whisper-1"})
        assert (no_form.status_code, error_of(no_form)["code"]) == (415, "unsupported_format")
        form = {"content-type": "multipart/form-data; boundary=x"}
        for body in (b"", b"garbage", b"--x\r\n\r\n", b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc'):
            bad_form = await client.post(url, content=body, headers=form)
            assert (bad_form.status_code, error_of(bad_form)["code"]) == (400, "bad_request")
        long_boundary = {"content-type": f"multipart/form-data; boundary={'y' * 20_000}"}
        assert (await client.post(url, content=b"", headers=long_boundary)).status_code == 400
        two_files = await client.post(url, files=[("file", ("a", b"a")), ("file", ("b", b"b"))])
        assert two_files.status_code == 400
        other_file = await client.post(url, files=[("image", ("a", b"a"))])
        assert other_file.status_code == 400
        long_field = await client.post(url, data={"model": "x" * 70_000}, files={"file": ("a", b"a")})
        assert long_field.status_code == 413
        many_fields = await client.post(url, data={f"f{at}": "" for at in range(300)}, files={"file": ("a", b"a")})
        assert many_fields.status_code == 413
        bytes_field = await client.post(url, data={"model": b"\xff\xfe"}, files={"file": ("a", b"a")})
        assert bytes_field.status_code == 400
    assert uploads_left() == []


async def test_a_file_over_the_limit_is_refused_by_its_length_and_by_counting(wav: Path) -> None:
    async def large() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(200):
            yield bytes(2**16)

    async with serving(limits=LimitSettings(max_upload_bytes=50_000)) as service:
        told = await post(service.base_url, wav)
        assert told.status_code == 413
        headers = {"content-type": "multipart/form-data; boundary=x", "content-length": str(2**40)}
        async with httpx.AsyncClient(base_url=service.base_url, timeout=None) as client:
            request = client.build_request("POST", "/v1/audio/transcriptions", headers=headers, content=b"")
            reader, writer = await asyncio.open_connection(request.url.host, request.url.port)
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\n{head}\r\n".encode())
            assert b" 413 " in await reader.readline()
            writer.close()
            del headers["content-length"]
            counted = await client.post("/v1/audio/transcriptions", headers=headers, content=large())
        assert (counted.status_code, error_of(counted)["code"]) == (413, "too_large")
    assert uploads_left() == []


async def test_an_upload_that_stalls_is_given_up() -> None:
    async with serving(limits=LimitSettings(idle_timeout_s=0.1)) as service:
        host, port = service.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n"
            b"content-type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )
        assert b" 408 " in await reader.readline()
        writer.close()
    assert uploads_left() == []


async def test_a_key_is_needed_and_a_full_tenant_is_told_when_to_come_back(wav: Path, tmp_path: Path) -> None:
    async with serving(store=Keys(), hold=True, api_key="right") as service:
        response = await post(service.base_url, wav)
        assert (response.status_code, error_of(response)["code"]) == (401, "unauthenticated")
        create = service.openai.audio.transcriptions.create
        first = asyncio.create_task(create(model="whisper-1", file=make(tmp_path, "flac", 60.0)))
        await service.worker.begun.wait()
        with pytest.raises(openai.RateLimitError) as caught:
            await create(model="whisper-1", file=wav)
        assert caught.value.code == "quota_exceeded"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        first.cancel()
        await service.worker.abandoned.wait()
    assert uploads_left() == []


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_its_session_and_its_child(stream: bool, tmp_path: Path) -> None:
    async with serving(hold=True) as service:
        asked = service.openai.audio.transcriptions.create(
            model="whisper-1", file=make(tmp_path, "flac", 60.0), stream=stream
        )
        asking = asyncio.create_task(asked)
        await service.worker.begun.wait()
        if stream:
            await (await asking).close()
        asking.cancel()
        await service.worker.abandoned.wait()
    assert uploads_left() == []


async def test_a_file_goes_no_faster_than_the_worker_takes_it(tmp_path: Path) -> None:
    async with serving(hold=True) as service:
        asking = asyncio.create_task(post(service.base_url, make(tmp_path, "flac", 60.0)))
        await service.worker.begun.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert service.worker.received_bytes <= 5 * 32_000
        asking.cancel()


async def test_a_draining_service_refuses(wav: Path) -> None:
    async with serving() as service:
        service.hub.draining = True
        response = await post(service.base_url, wav)
    assert (response.status_code, error_of(response)["code"]) == (503, "draining")
    assert response.headers["retry-after"]


async def test_hostile_files_get_their_errors_and_bodies_without_paths(tmp_path: Path) -> None:
    async with serving() as service:
        for entry in hostile(9):
            if entry.name not in SOME_HOSTILE:
                continue
            path = tmp_path / entry.name
            path.write_bytes(entry.build(tmp_path))
            response = await post(service.base_url, path)
            error = error_of(response)
            assert (response.status_code, error["code"]) in {(e.http_status, e.code) for e in entry.errors}, entry.name
            assert tempfile.gettempdir() not in json.dumps(error)
    assert uploads_left() == []


async def test_a_tenant_has_half_the_places_for_files(wav: Path, tmp_path: Path) -> None:
    async with serving(hold=True, limits=LimitSettings(max_files=2)) as service:
        create = service.openai.audio.transcriptions.create
        first = asyncio.create_task(create(model="whisper-1", file=make(tmp_path, "flac", 60.0)))
        await service.worker.begun.wait()
        refused = await post(service.base_url, wav)
        assert (refused.status_code, error_of(refused)["code"]) == (429, "quota_exceeded")
        assert int(refused.headers["retry-after"]) > 0
        first.cancel()
        await asyncio.wait({first})


async def test_an_upload_that_dribbles_is_given_up_in_all() -> None:
    async with serving(limits=LimitSettings(upload_timeout_s=1)) as service:
        host, port = service.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n"
            b"content-type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )

        async def dribble() -> None:
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.05)

        dribbling = asyncio.create_task(dribble())
        assert b" 408 " in await reader.readline()
        dribbling.cancel()
        await asyncio.wait({dribbling})
        writer.close()
