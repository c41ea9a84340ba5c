"""What clients get where the second pass is too late, and that they get the better text again."""

import asyncio
from dataclasses import replace

from streamscribe.settings import WorkerSettings
from tests.worker.kit import HeardRecognizer, HeardStreams, rig, speech, two_pass_models
from tests.worker.passes import TWO_PASS, check_law_3, of_pass, play

LATE = WorkerSettings(degrade="first_pass", degrade_after_ms=100)


async def test_a_segment_whose_second_pass_is_late_gets_its_first_text_again_marked_and_later_ones_do_not() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(two_pass_models(recognizer=recognizer), settings=LATE) as worker:
        await play(worker, "s", speech(31, 2000, 2000), TWO_PASS)
        first, second = of_pass(worker.results("s"), 1), of_pass(worker.results("s"), 2)
        assert [one.text for one in second] == [one.text for one in first]
        assert [one.degraded for one in first] == [False, False]
        assert [one.degraded for one in second] == [True, True]
        check_law_3(worker.results("s"))
        assert worker.observer.of("segment_degraded") == [("default",)] * 2
        assert [one.within_s for one in recognizer.requests] == [0.1]  # the second was not asked for
        recognizer.gate.set()
        worker.worker._lag.bound_s = 60  # the next is in time, however busy this machine is
        await play(worker, "t", speech(32, 2000), TWO_PASS)
        assert [one.degraded for one in of_pass(worker.results("t"), 2)] == [False]
        assert worker.observer.of("segment_degraded") == [("default",)] * 2


async def test_a_tenants_late_second_passes_degrade_no_other_tenant() -> None:
    recognizer = HeardRecognizer()
    settings = WorkerSettings(degrade="first_pass", degrade_after_ms=60_000)  # in time, however busy this machine is
    async with rig(two_pass_models(recognizer=recognizer), settings=settings) as worker:
        lag, long_ago_s = worker.worker._lag, asyncio.get_running_loop().time() - 1000
        late, _ = (lag.ask("a", long_ago_s) for _ in range(2))
        assert late is not None
        lag.give_back("a", late, late=True)
        for seed, tenant in enumerate(("a", "b"), 37):
            await worker.open(tenant, TWO_PASS, tenant=tenant)
            await worker.send(tenant, speech(seed, 2000))
            await worker.end(tenant)
            await worker.over(tenant)
        assert [[one.degraded for one in of_pass(worker.results(name), 2)] for name in ("a", "b")] == [[True], [False]]
        assert worker.observer.of("segment_degraded") == [("a",)]


async def test_a_file_waits_for_its_text_however_long_that_takes() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(two_pass_models(recognizer=recognizer), settings=LATE) as worker:
        await play(worker, "live", speech(33, 2000), TWO_PASS)
        assert worker.observer.of("segment_degraded") == [("default",)]
        await worker.open("file", replace(TWO_PASS, live=False))
        await worker.send("file", speech(34, 2000))
        await worker.end("file")
        recognizer.gate.set()
        await worker.over("file")
        assert [one.degraded for one in of_pass(worker.results("file"), 2)] == [False]


class _NoFirst(HeardStreams):
    def step(self, batch):  # type: ignore[no-untyped-def]
        raise ValueError("no first pass")


async def test_where_the_first_pass_failed_too_the_second_tells_the_text_though_late() -> None:
    recognizer = HeardRecognizer()
    models = two_pass_models(_NoFirst(), recognizer)
    async with rig(models, settings=LATE) as worker:
        recognizer.gate.clear()
        await worker.open("s", TWO_PASS)
        await worker.send("s", speech(35, 2000))
        await worker.end("s")
        await recognizer.entered()
        while worker.worker._lag._asked:
            await asyncio.sleep(0)
        recognizer.gate.set()
        await worker.over("s")
        (final,) = worker.finals("s")
        assert (final.pass_, final.degraded, bool(final.text)) == (2, False, True)
        assert recognizer.requests[-1].within_s is None  # nothing else can be told


async def test_without_the_setting_nothing_is_degraded() -> None:
    recognizer = HeardRecognizer()
    async with rig(two_pass_models(recognizer=recognizer)) as worker:
        await play(worker, "s", speech(36, 2000), TWO_PASS)
        assert [one.degraded for one in of_pass(worker.results("s"), 2)] == [False]
