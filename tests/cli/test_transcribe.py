"""`streamscribe transcribe` on the fake models: files, folders, formats, failures. The text is `models`' matter."""

import json
import re

import pytest

FAKE = ("--profile", "fake")


def test_text_goes_to_the_screen_and_nothing_else(run, recording):
    done = run("transcribe", recording("a.wav"), *FAKE)
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"\w+ \w+( \w+)?\n", done.out)


def test_json_of_one_file_is_one_document_with_times(run, recording):
    document = json.loads(run("transcribe", recording("a.wav"), *FAKE, "--json", "--words", "-l", "zh-CN").out)
    assert document["audio_s"] == 1.0
    (segment,) = document["segments"]
    assert segment["language"] == "zh"
    assert segment["text"] == document["text"] == " ".join(word["text"] for word in segment["words"])
    assert 0 <= segment["start_ms"] < segment["end_ms"] <= 1000


@pytest.mark.parametrize(
    ("format_", "begins"), [("srt", "1\n00:00:00,000 --> "), ("vtt", "WEBVTT\n\n00:00:00.000 --> ")]
)
def test_subtitles(run, recording, format_, begins):
    assert run("transcribe", recording("a.wav"), *FAKE, "--format", format_).out.startswith(begins)


def test_standard_input_is_a_recording_too(run, recording):
    document = json.loads(run("transcribe", "-", *FAKE, "--json", stdin=recording("a.wav").read_bytes()).out)
    assert document["file"] == "stdin"
    assert document["text"]


def test_a_file_that_fails_is_reported_and_the_rest_go_on(run, recording, tmp_path):
    (tmp_path / "text.wav").write_text("no audio")
    done = run("transcribe", "text.wav", "absent.wav", "*.xyz", recording("a.wav"), *FAKE, "--json")
    told = {entry["file"].rpartition("/")[2]: entry for entry in json.loads(done.out)}
    assert done.code == 1
    assert told["a.wav"]["text"]
    assert {name: told[name]["error"]["code"] for name in ("text.wav", "absent.wav", "*.xyz")} == {
        "text.wav": "unsupported_format",
        "absent.wav": "not_found",
        "*.xyz": "not_found",
    }
    assert done.err.count("\n") == 3
    assert "error: absent.wav: no such file\n" in done.err


def test_files_of_one_name_do_not_overwrite_each_other(run, recording, tmp_path):
    for name in ("calls/a.wav", "calls/deep/a.wav", "other/a.wav", "a.wav"):
        recording(name)
    done = run("transcribe", "calls", "other/a.wav", "a.wav", "./a.wav", "-o", "texts", *FAKE)
    written = sorted(str(file.relative_to(tmp_path / "texts")) for file in (tmp_path / "texts").rglob("*.txt"))
    assert (done.code, done.out) == (0, "")
    assert written == ["a-2.txt", "a-3.txt", "a.txt", "deep/a.txt"]
    assert done.err.count(" → ") == 4


def test_json_of_a_folder_is_a_list_even_of_one_or_of_none(run, recording, tmp_path):
    recording("calls/a.wav")
    (tmp_path / "empty").mkdir()
    assert len(json.loads(run("transcribe", "calls", *FAKE, "--json").out)) == 1
    empty = run("transcribe", "empty", *FAKE, "--json")
    assert empty.code == 1
    assert json.loads(empty.out)[0]["error"]["message"] == "no recordings in this folder"


@pytest.mark.parametrize("arguments", [["-l", "chinese!"], ["-w", "x" * 65], ["-f", "doc"]], ids=lambda a: a[0])
def test_an_option_that_cannot_be_is_a_mistake_of_usage(run, recording, arguments):
    done = run("transcribe", recording("a.wav"), *FAKE, *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Invalid value for" in done.err


def test_a_folder_that_cannot_be_written_fails_each_file_with_its_reason(run, recording, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").mkdir()
    done = run("transcribe", recording("a.wav"), "-o", "texts", *FAKE)
    assert done.code == 1
    assert "texts/a.txt: Is a directory" in done.err


@pytest.mark.models
def test_a_language_that_the_model_lacks_is_a_mistake_of_usage_that_names_it(run, model_dir):
    file = model_dir / "demo-recordings" / "en" / "counting.wav"
    done = run("transcribe", file, "--language", "xx", STREAMSCRIBE_MODEL__DIR=str(model_dir))
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --language xx: language is not one that this model knows\n"
