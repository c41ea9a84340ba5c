"""What the models of a profile are called, so that people tell two versions apart."""

import shutil
from pathlib import Path

import pytest

from streamscribe.bootstrap.models import load_models
from streamscribe.models.registry import catalogue
from streamscribe.settings import ModelSettings
from tests.models.tiny import BUNDLED


def versions(**settings: object) -> tuple[str, ...]:
    models = load_models(ModelSettings.model_validate(settings))
    try:
        return models.versions
    finally:
        models.close()


def test_the_fake_models_have_a_name_too() -> None:
    (only,) = versions(profile="fake")
    assert only.startswith("fake@")


@pytest.mark.models
def test_each_model_of_a_profile_is_named_by_its_id_and_its_files(model_dir: Path, tmp_path: Path) -> None:
    name = "tiny-paraformer-streaming"
    folder = tmp_path / name
    shutil.copytree(BUNDLED / name, folder)
    pinned = versions(profile="tiny", second_pass="auto", dir=model_dir)
    each = [part.split("@") for one in pinned for part in one.split("+")]
    assert each[0][0] == "fsmn-vad"
    assert len({model for model, _ in each} & catalogue().keys()) == 5
    (folder / "more").write_text("changed")
    changed = versions(profile="tiny", second_pass="auto", dir=model_dir, folders={name: folder})
    assert [(was.split("@")[0], was) for was, now in zip(pinned, changed, strict=True) if was != now] == [
        (name, pinned[2])
    ]
