"""docs/deployment.md names commands, settings, ports and paths that there are, and lets nobody be killed too soon."""

import configparser
import re
from pathlib import Path

import pytest
import typer.main
import yaml

from streamscribe.cli.main import app
from streamscribe.gateway.auth import PUBLIC_PATHS
from streamscribe.settings import Settings, load

TEXT = (Path(__file__).parents[2] / "docs/deployment.md").read_text()
SPARE_S = 10.0
DEFAULTS = Settings()
PORTS = {
    "gateway": {DEFAULTS.gateway.port, DEFAULTS.gateway.funasr_port},
    "worker": {DEFAULTS.worker.health_port},
    "finalizer": {DEFAULTS.finalizer.health_port},
}


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def containers():
    for made in yaml.safe_load_all(block("yaml")):
        if made["kind"] == "Deployment":
            spec = made["spec"]["template"]["spec"]
            yield spec["terminationGracePeriodSeconds"], spec["containers"][0]


def longest_end_s(settings: Settings) -> float:
    gateway = settings.gateway
    return max(gateway.drain_grace_s + gateway.drain_timeout_s, settings.finalizer.drain_timeout_s) + SPARE_S


def test_the_environment_of_the_units_is_read_and_they_are_not_killed_before_they_have_drained(monkeypatch):
    for line in block("sh").splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    settings = load()
    assert settings.gateway.drain_grace_s > 0
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(block("ini"))
    assert float(unit["Service"]["TimeoutStopSec"]) >= longest_end_s(settings)
    assert unit["Service"]["ExecStart"].endswith("/streamscribe %i")


def test_pods_run_commands_that_there_are_and_are_not_killed_before_they_have_drained(monkeypatch):
    commands = typer.main.get_command(app).commands
    for grace_s, container in containers():
        program, role, *words = container["command"]
        assert program == "streamscribe"
        commands[role].make_context(role, words)
        for variable in container["env"]:
            monkeypatch.setenv(variable["name"], variable["value"])
        assert grace_s >= longest_end_s(load())


def test_probes_ask_paths_that_are_open_at_ports_of_the_role():
    for _, container in containers():
        ours = PORTS[container["name"]]
        assert {port["containerPort"] for port in container["ports"]} == ours
        probes = [probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")]
        assert len(probes) >= 2
        assert {probe["port"] for probe in probes} <= ours
        assert {probe["path"] for probe in probes} <= PUBLIC_PATHS


@pytest.mark.parametrize("role", PORTS)
def test_the_table_tells_the_ports_of_each_role(role):
    heads, ports = re.findall(r"^\| (?:ports)? ?\|.*\|$", TEXT, re.MULTILINE)
    cell = ports.split("|")[heads.split("|").index(f" {role} ")]
    assert set(map(int, re.findall(r"\d{4,}", cell))) == PORTS[role]


def test_each_setting_and_variable_that_is_named_exists():
    named = set(re.findall(r"`([a-z]+)\.([a-z_]+)`", TEXT))
    named |= {(section.lower(), field.lower()) for section, field in re.findall(r"STREAMSCRIBE_([A-Z]+)__(\w+)", TEXT)}
    assert len(named) > 10
    assert not [one for one in named if not hasattr(getattr(DEFAULTS, one[0], None), one[1])]
