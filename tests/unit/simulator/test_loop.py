"""The virtual loop: advancing time, detected defects, repeatable runs."""

import asyncio
import gc
import hashlib
import os
import random
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Never

import aiohttp.connector
import pytest

from provisioner.simulator import loop as sim

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def run(main, *, seed=1, **kwargs):
    return sim.run(main, seed=seed, epoch=EPOCH, **kwargs)


def test_hours_pass_without_waiting() -> None:
    """Sleeping for six hours moves the loop's time and the clock by six hours, exactly."""

    async def main():
        loop = asyncio.get_running_loop()
        clock = sim.VirtualClock(loop, EPOCH)
        await asyncio.sleep(6 * 3600)
        return loop.time(), clock.now(), time.time()

    assert run(main) == (21_600.0, EPOCH + timedelta(hours=6), (EPOCH + timedelta(hours=6)).timestamp())


def test_timers_beyond_a_day_are_exact() -> None:
    """asyncio limits a wait to a day; a virtual wait of three days needs one wake-up."""

    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, sim.SimLoop)
        before = loop.wakeups
        await asyncio.sleep(3 * 86_400)
        return loop.time(), loop.wakeups - before

    assert run(main) == (3 * 86_400.0, 1)


def test_timeouts_follow_virtual_time() -> None:
    """asyncio.timeout ends a wait at its virtual time."""

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(40):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main) == 40.0


def test_a_clock_can_be_set_wrong() -> None:
    """An offset moves the clock, and nothing else."""

    async def main():
        clock = sim.VirtualClock(asyncio.get_running_loop(), EPOCH)
        clock.offset = timedelta(hours=-1)
        return clock.now(), asyncio.get_running_loop().time()

    assert run(main) == (EPOCH - timedelta(hours=1), 0.0)


async def wait_for_nobody() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_deadlock_is_reported() -> None:
    """The error names the line at which each task waits."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nobody(), name="sleeper")

    with pytest.raises(
        sim.DeadlockError, match=r"(?s)deadlock at 0\.000 s.*sleeper waits at wait_for_nobody \(test_loop"
    ):
        run(main)


def test_a_livelock_is_reported(monkeypatch) -> None:
    """A program that runs without end at one virtual time gets an error."""
    monkeypatch.setattr(sim, "SPINS", 1_000)

    async def main() -> None:
        await asyncio.sleep(5)
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    with pytest.raises(sim.LivelockError, match=r"livelock at 5\.000 s"):
        run(main)


def test_the_horizon_ends_a_run() -> None:
    """A program whose next timer is beyond the horizon gets an error."""

    async def main() -> None:
        await asyncio.sleep(3_630)

    with pytest.raises(sim.HorizonError, match=r"horizon of 600 s; next timer at 3630"):
        run(main, horizon_seconds=600)


def test_the_end_of_the_run_closes_everything_after_a_deadlock() -> None:
    """The tasks of a blocked program are cancelled and can clean up before the error is raised."""
    ended = []

    async def main() -> None:
        try:
            await wait_for_nobody()
        finally:
            ended.append("main")

    with pytest.raises(sim.DeadlockError):
        run(main)
    assert ended == ["main"]


def test_a_task_that_is_not_awaited_cannot_fail_silently() -> None:
    """The exception of such a task ends the run, even while a reference to the task exists (I8)."""
    held = []

    async def fail() -> Never:
        raise ValueError("lost")

    async def main() -> None:
        held.append(asyncio.get_running_loop().create_task(fail(), name="forgotten"))
        await asyncio.sleep(1)

    with pytest.raises(sim.SilentFailures) as caught:
        run(main)
    assert caught.group_contains(ValueError, match="lost")
    assert "forgotten failed unhandled" in caught.value.exceptions[0].__notes__[0]


def test_a_failing_callback_cannot_fail_silently() -> None:
    """The exception of a callback ends the run (I8)."""

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(sim.SilentFailures) as caught:
        run(main)
    assert caught.group_contains(ZeroDivisionError)


def test_unseen_failures_are_noted_on_the_error_of_the_run() -> None:
    """If the program itself fails, unseen failures are in the notes of its error."""

    async def main() -> Never:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        run(main)
    assert any("ZeroDivisionError" in note for note in caught.value.__notes__)


def test_an_exception_that_was_retrieved_is_no_failure() -> None:
    """A task whose exception was retrieved does not end the run."""

    async def fail() -> Never:
        raise ValueError("found")

    async def main():
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.wait([task])
        return str(task.exception())

    assert run(main) == "found"


def test_threads_are_refused() -> None:
    """Work for a thread pool raises: its order could not be reproduced."""

    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, print)

    with pytest.raises(sim.SimError, match="threads are not supported"):
        run(main)


def test_sets_of_tasks_have_one_order() -> None:
    """Tasks are hashed in the order of their creation, and sets are iterated in that order."""

    async def main():
        tasks = [asyncio.get_running_loop().create_task(asyncio.sleep(1), name=str(n)) for n in range(8)]
        done, _ = await asyncio.wait(tasks[::-1])
        births = [hash(task) for task in tasks]
        assert births == list(range(births[0], births[0] + 8))
        return [task.get_name() for task in done] == [task.get_name() for task in set(tasks)]

    assert run(main)


def connector_clock() -> Any:
    """The clock that the connector's module has imported."""
    return vars(aiohttp.connector)["monotonic"]


