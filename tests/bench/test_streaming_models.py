"""Where the models of the step benches come from."""

import pytest

from streamscribe.bench.kinds import Engine, Size
from streamscribe.bench.streaming_models import kept_or_passing, real_size, settings_of, written


def test_a_folder_that_is_there_is_not_written_again(tmp_path):
    def write(target):
        target.mkdir()
        (target / "model").write_text("once")

    assert (written(tmp_path / "kept" / "torch", write) / "model").read_text() == "once"
    assert written(tmp_path / "kept" / "torch", pytest.fail) == tmp_path / "kept" / "torch"


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def write(target):
        target.mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "torch", write)
    assert list(tmp_path.iterdir()) == []


def test_models_that_are_there_need_no_more_packages(tmp_path):
    for name in ("torch", "int8"):
        (tmp_path / name).mkdir()
    assert real_size(tmp_path, Engine.TORCH) == tmp_path / "torch"
    assert real_size(tmp_path, Engine.ONNX) == tmp_path / "int8"


def test_the_model_of_real_size_takes_the_small_ones_place_and_all_cores(tmp_path):
    (tmp_path / "torch").mkdir()
    model = settings_of(Size.REAL, Engine.TORCH, folder=tmp_path, threads=3).model
    assert (model.profile, model.engine, model.threads) == ("tiny", "torch", 3)
    assert model.folders["tiny-paraformer-streaming"] == tmp_path / "torch"
    assert settings_of(Size.TINY, Engine.ONNX, folder=tmp_path, threads=0).model.threads == 1


def test_a_passing_folder_is_gone_at_the_end_and_a_kept_one_is_not(tmp_path):
    with kept_or_passing(None) as passing:
        assert passing.is_dir()
    assert not passing.exists()
    with kept_or_passing(tmp_path) as kept:
        assert kept == tmp_path
    assert tmp_path.is_dir()
