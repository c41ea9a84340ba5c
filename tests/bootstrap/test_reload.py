"""A platform's models brought to other settings."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading
from streamscribe.models.pool import Models, Recognition
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import ModelSettings
from tests.models.tiny import BUNDLED

pytestmark = pytest.mark.models


class Told:
    """An observer, and what it was told."""

    def __init__(self) -> None:
        self.swaps: list[tuple[str, str]] = []

    def model_swapped(self, role: str, result: str) -> None:
        self.swaps.append((role, result))


@asynccontextmanager
async def tiny(model_dir: Path, free: float = 1e12, **more: Any) -> AsyncIterator[tuple[Models, Reloading, Told]]:
    loader, told, settings = ModelLoader(), Told(), of(model_dir, **more)
    models = loader.models(settings)
    models.start()
    try:
        models.wait_ready()
        yield models, Reloading(models, loader, settings, told, free=lambda: free), told
    finally:
        models.close()


def of(model_dir: Path, **more: Any) -> ModelSettings:
    return ModelSettings.model_validate({"profile": "tiny", "dir": model_dir, **more})


def current(models: Models) -> Mapping[str, object]:
    first, marks = models.first_pass, models.punctuation
    assert first is not None
    assert marks is not None
    return {"recognizer": models.recognition.current, "first-pass": first.current, "punctuation": marks.current}


async def test_only_what_has_changed_is_replaced(model_dir: Path) -> None:
    async with tiny(model_dir) as (models, reloading, told):
        before = current(models)
        assert await reloading.to(of(model_dir)) == {}
        assert await reloading.to(of(model_dir, second_pass="sensevoice")) == {"recognizer": "done"}
        after = current(models)
        assert [role for role in before if before[role] is not after[role]] == ["recognizer"]
        assert models.recognition.current.recognizer.identity[0] == "sense-voice"
        assert await reloading.to(of(model_dir, second_pass="sensevoice", threads=2)) == dict.fromkeys(before, "done")
        assert len(told.swaps) == 4
        assert models.ready


async def test_other_files_in_the_same_folder_are_another_version(model_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny-punc"
    shutil.copytree(BUNDLED / "tiny-punc", folder)
    folders = {"tiny-punc": folder}
    async with tiny(model_dir, folders=folders) as (models, reloading, _):
        assert models.punctuation is not None
        before = models.punctuation.current.source
        assert await reloading.to(of(model_dir, folders=folders)) == {}
        (folder / "notes.txt").write_text("retrained")
        assert await reloading.to(of(model_dir, folders=folders)) == {"punctuation": "done"}
        assert models.punctuation.current.source != before


async def test_where_two_versions_have_no_room_the_one_that_serves_goes_on(model_dir: Path) -> None:
    async with tiny(model_dir, free=1000) as (models, reloading, told):
        before = current(models)
        assert await reloading.to(of(model_dir, second_pass="sensevoice")) == {"recognizer": "memory"}
        assert current(models) == before
        assert told.swaps == [("recognizer", "memory")]


async def test_a_gpu_without_room_is_asked_for_models_that_may_run_there_alone(model_dir: Path, tmp_path: Path) -> None:
    loader, told, settings = ModelLoader(), Told(), of(model_dir)
    models = loader.models(settings)
    asked: list[str] = []

    def gpu_free(device: str) -> float:
        asked.append(device)
        return 1000

    models.start()
    try:
        models.wait_ready()
        reloading = Reloading(models, loader, settings, told, free=lambda: 1e12, gpu_free=gpu_free)
        folders = {"tiny-punc": shutil.copytree(BUNDLED / "tiny-punc", tmp_path / "punc")}
        changed = of(model_dir, second_pass="sensevoice", folders=folders)
        (folders["tiny-punc"] / "notes.txt").write_text("retrained")
        assert await reloading.to(changed) == {"recognizer": "memory", "punctuation": "done"}
        assert asked == ["cpu"]
    finally:
        models.close()


async def test_the_settings_bound_the_memory_too(model_dir: Path) -> None:
    async with tiny(model_dir) as (_, reloading, _told):
        bounded = of(model_dir, second_pass="sensevoice", max_memory_bytes=2**20)
        assert await reloading.to(bounded) == {"recognizer": "memory"}
        assert await reloading.to(of(model_dir, second_pass="sensevoice")) == {"recognizer": "done"}


async def test_another_profile_needs_a_restart(model_dir: Path) -> None:
    async with tiny(model_dir) as (models, reloading, told):
        before = current(models)
        assert await reloading.to(ModelSettings(profile="fake")) == {}
        assert current(models) == before
        assert told.swaps == []


async def test_a_model_for_short_segments_and_one_for_long_ones_come_in_place_of_one(model_dir: Path) -> None:
    async with tiny(model_dir) as (models, reloading, _):
        assert await reloading.to(of(model_dir, second_pass="auto", auto_up_to_ms=2000)) == {"recognizer": "done"}
        assert [part.name for part in models.recognition.current.parts] == ["recognizer-short", "recognizer-long"]
        sources = [
            models.recognition.current.source(SegmentRequest(np.zeros(16 * ms, np.float32))) for ms in (2000, 2001)
        ]
        assert [source[1] for source in sources] == ["sense-voice", "paraformer"]
        assert models.ready
        assert await reloading.to(of(model_dir, second_pass="auto", auto_up_to_ms=2000)) == {}


class _Stuck(ModelLoader):
    """Loads versions of a recogniser that hang while the gate is shut."""

    def __init__(self, *, warming: bool) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.entered: Callable[[], None] = lambda: None
        self._warming = warming

    def recognition(self, settings: ModelSettings) -> Recognition:
        self.entered()
        if self._warming:
            version = super().recognition(settings)
            for part in version.parts:
                part._warm_up = [self.gate.wait]  # type: ignore[attr-defined]
            return version
        self.gate.wait()
        return super().recognition(settings)


@pytest.mark.parametrize("warming", [False, True], ids=["load", "warm-up"])
async def test_a_version_that_hangs_is_refused_after_a_while_and_the_next_reload_goes_on(
    model_dir: Path, warming: bool
) -> None:
    loader, told, settings = _Stuck(warming=warming), Told(), of(model_dir)
    models = loader.models(settings)
    models.start()
    try:
        await asyncio.to_thread(models.wait_ready)
        before = current(models)
        reloading = Reloading(models, loader, settings, told, free=lambda: 1e12)
        loop = asyncio.get_running_loop()
        loader.gate.clear()
        loader.entered = lambda: loop.call_soon_threadsafe(loop.call_later, 2.0, loader.gate.set)
        stuck = reloading.to(of(model_dir, second_pass="sensevoice", swap_timeout_s=1))
        again = reloading.to(of(model_dir, second_pass="sensevoice", swap_timeout_s=600))
        assert await asyncio.gather(stuck, again) == [{"recognizer": "timeout"}, {"recognizer": "done"}]
        after = current(models)
        assert [role for role in before if before[role] is not after[role]] == ["recognizer"]
        assert told.swaps == [("recognizer", "timeout"), ("recognizer", "done")]
    finally:
        loader.gate.set()
        await asyncio.to_thread(models.close)
