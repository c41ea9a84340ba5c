"""Each FunASR client of docs/funasr-compat.md talks to the dialect, and reads the answers as it always has."""

import json
import struct
from typing import Any

import pytest

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.errors import QuotaExceeded
from streamscribe.core.options import Hotword, Mode
from streamscribe.wire.dialects.funasr import FunasrDialect
from tests.fakes import funasr_clients as clients
from tests.fakes import funasr_third_party as third_party
from tests.fakes.funasr_client import Client, Recording
from tests.fakes.scripted_service import ScriptedService, Sentence, silence

CHINESE = (
    Sentence("欢迎大家来体验。", 500, 2000, ((1000, "欢迎"), (1300, "欢迎大家"), (1600, "欢迎大家来体"))),
    Sentence("今天天气很好。", 2500, 3600, ((2900, "今天"), (3200, "今天天气"), (3500, "今天天气很"))),
)
CHINESE_TEXT = "欢迎大家来体验。今天天气很好。"
ENGLISH = (
    Sentence("Good morning everyone.", 500, 2000, ((1000, "good"), (1300, "good morning"), (1600, "good morning"))),
    Sentence("The weather is fine.", 2500, 3600, ((2900, "the weather"), (3300, "the weather is"))),
)
ENGLISH_TEXT = "Good morning everyone. The weather is fine."


def wav(pcm: bytes, rate: int = 16_000, channels: int = 1) -> bytes:
    fmt = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(pcm)) + pcm
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


PCM = silence(4)
RECORDING = Recording(PCM, wav(PCM))
MP3 = Recording(b"", b"ID3" + bytes(5000), "mp3")


def converse(client: Client, service: ScriptedService) -> None:
    """The client sends all it has to send; each answer is read at once."""
    for frame in client.outgoing():
        assert frame is not None, "the client waits, and nothing comes"
        for answer in service.receive(frame):
            client.receive(answer)
    assert client.done


def check_rules(client: Client, utterances: int = 1) -> None:
    """Rule set of docs/funasr-compat.md that holds whatever the client is."""
    for message in client.answers:
        assert message.keys() >= {
            "mode",
            "text",
            "wav_name",
            "is_final",
            "slice_type",
            "index",
            "start_time",
            "end_time",
        }
        assert isinstance(message.get("timestamp", ""), str)
    finals = [message["is_final"] for message in client.answers if not message.get("is_end")]
    assert finals.count(True) == utterances
    assert finals[-1]


def run(client: Client, *utterances: Any, label: Any = "2pass-online", final_pass: int = 2) -> ScriptedService:
    service = ScriptedService(FunasrDialect(label), *(utterances or (CHINESE,)), final_pass=final_pass)
    converse(client, service)
    check_rules(client, len(utterances) or 1)
    assert service.closed_with is None
    return service


class TestHtml5:
    @pytest.mark.parametrize("mode", ["2pass", "online", "offline"])
    def test_its_microphone_shows_the_text_once(self, mode):
        client = clients.Html5(mode, RECORDING)
        run(client)
        assert client.shown == (CHINESE_TEXT if mode != "online" else "欢迎大家来体验。今天天气很好。")

    def test_english_sentences_are_kept_apart(self):
        client = clients.Html5("2pass", RECORDING)
        run(client, ENGLISH)
        assert client.shown == ENGLISH_TEXT

    def test_it_reads_a_time_for_each_clause(self):
        client = clients.Html5("2pass", RECORDING)
        run(client)
        assert client.times == [0.5, 2.5]

    def test_text_whose_stamps_it_would_miscount_comes_without_them(self):
        client = clients.Html5("2pass", RECORDING)
        run(client, (Sentence("It's 2024!", 500, 2000),))
        assert client.shown == "It's 2024!"
        assert "timestamp" not in client.answers[-1]

    def test_its_wav_file_is_read_behind_the_header(self):
        client = clients.Html5("2pass", RECORDING, file=True)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert service.starts[0].audio == AudioFormat()
        assert service.starts[0].mode is Mode.OFFLINE
        assert not service.starts[0].live

    def test_its_mp3_file_is_marked_for_the_decoder(self):
        client = clients.Html5("2pass", MP3, file=True)
        service = ScriptedService(FunasrDialect(), CHINESE)
        frames = client.outgoing()
        service.receive(str(next(frames)))
        frame = next(frames)
        assert isinstance(frame, bytes)
        service.receive(frame)
        assert service.dialect.container == "mp3"  # type: ignore[attr-defined]

    def test_its_hotwords_arrive(self):
        client = clients.Html5("2pass", RECORDING, hotwords='{"阿里巴巴": 20}')
        assert run(client).starts[0].hotwords == (Hotword("阿里巴巴", 20.0),)


