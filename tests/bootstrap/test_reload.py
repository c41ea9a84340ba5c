"""A platform's models brought to other settings."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamscribe.bootstrap.cluster.finalizer import Hearing
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading, role_of_finalizer, roles_of
from streamscribe.core.batching import Priority
from streamscribe.core.fair_share import NOBODYS
from streamscribe.models.pool import Models, Recognition, start_and_wait
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
        yield models, Reloading(roles_of(models, loader), settings, told, free=lambda: free), told
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
        reloading = Reloading(roles_of(models, loader), settings, told, free=lambda: 1e12, gpu_free=gpu_free)
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
        reloading = Reloading(roles_of(models, loader), settings, told, free=lambda: 1e12)
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


@asynccontextmanager
async def finalizer(model_dir: Path, **more: Any) -> AsyncIterator[tuple[Hearing, Reloading]]:
    loader, settings = ModelLoader(), of(model_dir, **more)
    hearing = Hearing(loader.recognition(settings))
    try:
        await asyncio.to_thread(start_and_wait, hearing.slot.current)
        yield hearing, Reloading([role_of_finalizer(hearing.slot, loader)], settings, Told(), free=lambda: 1e12)
    finally:
        await asyncio.to_thread(hearing.close)


async def test_a_finalizer_takes_another_model_while_what_it_was_asked_before_is_heard_by_the_former(
    model_dir: Path,
) -> None:
    request = SegmentRequest(np.zeros(16_000, np.float32))
    async with finalizer(model_dir) as (hearing, reloading):
        former = hearing.slot.current
        assert await reloading.to(of(model_dir, max_chunk_batch_size=2)) == {}
        asked = [asyncio.ensure_future(hearing(request, Priority.URGENT, 1.0, NOBODYS)) for _ in range(20)]
        await asyncio.sleep(0)
        assert hearing.slot.leases == 20
        assert await reloading.to(of(model_dir, second_pass="sensevoice")) == {"recognizer": "done"}
        await asyncio.gather(*asked)
        assert hearing.slot.versions == (hearing.slot.current,)
        assert hearing.slot.current is not former
        assert hearing.not_ready() == []
        assert (await hearing(request, Priority.URGENT, 1.0, NOBODYS)).text == ""


@pytest.mark.parametrize(("flaw", "why"), [("tail_padding_ms", "more audio"), ("reads_on", "was said before")])
async def test_a_finalizer_refuses_a_model_for_which_its_workers_do_not_cut(
    model_dir: Path, flaw: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with finalizer(model_dir) as (hearing, _):
        loader, settings = ModelLoader(), of(model_dir)

        class Other(ModelLoader):
            def recognition(self, settings: ModelSettings) -> Recognition:
                made = loader.recognition(settings)
                if flaw == "reads_on":
                    return replace(made, reads_on=True)
                made.recognizer.tail_padding_ms += 1  # type: ignore[misc]
                return made

        reloading = Reloading([role_of_finalizer(hearing.slot, Other())], settings, Told(), free=lambda: 1e12)
        assert await reloading.to(of(model_dir, threads=2)) == {"recognizer": "unfit"}
        assert why in capsys.readouterr().out
