"""The replica's thread: who is served together, who hears of which failure, and what an end does."""

import asyncio
import threading

import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import InternalError, ModelUnavailable, Overloaded, TooLarge
from streamscribe.models.pool import Replica
from tests.models.replica_kit import DEADLY, POISON, REFUSED, Bench


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.engine.gate.set()
    bench.replica.close()


async def test_what_waits_during_a_step_shares_the_next_one_and_each_gets_its_own_answer(bench):
    first = await bench.occupy()
    tasks = [bench.submit(number) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    assert await asyncio.gather(first, *tasks) == [0, 2, 4, 6]
    assert bench.engine.steps == [[0], [1, 2, 3]]
    assert bench.engine.threads == {"replica-doubler"}


async def test_two_requests_of_one_stream_run_in_two_steps_in_order(bench):
    first = await bench.occupy()
    tasks = [bench.submit(number, exclusive="stream") for number in (1, 2)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    await asyncio.gather(first, *tasks)
    assert bench.engine.steps == [[0], [1], [2]]


async def test_law_8_only_the_guilty_request_of_a_batch_fails(bench):
    first = await bench.occupy()
    tasks = [bench.submit(number) for number in (1, 2, POISON, 4, 5)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    answers = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert answers[:3] + answers[4:] == [0, 2, 4, 8, 10]
    assert type(answers[3]) is InternalError
    assert "secret" not in str(answers[3])
    assert [(name, type(error)) for name, error in bench.errors] == [("doubler", ZeroDivisionError)]
    assert bench.replica.ready


async def test_no_more_than_so_many_requests_wait_or_run():
    bench = Bench(max_inflight=2)
    first = await bench.occupy()
    second = bench.submit(1)
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await bench.submit(2)
    bench.engine.gate.set()
    assert await asyncio.gather(first, second) == [0, 2]
    assert await bench.submit(3) == 6
    bench.replica.close()


async def test_an_error_of_our_tree_reaches_the_requester_as_it_is(bench):
    bench.engine.gate.set()
    with pytest.raises(TooLarge, match="too long for this model"):
        await bench.submit(REFUSED)


async def test_a_step_that_answers_too_few_is_a_failure():
    replica = Replica("short", lambda batch: [], policy=BatchPolicy(), on_step=lambda report: None)
    replica.start()
    with pytest.raises(InternalError):
        await replica.submit(1, priority=Priority.NORMAL, audio_s=1.0)
    replica.close()


async def test_a_cancelled_request_is_not_computed(bench):
    first = await bench.occupy()
    kept, dropped = bench.submit(1), bench.submit(2)
    await asyncio.sleep(0)
    dropped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dropped
    bench.engine.gate.set()
    assert await asyncio.gather(first, kept) == [0, 2]
    assert bench.engine.steps == [[0], [1]]


async def test_cancelling_a_running_request_harms_nobody(bench):
    running = await bench.occupy()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    bench.engine.gate.set()
    assert await bench.submit(1) == 2


async def test_over_the_bound_a_request_is_refused_at_once():
    bench = Bench(max_waiting_s=2)
    first = await bench.occupy()
    waiting = [bench.submit(number) for number in (1, 2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await bench.submit(3)
    bench.engine.gate.set()
    assert await asyncio.gather(first, *waiting) == [0, 2, 4]
    bench.replica.close()


async def test_a_step_waits_for_the_others_until_all_are_there():
    bench = Bench(wait_ms=3_600_000)
    bench.engine.gate.set()
    bench.replica.population = 2
    assert await asyncio.gather(bench.submit(1), bench.submit(2)) == [2, 4]
    assert bench.engine.steps == [[1, 2]]
    bench.replica.close()


def test_several_event_loops_share_a_replica():
    bench = Bench()
    bench.engine.gate.set()
    answers = {}

    async def ask(numbers):
        return [await bench.submit(number) for number in numbers]

    def client(base):
        answers[base] = asyncio.run(ask(range(base, base + 50)))

    clients = [threading.Thread(target=client, args=(base,)) for base in (0, 100, 200)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert answers == {base: [2 * number for number in range(base, base + 50)] for base in (0, 100, 200)}
    bench.replica.close()


def ask(bench, number, **how):
    return bench.replica.enqueue(number, **{"priority": Priority.NORMAL, "audio_s": 1.0, **how})


async def test_threads_ask_without_a_loop_and_share_steps_with_those_of_loops(bench):
    first = await bench.occupy()
    asked, dropped, guilty = ask(bench, 1), ask(bench, 2), ask(bench, POISON)
    task = bench.submit(3)
    await asyncio.sleep(0)
    assert dropped.cancel()
    bench.engine.gate.set()
    assert await asyncio.gather(first, task, asyncio.wrap_future(asked)) == [0, 6, 2]
    assert bench.engine.steps[:2] == [[0], [1, POISON, 3]]
    with pytest.raises(InternalError):
        guilty.result()
    assert not bench.replica.inflight


async def test_what_has_waited_before_stands_in_line_as_if_it_had_not_left():
    bench = Bench(max_batch_size=1)
    first = await bench.occupy()
    asked = [ask(bench, 1), ask(bench, 2, since_s=0.0)]
    bench.engine.gate.set()
    await asyncio.gather(first, *map(asyncio.wrap_future, asked))
    assert bench.engine.steps == [[0], [2], [1]]
    bench.replica.close()


async def test_a_step_waits_for_those_who_are_on_their_way_and_for_nobody_else():
    bench = Bench(wait_ms=3_600_000)
    bench.engine.gate.set()
    bench.replica.expect(2)
    early = ask(bench, 1)
    bench.replica.expect(-1)
    assert not bench.engine.steps
    late = ask(bench, 2)
    bench.replica.expect(-1)
    assert await asyncio.gather(*map(asyncio.wrap_future, (early, late))) == [2, 4]
    assert bench.engine.steps == [[1, 2]]
    assert await asyncio.wrap_future(ask(bench, 3)) == 6
    bench.replica.close()


async def test_a_loop_that_is_gone_harms_nobody(bench):
    async def leave():
        await bench.occupy()

    await asyncio.to_thread(asyncio.run, leave())
    bench.engine.gate.set()
    assert await bench.submit(1) == 2


async def test_each_batch_is_reported(bench):
    first = await bench.occupy()
    tasks = [bench.submit(number, audio_s=0.5) for number in (1, POISON)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    await asyncio.gather(first, *tasks, return_exceptions=True)
    bench.replica.close()
    report = bench.reports[1]
    assert (report.name, report.batch_size, report.audio_s, report.failed) == ("doubler", 2, 1.0, 1)
    assert report.queue_wait_s >= 0
    assert report.step_s >= 0
    assert (report.live, report.lag_s) == (2, None)


async def test_the_lag_is_that_of_live_streams_and_files_have_none(bench):
    first = await bench.occupy()
    tasks = [
        bench.submit(1, audio_s=0.6, exclusive="live"),
        bench.submit(2, audio_s=0.6, exclusive="file", priority=Priority.BULK),
    ]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    await asyncio.gather(first, *tasks)
    bench.replica.close()
    report = bench.reports[1]
    assert (report.batch_size, report.live) == (2, 1)
    assert sum(report.live_asked for report in bench.reports) == 2  # with the first
    assert bench.reports[0].live_asked_s >= 0.6, "it came before that step was over"
    assert report.lag_s >= report.step_s
    assert bench.replica.lag_s > 0


async def test_it_is_ready_after_its_warm_up_in_its_own_thread_and_serves_what_came_before():
    ran, go = [], threading.Event()

    def warm_up():
        go.wait()
        ran.append(threading.current_thread().name)

    replica = Replica("new", list, policy=BatchPolicy(), on_step=lambda report: None, warm_up=[warm_up])
    replica.start()
    assert not replica.ready
    early = asyncio.create_task(replica.submit(1, priority=Priority.NORMAL, audio_s=1.0))
    await asyncio.sleep(0)
    go.set()
    await asyncio.to_thread(replica.wait_ready)
    assert replica.ready
    assert replica.warmup_s > 0
    assert ran == ["replica-new"]
    assert await early == 1
    replica.close()


async def test_a_failed_warm_up_is_told_and_nobody_is_served():
    errors = []

    def warm_up():
        raise OSError("no such file")

    replica = Replica(
        "broken",
        list,
        policy=BatchPolicy(),
        on_step=lambda report: None,
        on_error=lambda name, error: errors.append(error),
        warm_up=[warm_up],
    )
    replica.start()
    with pytest.raises(ModelUnavailable):
        await asyncio.to_thread(replica.wait_ready)
    assert not replica.ready
    assert isinstance(errors[0], OSError)
    with pytest.raises(ModelUnavailable):
        await replica.submit(1, priority=Priority.NORMAL, audio_s=1.0)


async def test_when_the_thread_dies_all_hear_of_it_and_it_is_not_ready(bench):
    first = await bench.occupy()
    tasks = [bench.submit(DEADLY), bench.submit(1, group="other")]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    answers = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert answers[0] == 0
    assert [type(answer) for answer in answers[1:]] == [ModelUnavailable, ModelUnavailable]
    assert not bench.replica.ready
    with pytest.raises(ModelUnavailable):
        await bench.submit(2)


async def test_close_fails_what_waits_and_lets_the_running_step_end(bench):
    running = await bench.occupy()
    waiting = bench.submit(1)
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(bench.replica.close))
    with pytest.raises(ModelUnavailable):
        await waiting
    bench.engine.gate.set()
    assert await running == 0
    await closing
    with pytest.raises(ModelUnavailable):
        await bench.submit(2)


def test_close_before_start_is_harmless():
    replica = Replica("unused", list, policy=BatchPolicy(), on_step=lambda report: None)
    replica.close()
    with pytest.raises(ModelUnavailable):
        replica.wait_ready()


async def test_a_replica_that_is_closed_while_it_warms_up_runs_no_further_warm_up() -> None:
    began, go_on, ran = threading.Event(), threading.Event(), []

    def first() -> None:
        began.set()
        go_on.wait()

    replica = Replica(
        "slow", list, policy=BatchPolicy(), on_step=lambda report: None, warm_up=[first, lambda: ran.append(2)]
    )
    replica.start()
    await asyncio.to_thread(began.wait)
    closing = asyncio.create_task(asyncio.to_thread(replica.close))
    while replica.outage() is None:
        await asyncio.sleep(0)
    go_on.set()
    await closing
    assert not ran
    with pytest.raises(ModelUnavailable):
        replica.wait_ready()