class TestPython:
    @pytest.mark.parametrize("asks_ack", [False, True])
    @pytest.mark.parametrize("mode", ["2pass", "online", "offline"])
    def test_it_ends_with_the_whole_text(self, mode, asks_ack):
        client = clients.PythonClient(mode, RECORDING, asks_ack=asks_ack)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert len(service.starts[0].hotwords) == 2

    def test_the_acknowledgement_comes_only_if_asked_for_and_last(self):
        asking = clients.PythonClient("2pass", RECORDING, asks_ack=True)
        run(asking)
        assert [message.get("is_end", False) for message in asking.answers][-2:] == [False, True]
        silent = clients.PythonClient("2pass", RECORDING, asks_ack=False)
        run(silent)
        assert not any("is_end" in message for message in silent.answers)

    def test_the_python_servers_label_for_online_can_be_chosen(self):
        client = clients.PythonClient("online", RECORDING, asks_ack=True)
        run(client, label="online")
        assert client.shown == CHINESE_TEXT
        assert {message["mode"] for message in client.answers} == {"online"}

    def test_a_failure_reaches_the_one_who_waits_for_the_acknowledgement(self):
        client = clients.PythonClient("2pass", MP3, asks_ack=True)
        service = ScriptedService(FunasrDialect())
        with pytest.raises(AssertionError, match="nothing comes"):  # the connection closes under it
            converse(client, service)
        assert client.answers[0]["error"]["code"] == "unsupported_format"
        assert service.closed_with is not None


class TestPythonApis:
    def test_the_client_api_gets_text_in_the_last_message(self):
        client = clients.FunasrClientApi(Recording(silence(3.2)))
        run(client)
        assert client.shown == "今天天气很好。"

    def test_funasr_api_sums_up_the_sentences_of_a_wav_sent_as_pcm(self):
        client = clients.FunasrApi(RECORDING)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert service.starts[0].live


class TestCpp:
    @pytest.mark.parametrize("mode", ["2pass", "online", "offline"])
    def test_the_2pass_client_closes_on_the_only_final(self, mode):
        client = clients.Cpp2Pass(mode, Recording(PCM, rate=8000))
        service = run(client)
        assert service.starts[0].audio.sample_rate == 8000

    def test_the_offline_client_gets_one_message_for_each_file(self):
        recordings = [RECORDING, Recording(PCM, extension="pcm"), RECORDING]
        client = clients.CppOffline(recordings)
        service = run(client, CHINESE, ENGLISH, ())
        assert client.replies == [CHINESE_TEXT, ENGLISH_TEXT, ""]
        assert [start.mode for start in service.starts] == [Mode.OFFLINE] * 3
        assert len({start.hotwords for start in service.starts}) == 1


class TestJava:
    @pytest.mark.parametrize("mode", ["2pass", "offline"])
    def test_it_ends_on_the_final(self, mode):
        client = clients.Java(mode, RECORDING)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert service.starts[0].hotwords == (Hotword("hello", 30.0), Hotword("nihao", 40.0))


class TestCsharp:
    def test_the_online_client_shows_all_sentences_until_the_end(self):
        client = clients.CsharpOnline(RECORDING)
        run(client)
        assert client.shown == CHINESE_TEXT

    def test_its_misspelt_mode_gets_an_answer_that_it_shows(self):
        client = clients.CsharpOnline(RECORDING, file=True)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert service.starts[0].mode is Mode.OFFLINE
        assert "office" in client.answers[0]["warning"]

    def test_the_offline_client_reads_its_stamps(self):
        client = clients.CsharpOffline(RECORDING)
        run(client)
        assert client.shown == CHINESE_TEXT
        assert "timestamp" in client.answers[0]


class TestOthers:
    def test_go_reads_the_one_message(self):
        client = clients.Go(RECORDING)
        run(client)
        assert client.shown == CHINESE_TEXT

    def test_android_replaces_increments_by_sentences(self):
        client = clients.Android(RECORDING)
        run(client)
        assert client.shown == CHINESE_TEXT

    def test_xiaozhi_gets_its_text_without_waiting(self):
        client = third_party.Xiaozhi(RECORDING)
        service = run(client)
        assert client.shown == CHINESE_TEXT
        assert not service.starts[0].itn

    def test_pypis_funasr_client_merges_the_sentences(self):
        client = third_party.FunasrClientPypi("2pass", RECORDING)
        run(client)
        assert client.shown == CHINESE_TEXT


def test_a_refusal_has_every_mandatory_key_and_ends():
    service = ScriptedService(FunasrDialect())
    service.receive('{"mode":"2pass","wav_name":"x","is_speaking":true}')
    (answer,) = service.refuse(QuotaExceeded())
    client = clients.Android(RECORDING)
    client.receive(answer)
    assert client.done
    message = json.loads(answer)
    assert message["text"] == ""
    assert message["wav_name"] == "x"
    assert message["error"] == {"code": "quota_exceeded", "message": "tenant session quota exceeded"}
    assert isinstance(service.closed_with, QuotaExceeded)


def test_a_header_says_what_the_samples_are():
    client = clients.FunasrApi(Recording(b"", wav(PCM, rate=8000)))
    service = run(client)
    assert service.starts[0].audio == AudioFormat(Encoding.PCM_S16, 8000)
