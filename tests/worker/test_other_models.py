"""A session tells which versions of models hear it, and who takes it over with others says so."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Finished, SessionOpened
from streamscribe.models.pool import Models
from tests.worker.kit import fake_models, rig, speech, two_pass_models
from tests.worker.takeover import SESSION, View, live, session

RECORDS = session(speech(1, 900, 900), SessionOptions(), random.Random(1), packet_bytes=3200)


def versions(models: Models, *named: str) -> Models:
    """The models, as of these versions: the detector's, the recogniser's, the first pass'."""
    vad, recognizer, *rest = named
    models.vad_version = vad
    models.recognition.current = replace(models.recognition.current, version=recognizer)
    if models.first_pass is not None:
        models.first_pass.current = replace(models.first_pass.current, version=rest[0])
    return models


async def checkpoints(models: Models) -> Sequence[Checkpoint]:
    models.start()
    life = await live(RECORDS, models, View(), None, ahead=5)
    models.close()
    assert life.checkpoints
    return life.checkpoints


async def test_checkpoints_name_the_versions_that_hear_the_session() -> None:
    told = await checkpoints(versions(two_pass_models(), "vad@1", "big@2", "quick@3"))
    assert {one.models for one in told} == {("vad@1", "big@2", "quick@3")}


async def test_what_has_no_version_is_not_named() -> None:
    assert {one.models for one in await checkpoints(versions(fake_models(), "vad@1", ""))} == {("vad@1",)}


@pytest.mark.parametrize(
    ("had", "told"),
    [(("vad@1", "big@2"), False), (("vad@1", "big@1"), True), (("vad@1",), True), ((), False), (None, False)],
)
async def test_who_takes_a_session_over_with_other_versions_says_so_once_and_hears_it_with_them(
    capsys: pytest.CaptureFixture[str], had: tuple[str, ...] | None, told: bool
) -> None:
    before = next(one for one in await checkpoints(fake_models()) if one.start)
    capsys.readouterr()
    begin = None if had is None else replace(before, models=had)
    async with rig(versions(fake_models(), "vad@1", "big@2")) as worker:
        opened = RECORDS[0]
        assert isinstance(opened, SessionOpened)
        for record in (replace(opened, checkpoint=begin), *RECORDS[1 if begin is None else begin.index :]):
            await worker.bus.publish(record)
        assert isinstance(await worker.over("s"), Finished)
        assert len(worker.observer.of("taken_over_with_other_models")) == told
    logged = [line for line in capsys.readouterr().out.splitlines() if "other models" in line]
    assert len(logged) == told
    for line in logged:
        assert SESSION in line
        assert "big@2" in line
