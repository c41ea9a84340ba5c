"""What holds for every command: help with examples, exit codes, one line for what went wrong, and what to type."""

import json
import socket
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from streamscribe.cli.main import app

HEAVY = ("numpy", "onnxruntime", "ctranslate2", "starlette", "uvicorn", "websockets", "httpx", "pydantic", "jiwer")


def commands(group, path=()):
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


EVERY = list(commands(typer.main.get_command(app)))
FAKE = ("--profile", "fake")


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_help_has_examples_that_begin_with_the_command(command):
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "140"})
    assert shown.exit_code == 0
    examples = [line for line in shown.stdout.split("Examples:")[1].splitlines() if "streamscribe " in line]
    assert f"streamscribe {' '.join(command)}" in examples[0]
    assert all(line.count("streamscribe ") == 1 for line in examples), "one example a line"


def test_the_root_names_every_command_and_the_exit_codes():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "140"}).stdout
    assert all(path[0] in shown for path in EVERY)
    assert "Exit codes: 0 done, 1 failed, 2 usage or settings, 3 a model is not installed, 130 interrupted." in shown


def test_help_imports_no_engine_and_no_server():
    code = f"import sys, streamscribe.cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [["serve"], ["doctor"], ["warmup"], ["transcribe", "x.wav"]], ids=lambda c: c[0])
def test_a_bad_setting_exits_2_with_one_line_that_names_the_field(run, command):
    done = run(*command, "--set", "gateway.port=x")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: setting gateway.port: ")
    assert done.err.count("\n") == 1


def test_a_setting_without_a_value_exits_2_and_says_the_form(run):
    done = run("serve", "--set", "gateway.port")
    assert (done.code, done.err) == (
        2,
        "error: --set gateway.port: write section.field=value, as in gateway.port=8001\n",
    )


@pytest.mark.parametrize("enabled", [False, True])
def test_a_finalizer_whom_no_worker_of_its_settings_asks_says_what_to_set(run, enabled):
    away = {"REDIS_URL": "redis://127.0.0.1:9/0", "KAFKA_BROKERS": "127.0.0.1:9"}
    switch = {"STREAMSCRIBE_FINALIZER__ENABLED": str(enabled)}
    done = run("finalizer", *FAKE, "--health-port", "0", **away, **switch)
    assert done.code == 1
    assert ("STREAMSCRIBE_FINALIZER__ENABLED=true" in done.err) is not enabled


def test_a_small_cluster_joins_no_other_that_the_shell_knows(run, tmp_path):
    production = {"REDIS_URL": "redis://127.0.0.1:9/0", "KAFKA_BROKERS": "127.0.0.1:9"}
    done = run("cluster", "up", *FAKE, PATH=str(tmp_path), **production)
    assert done.code == 2
    assert "127.0.0.1:9" not in done.err
    assert "redis-server" in done.err


@pytest.mark.parametrize("profile", ["whisper", "fake"])
def test_a_model_that_the_profile_has_not_exits_2_and_says_which_profiles_have_it(run, profile):
    done = run("serve", "--profile", profile, "--model", "auto")
    assert (done.code, done.err) == (
        2,
        f"error: setting model.second_pass: {profile} has one model for segments, and no auto; "
        "add --profile tiny or --profile zh\n",
    )


@pytest.mark.parametrize("command", [["serve"], ["warmup"], ["transcribe", "x.wav"], ["demo"]], ids=lambda c: c[0])
def test_missing_models_exit_3_with_the_command_to_type(run, command, tmp_path):
    done = run(*command, STREAMSCRIBE_MODEL__DIR=str(tmp_path / "none"))
    assert (done.code, done.out) == (3, "")
    assert "type: streamscribe models pull --profile whisper" in done.err
    assert done.err.count("\n") == 1


