"""Which models a profile is made of, and what is said where one is not there."""

from pathlib import Path

import pytest

from streamscribe.bootstrap.engines import engines_of, recognizer_id
from streamscribe.models.registry import catalogue
from streamscribe.settings import ModelSettings, SettingsError
from tests.models.tiny import BUNDLED


def test_a_folder_of_a_model_that_does_not_exist_is_told_and_not_passed_over(tmp_path: Path) -> None:
    settings = ModelSettings(profile="fake", folders={"paraformer_zh": tmp_path})
    with pytest.raises(SettingsError, match=r"model\.folders\.paraformer_zh: there is no such model; .*paraformer-zh"):
        engines_of(settings)


def test_an_empty_folder_is_told_by_its_setting(tmp_path: Path) -> None:
    settings = ModelSettings(profile="zh", folders={"ct-punc": tmp_path})
    with pytest.raises(SettingsError, match=r"model\.folders\.ct-punc: no files in"):
        engines_of(settings)


@pytest.mark.parametrize("profile", ["whisper", "zh"])
def test_what_recognises_segments_can_be_pulled(profile: str) -> None:
    settings = ModelSettings.model_validate({"profile": profile})
    assert recognizer_id(settings) in catalogue()


@pytest.mark.models
@pytest.mark.parametrize("second_pass", ["paraformer", "sensevoice"])
def test_each_engine_asks_for_the_tail_that_the_catalogue_holds_also_for_a_folder_of_the_users(
    model_dir: Path, second_pass: str
) -> None:
    folder = BUNDLED / "tiny-paraformer-streaming"
    settings = ModelSettings.model_validate(
        {"profile": "tiny", "second_pass": second_pass, "dir": model_dir, "folders": {folder.name: folder}}
    )
    engines = engines_of(settings)
    assert engines.streaming is not None
    assert engines.streaming.tail_padding_ms == catalogue()[folder.name].tail_padding_ms == 120
    assert engines.recognizer.tail_padding_ms == catalogue()[recognizer_id(settings)].tail_padding_ms == 200


@pytest.mark.models
def test_whisper_asks_for_the_tail_that_the_catalogue_holds(model_dir: Path) -> None:
    recognizer = engines_of(ModelSettings(dir=model_dir)).recognizer
    assert recognizer.tail_padding_ms == catalogue()["whisper-base"].tail_padding_ms == 300