def test_everything_is_restored() -> None:
    """After a run the modules' clocks, IDs and random generators are as before."""
    before = (time.time, uuid.uuid1, connector_clock(), random.getstate())

    async def main():
        random.seed(99)
        now = (time.time, uuid.uuid1, connector_clock())
        return [new is old for new, old in zip(now, before, strict=False)]

    assert run(main) == [False, False, False]
    assert before == (time.time, uuid.uuid1, connector_clock(), random.getstate())


def test_everything_is_restored_after_a_failure() -> None:
    """A run that fails leaves no virtual clock behind."""
    before = (time.time, uuid.uuid1, connector_clock(), random.getstate())
    with pytest.raises(sim.DeadlockError):
        run(wait_for_nobody)
    assert before == (time.time, uuid.uuid1, connector_clock(), random.getstate())


def chances(seed):
    async def main():
        await asyncio.sleep(random.uniform(0, 1))
        return asyncio.get_running_loop().time(), str(uuid.uuid1())

    return run(main, seed=seed)


def test_a_seed_decides_all_random_values() -> None:
    """The same seed gives the same draws and IDs, another seed others."""
    assert chances(7) == chances(7)
    assert chances(7) != chances(8)


STORY = """
import asyncio, hashlib, random
from datetime import UTC, datetime
from provisioner.simulator import loop as sim

async def main():
    log = []
    async def worker(n):
        for _ in range(20):
            await asyncio.sleep(random.random())
            log.append((n, asyncio.get_running_loop().time()))
    async with asyncio.TaskGroup() as group:
        tasks = {group.create_task(worker(n)) for n in range(30)}
    log.append([hash(task) for task in tasks])
    return hashlib.sha256(repr(log).encode()).hexdigest()

print(sim.run(main, seed=3, epoch=datetime(2026, 3, 1, tzinfo=UTC)))
"""


def test_processes_with_different_hash_seeds_agree() -> None:
    """Three processes have the same sequence of events."""
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", STORY], env=environ, capture_output=True, text=True, check=True)
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())


def test_loops_leave_nothing_behind() -> None:
    """After a run no task is pending and no loop is open."""

    async def main() -> None:
        asyncio.get_running_loop().create_task(wait_for_nobody())
        await asyncio.sleep(1)

    run(main)
    gc.collect()
    assert not [task for task in gc.get_objects() if isinstance(task, sim.SimTask) and not task.done()]
