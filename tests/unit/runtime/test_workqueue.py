"""The work queue, on virtual time."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from provisioner.runtime.metrics import Metrics
from provisioner.runtime.workqueue import WorkQueue
from tests.stories import run_by

from .kube_server import seeded
from .virtual import now, virtually


@run_by(virtually, given=0)
async def test_keys_come_out_once_and_in_order() -> None:
    """A key added twice before it is taken is one key."""
    queue = WorkQueue(seeded())
    for key in ("a", "b", "a", "c"):
        queue.add(key)
    assert (len(queue), queue.depth) == (3, 3)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


@run_by(virtually, given=0)
async def test_keys_added_as_first_come_before_the_others() -> None:
    """In their own order; also a key that waits already, and one that is added again while it is processed."""
    queue = WorkQueue(seeded())
    for key in ("a", "b", "c"):
        queue.add(key)
    assert await queue.get() == "a"
    queue.add("c", first=True)
    queue.add("a", first=True)
    queue.done("a")
    assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]
    for key in ("a", "b", "c"):
        queue.done(key)
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


@run_by(virtually, given=0)
async def test_a_key_added_while_processed_is_queued_again() -> None:
    """Never two workers on one key; never a lost event."""
    queue = WorkQueue(seeded())
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert queue.depth == 0
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert (len(queue), queue.depth) == (0, 0)


@run_by(virtually, given=0)
async def test_the_earliest_deadline_wins() -> None:
    """A later delay changes nothing, an earlier one applies, and `add` is immediate."""
    queue = WorkQueue(seeded())
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    queue.add_after("b", 20)
    queue.add_after("b", 5)
    queue.add_after("c", 60)
    queue.add("c")
    order = [(await queue.get(), now()) for _ in range(3)]
    assert order == [("c", 0), ("b", 5), ("a", 10)]
    for key, _ in order:
        queue.done(key)
    assert len(queue) == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


@run_by(virtually, given=0)
async def test_a_delay_that_ends_while_processing_waits_for_its_end() -> None:
    """The delay ends while the key is processed: it is queued again afterwards."""
    queue = WorkQueue(seeded())
    queue.add("a")
    await queue.get()
    queue.add_after("a", 1)
    await asyncio.sleep(5)
    assert queue.depth == 0
    queue.done("a")
    assert (await queue.get(), now()) == ("a", 5)


@run_by(virtually, given=0)
async def test_retries_grow_to_the_cap_and_start_over_after_success() -> None:
    """Each key has its own backoff, between half and all of the doubled delay."""
    queue = WorkQueue(seeded(), base_seconds=0.1, cap_seconds=60)
    delays = [queue.add_rate_limited("a") for _ in range(2000)]
    for n, delay in enumerate(delays[:12]):
        full = min(60, 0.1 * 2**n)
        assert full / 2 <= delay <= full
    assert max(delays) <= 60
    assert queue.add_rate_limited("b") <= 0.1
    assert queue.num_requeues("a") == 2000
    queue.forget("a")
    assert queue.add_rate_limited("a") <= 0.1
    assert queue.add_rate_limited("c", min_seconds=7) == 7


@run_by(virtually, given=0)
async def test_many_delays_of_few_keys_do_not_grow_memory() -> None:
    """Outdated entries of the heap are removed."""
    queue = WorkQueue(seeded())
    for n in range(10_000):
        queue.add_after("a", 10_000 - n)
        queue.add_after("b", 10_000 - n)
    assert len(queue) == 2
    assert len(queue._heap) <= 68
    assert await queue.get() in {"a", "b"}
    assert now() == 1


@run_by(virtually, given=0)
async def test_a_cancelled_worker_does_not_take_a_wake_up_with_it() -> None:
    """A key given to a worker that is cancelled at that moment goes to the next one."""
    queue = WorkQueue(seeded())
    got = []

    async def take(name: str) -> None:
        got.append((name, await queue.get()))

    async with asyncio.TaskGroup() as group:
        first = group.create_task(take("first"))
        group.create_task(take("second"))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
    assert got == [("second", "a")]


@run_by(virtually, given=0)
async def test_done_of_an_unprocessed_key_is_an_error() -> None:
    """`done` of a key that is not processed raises."""
    with pytest.raises(KeyError):
        WorkQueue(seeded()).done("a")


@settings(max_examples=40)
@given(
    wishes=st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 5), st.booleans()), max_size=40),
    workers=st.integers(1, 4),
)
@run_by(virtually, given=0)
async def test_a_key_is_processed_by_one_worker_and_never_lost(wishes, workers) -> None:
    """One worker per key, and every add is followed by a reconcile that starts after it."""
    queue = WorkQueue(seeded())
    held: list[str] = []
    begun: dict[str, float] = {}
    wished: dict[str, float] = {}

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in held
            held.append(key)
            begun[key] = now()
            await asyncio.sleep(0.7)
            held.remove(key)
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work()) for _ in range(workers)]
        for key, seconds, at_once in wishes:
            await asyncio.sleep(0.3)
            wished[key] = now()
            queue.add(key) if at_once else queue.add_after(key, seconds)
        await asyncio.sleep(100)
        assert len(queue) == 0
        assert all(begun[key] >= at for key, at in wished.items())
        for task in tasks:
            task.cancel()


@run_by(virtually, given=0)
async def test_metrics_have_the_names_of_client_go() -> None:
    """Dashboards for controller-runtime find their metrics."""
    metrics = Metrics()
    queue = WorkQueue(seeded(), metrics=metrics.workqueue("nodeclaim"))
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    text = generate_latest(metrics.registry).decode()
    label = '{controller="nodeclaim",name="nodeclaim"}'
    assert f"workqueue_depth{label} 1.0" in text
    assert f"workqueue_adds_total{label} 2.0" in text
    assert f"workqueue_unfinished_work_seconds{label} 3.0" in text
    assert f"workqueue_longest_running_processor_seconds{label} 3.0" in text
    assert f"workqueue_queue_duration_seconds_sum{label} 2.0" in text
    assert "_created" not in text