def test_a_taken_port_is_told_in_one_line_with_the_option_that_takes_another(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", *FAKE, "--port", "0", "--funasr-port", str(port))
    assert done.code == 2
    assert done.err.endswith(
        f"error: gateway.funasr_port: cannot listen on 127.0.0.1 port {port}: Address already in use; "
        f"--funasr-port {port + 1} takes another\n"
    )


class TestDoctor:
    def test_on_a_machine_without_models_it_exits_1_and_says_what_to_type(self, run, tmp_path):
        done = run("doctor", "--json", STREAMSCRIBE_MODEL__DIR=str(tmp_path / "none" / "models"))
        told = json.loads(done.out)
        wrong = {finding["name"]: finding["type_this"] for finding in told["findings"] if not finding["ok"]}
        assert (done.code, told["healthy"]) == (1, False)
        pull = "streamscribe models pull --profile whisper"
        assert wrong["model whisper-base"] == wrong["model fsmn-vad"] == pull

    def test_what_several_findings_want_typed_is_said_once(self, run, tmp_path):
        done = run("doctor", "--profile", "zh", STREAMSCRIBE_MODEL__DIR=str(tmp_path / "none"))
        assert done.code == 1
        assert done.out.count(": not installed") == 4
        assert [line.strip() for line in done.out.splitlines() if "pull" in line] == [
            "type: streamscribe models pull --profile zh"
        ]

    @pytest.mark.parametrize(
        ("named", "mark", "lacking"),
        [
            ({}, "✓", "Kafka (KAFKA_BROKERS) and Redis (REDIS_URL)"),
            ({"KAFKA_BROKERS": "127.0.0.1:9"}, "-", "Redis (REDIS_URL)"),
            ({"REDIS_URL": "redis://127.0.0.1:9/0"}, "-", "Kafka (KAFKA_BROKERS)"),
        ],
    )
    def test_which_of_kafka_and_redis_is_not_set_is_said(self, run, named, mark, lacking):
        done = run("doctor", *FAKE, **{"KAFKA_BROKERS": "", "REDIS_URL": "", **named})
        assert f"{mark} cluster: {lacking} not set: " in done.out
        assert done.code == (1 if named else 0), "nobody answers where one is named"

    def test_a_busy_port_is_told_but_does_not_fail_it(self, run):
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            done = run("doctor", *FAKE, "--set", f"gateway.port={port}")
        assert done.code == 0
        assert f"gateway.port: 127.0.0.1:{port}: address already in use" in done.out
        assert f"type: streamscribe serve --port {port + 1}" in done.out

    def test_of_a_cluster_the_ports_of_its_roles_are_looked_at(self, run):
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            ports = [f"--set={name}={port}" for name in ("gateway.port", "worker.health_port", "finalizer.health_port")]
            away = {"KAFKA_BROKERS": "127.0.0.1:9", "REDIS_URL": "redis://127.0.0.1:9/0"}
            done = run("doctor", *FAKE, *ports, "--set=finalizer.enabled=true", **away)
        assert done.code == 1, "its Redis and Kafka are away"
        typed = [line.strip() for line in done.out.splitlines() if str(port + 1) in line]
        assert typed == [
            f"type: streamscribe gateway --port {port + 1}",
            f"type: streamscribe worker --health-port {port + 1}",
            f"type: streamscribe finalizer --health-port {port + 1}",
        ]

    def test_a_redis_that_does_not_answer_or_keeps_nothing_is_told_but_does_not_fail_it(self, run):
        nowhere = [*FAKE, "--set", "cache.redis_url=redis://127.0.0.1:9/0"]
        for more, told in (["--set", "cache.transcripts=true"], "no Redis answers"), ([], "cache.transcripts is off"):
            done = run("doctor", *nowhere, *more)
            assert done.code == 0
            assert any(line.startswith("- Redis: ") and told in line for line in done.out.splitlines())

    def test_a_damaged_model_fails_it(self, run, tmp_path):
        (tmp_path / "models" / "fsmn-vad").mkdir(parents=True)
        (tmp_path / "models" / "fsmn-vad" / "model.onnx").write_text("damaged")
        done = run("doctor", STREAMSCRIBE_MODEL__DIR=str(tmp_path / "models"))
        assert done.code == 1
        assert "type: streamscribe models pull --profile whisper" in done.out


def test_warmup_says_the_seconds_of_each_model(run):
    told = json.loads(run("warmup", *FAKE, "--json").out)
    assert told["profile"] == "fake"
    assert told["devices"].keys() == {"cpu"}
    assert told["devices"]["cpu"]["warmup_s"].keys() == {"vad", "recognizer"}


def test_warmup_of_some_models_and_of_none_that_there_is(run):
    told = json.loads(run("warmup", "--profile", "tiny", "--models", "tiny-punc,tiny-paraformer", "--json").out)
    assert told["devices"]["cpu"]["warmup_s"].keys() == {"recognizer", "punctuation"}
    done = run("warmup", "--profile", "tiny", "--models", "ct-punc")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ct-punc: none of this profile's models; there are: fsmn-vad, tiny-paraformer,")


def test_warmup_on_a_device_that_no_model_can_use_exits_2(run):
    done = run("warmup", *FAKE, "--devices", "cuda")
    assert (done.code, done.err) == (2, "error: setting model.device: cuda: of these models none runs by PyTorch\n")


def test_a_defect_is_one_line_and_says_how_to_see_where(run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import streamscribe.settings\ndef load(*_): raise RuntimeError('boom')\nstreamscribe.settings.load = load\n"
    )
    done = run("doctor", PYTHONPATH=str(tmp_path))
    assert done.code == 1
    assert done.err.startswith("error: RuntimeError: boom\nerror: this is a defect of StreamScribe")


def test_the_shell_is_told_how_a_command_goes_on(run):
    done = run(_STREAMSCRIBE_COMPLETE="complete_bash", COMP_WORDS="streamscribe ser", COMP_CWORD="1")
    assert done.out.split() == ["serve"]
