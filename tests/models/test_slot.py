"""A slot's versions and their leases, and what is asked before one takes over."""

import asyncio
import gc
import sys
import threading
import weakref
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.memory import free_bytes, gpu_free_bytes, resident_bytes
from streamscribe.models.pool import Recognition
from streamscribe.models.slot import Slot
from streamscribe.models.swap import Refusal, SwapRefused, prepare
from tests.worker.kit import fake_models

SOON_S = 60.0
"""However busy this machine is."""


def version() -> Recognition:
    return fake_models().recognition.current


async def test_a_replaced_version_is_kept_until_its_last_lease_is_back() -> None:
    first, second = version(), version()
    slot = Slot(first)
    leases = [slot.take(), slot.take()]
    assert slot.replace(second) is first
    assert slot.take() is second
    freed = asyncio.create_task(slot.freed(first))
    for lease in leases:
        await asyncio.sleep(0)
        assert not freed.done()
        assert slot.versions == (second, first)
        slot.give_back(lease)
        slot.check_integrity()
    await freed
    assert slot.versions == (second,)


async def test_one_that_nobody_uses_is_free_at_once_also_where_it_returns() -> None:
    first, second = version(), version()
    slot = Slot(first)
    for former, new in ((first, second), (second, first)):
        assert slot.replace(new) is former
        await slot.freed(former)
    assert slot.versions == (first,)


@given(st.lists(st.sampled_from(["take", "back", "replace"]), max_size=40))
def test_leases_add_up_whatever_happens(steps: list[str]) -> None:
    async def run() -> None:
        slot, held = Slot(version()), []
        for step in steps:
            if step == "take":
                held.append(slot.take())
            elif step == "back" and held:
                slot.give_back(held.pop(0))
            elif step == "replace":
                slot.replace(version())
            slot.check_integrity()
            assert slot.leases == len(held)
            assert set(map(id, held)) <= set(map(id, slot.versions))

    asyncio.run(run())


async def test_a_closed_version_leaves_its_engine_to_the_reference_counts() -> None:
    models = fake_models()
    models.start()
    await asyncio.to_thread(models.wait_ready)
    former = models.recognition.replace(version())
    engine = weakref.ref(former.recognizer)
    replica = former.stage
    await models.recognition.freed(former)
    await asyncio.to_thread(models.close)
    await asyncio.to_thread(former.stage.parts[0].close)
    gc.disable()
    try:
        del former
        assert engine() is None
    finally:
        gc.enable()
    assert replica.parts


async def test_what_cannot_be_loaded_or_warmed_or_does_not_fit_is_refused_with_its_reason() -> None:
    def broken() -> Recognition:
        raise ValueError("no  graph\nhere")

    with pytest.raises(SwapRefused, match="ValueError: no graph here") as refused:
        await prepare(broken, lambda new: None, SOON_S)
    assert refused.value.reason is Refusal.DAMAGED
    with pytest.raises(SwapRefused, match="too short") as refused:
        await prepare(version, lambda new: "too short", SOON_S)
    assert refused.value.reason is Refusal.UNFIT

    def dying() -> Recognition:
        made = version()
        for part in made.parts:
            part._warm_up = [_fail]  # type: ignore[attr-defined]
        return made

    with pytest.raises(SwapRefused, match="has stopped") as refused:
        await prepare(dying, lambda new: None, SOON_S)
    assert refused.value.reason is Refusal.WARM_UP


def _fail() -> None:
    raise ModelUnavailable("never warm")


async def test_a_version_that_hangs_while_it_is_loaded_is_given_up_and_closed_when_it_is_there_after_all() -> None:
    go, made = threading.Event(), []

    def hanging() -> Recognition:
        go.wait()
        made.append(version())
        return made[0]

    with pytest.raises(SwapRefused, match=r"not loaded and warm after 0\.05 s") as refused:
        await prepare(hanging, lambda new: None, 0.05)
    assert refused.value.reason is Refusal.TIMEOUT
    for part in (await prepare(version, lambda new: None, SOON_S)).parts:  # the next one does not wait for it
        await asyncio.to_thread(part.close)
    go.set()
    while not made or made[0].stage.parts[0].outage() is None:
        await asyncio.sleep(0.001)


async def test_a_version_whose_warm_up_hangs_is_given_up_and_leaves_nothing_when_that_ends() -> None:
    go, kept, loop = threading.Event(), [], asyncio.get_running_loop()

    def hanging() -> Recognition:
        loop.call_soon_threadsafe(loop.call_later, 0.1, go.set)  # while it is being closed
        made = version()
        kept.append(weakref.ref(made.recognizer))
        for part in made.parts:
            part._warm_up = [go.wait]  # type: ignore[attr-defined]
        return made

    with pytest.raises(SwapRefused) as refused:
        await prepare(hanging, lambda new: None, 0.05)
    assert refused.value.reason is Refusal.TIMEOUT
    del refused
    while not kept or kept[0]() is not None:
        await asyncio.sleep(0.001)
        gc.collect()


async def test_what_is_prepared_is_warm() -> None:
    made = await prepare(version, lambda new: None, SOON_S)
    assert all(part.ready for part in made.parts)
    for part in made.parts:
        await asyncio.to_thread(part.close)


def group(folder: Path, most: str, used: int, inactive: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")


def test_free_memory_is_the_least_that_the_machine_and_each_control_group_leave(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    assert free_bytes(proc, groups) == inf
    (proc / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 60 kB\n")
    assert free_bytes(proc, groups) == 60 * 1024
    (proc / "self/cgroup").write_text("0::/outer/inner\n")
    group(groups / "outer/inner", "max", 7)
    assert free_bytes(proc, groups) == 60 * 1024
    group(groups / "outer", "5000", 4000, inactive=500)
    assert free_bytes(proc, groups) == 1500
    group(groups / "outer/inner", "1000", 4000)
    assert free_bytes(proc, groups) == 0


def test_this_process_has_something_in_memory_and_more_could_be_had() -> None:
    assert resident_bytes() > 2**20
    assert free_bytes() > 0


def test_what_a_gpu_has_free_is_what_nobody_has_and_what_pytorch_keeps_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    available = True
    cuda = SimpleNamespace(
        is_available=lambda: available,
        mem_get_info=lambda device: ({"cuda": 1000, "cuda:1": 50}[device], 9000),
        memory_reserved=lambda device: 300,
        memory_allocated=lambda device: 100,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert [gpu_free_bytes(device) for device in ("cuda", "cuda:1", "cpu")] == [1200, 250, inf]
    available = False
    assert gpu_free_bytes("cuda") == inf
    monkeypatch.delitem(sys.modules, "torch")
    assert gpu_free_bytes("cuda") == inf
