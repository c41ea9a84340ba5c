"""Which models a profile is made of, and what is said where one is not there."""

from pathlib import Path

import pytest

from streamscribe.bootstrap.engines import engines_of, recognizer_id
from streamscribe.models.registry import catalogue
from streamscribe.settings import ModelSettings, SettingsError


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
