"""Cache keys of Fun-ASR-Nano: whatever decides an embedding or a text changes them."""

from dataclasses import replace

import pytest

from streamscribe.core.cachekey import encode

from .conftest import files_of


@pytest.fixture(scope="module")
def make():
    """A model of tiny parts in the same shape: its identities, with something of it changed."""
    import torch
    from torch import nn

    from streamscribe.models.funasr_torch import nano_identity
    from streamscribe.models.funasr_torch.nano_modules import NanoModules

    class Configured(nn.Linear):
        def __init__(self) -> None:
            super().__init__(1, 1)
            self.config = type("Config", (), {"_attn_implementation": "sdpa"})()

    def identities(change=lambda parts: None, *, device: str = "cpu", **replaced):
        parts = NanoModules(nn.Linear(1, 1), nn.Linear(1, 1), Configured(), None, 3, "", "")
        change(parts)
        parts = replace(parts, **replaced)
        where = torch.device(device)
        return nano_identity.encoder_identity(parts, where), nano_identity.decoder_identity(parts, where)

    return identities


def test_equal_parts_have_equal_identities(make):
    assert make() == make()
    assert make()[0] != make()[1]


@pytest.mark.parametrize("part", ["audio_encoder", "adaptor", "language_model"])
@pytest.mark.parametrize("what", ["class", "dtype", "attention", "adapters", "adapter"])
def test_class_arithmetic_attention_and_adapters_of_each_part_change_its_key(make, part, what):
    import torch

    def change(parts) -> None:
        module = getattr(parts, part)
        match what:
            case "class":
                module.__class__ = type("Another", (type(module),), {})
            case "dtype":
                module.to(torch.bfloat16)
            case "attention":
                module.config = type("Config", (), {"_attn_implementation": "eager"})()
            case "adapters":
                module.peft_config = {"one": None}
            case "adapter":
                module.peft_config = {"two": None}

    keys = [encode(*one) != encode(*other) for one, other in zip(make(), make(change), strict=True)]
    assert keys == ([False, True] if part == "language_model" else [True, False])


@pytest.mark.parametrize("package", ["funasr", "transformers"])
def test_the_version_of_the_library_that_computes_it_changes_a_key(make, monkeypatch, package):
    from streamscribe.models.funasr_torch import nano_identity

    before, version = make(), nano_identity.version
    monkeypatch.setattr(nano_identity, "version", lambda name: "0" if name == package else version(name))
    changed = [one != other for one, other in zip(before, make(), strict=True)]
    assert changed == [package == "funasr", package == "transformers"]


def test_pytorch_the_device_the_token_rule_the_front_end_and_the_schema_change_keys(make, monkeypatch):
    import torch

    from streamscribe.models.funasr_torch import nano_identity

    before = make()

    def changed(after) -> list[bool]:
        return [one != other for one, other in zip(before, after, strict=True)]

    assert changed(make(device="cuda")) == [True, True]
    assert changed(make(halvings=0)) == [True, False]
    for name, value, expected in (
        ("FRONT_END", ("another",), [True, False]),
        ("_SCHEMA", 0, [True, True]),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(nano_identity, name, value)
            assert changed(make()) == expected
    monkeypatch.setattr(torch, "__version__", "0")
    assert changed(make()) == [True, True]


def test_a_key_is_asked_for_at_no_cost(nano_directory, monkeypatch):
    from streamscribe.models.funasr_torch import nano_identity
    from streamscribe.models.funasr_torch.nano import FunAsrNano

    nano = FunAsrNano(files_of(nano_directory))
    monkeypatch.setattr(nano_identity, "version", None)
    assert nano.encoder_identity is nano.encoder_identity
    assert nano.decoder_identity is nano.decoder_identity
    assert nano.front_end == nano.encoder_identity[-len(nano.front_end) :]
