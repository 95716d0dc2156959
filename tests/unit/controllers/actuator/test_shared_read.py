"""Reads that several callers share, on virtual time."""

import asyncio
from datetime import UTC, datetime

import pytest

from controllers.actuator.shared_read import INTERVAL_SECONDS, SharedRead
from provisioner.runtime.kube import KubeError
from tests.stories import run_by
from tests.unit.runtime.virtual import virtually

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
READ_SECONDS = 20 * INTERVAL_SECONDS


class Reads:
    """The requests that were sent: the names, and when."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.sent: list[tuple[list[str], float]] = []
        self.error = error
        self.shared = SharedRead(self._read)

    async def _read(self, names: frozenset[str]) -> float:
        sent_at = asyncio.get_running_loop().time()
        self.sent.append((sorted(names), sent_at))
        await asyncio.sleep(READ_SECONDS)
        if self.error is not None:
            raise self.error
        return sent_at

    async def at(self, seconds: float, name: str) -> float:
        """Call after so many seconds. Raises AssertionError if the answer is older than the call."""
        await asyncio.sleep(seconds)
        called = asyncio.get_running_loop().time()
        sent = await self.shared.fresh(name)
        assert sent >= called
        return sent


@run_by(virtually, given=0)
async def test_callers_within_an_interval_share_a_request() -> None:
    """The first request is sent at once, and one for all later callers at the end of its interval, although the first
    one is not answered yet; no answer is older than its call.
    """
    reads = Reads()
    async with asyncio.TaskGroup() as tasks:
        for intervals, name in ((0.0, "a"), (0.1, "b"), (0.2, "c"), (0.9, "b"), (1.5, "e"), (9.0, "d")):
            tasks.create_task(reads.at(intervals * INTERVAL_SECONDS, name))
    assert [names for names, _ in reads.sent] == [["a"], ["b", "c"], ["e"], ["d"]]
    assert [round(at / INTERVAL_SECONDS, 6) for _, at in reads.sent] == [0.0, 1.0, 2.0, 9.0]


@run_by(virtually, given=0)
@pytest.mark.parametrize("after_intervals", [0.5, 5.0])
async def test_a_cancelled_caller_leaves_the_request_to_the_next_one(after_intervals: float) -> None:
    """If the caller that waits for the interval, or whose request is in flight, is cancelled, another one of its batch
    sends the request.
    """
    reads = Reads()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reads.at(0.0, "a"))
        sending = tasks.create_task(reads.at(0.1 * INTERVAL_SECONDS, "b"))
        tasks.create_task(reads.at(0.2 * INTERVAL_SECONDS, "c"))
        await asyncio.sleep(after_intervals * INTERVAL_SECONDS)
        sending.cancel()
    assert [names for names, _ in reads.sent] == [["a"], ["b", "c"], ["b", "c"]][: 2 if after_intervals < 1 else 3]


@run_by(virtually, given=0)
async def test_an_error_is_shared_by_the_callers_of_its_request() -> None:
    """A server that does not answer costs one timeout for all callers, not one for each; the next call tries again."""
    reads = Reads(KubeError(0, "Timeout", "no response"))
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(_fails(reads, name)) for name in ("a", "b", "c")]
    assert [call.result() for call in calls] == ["Timeout"] * 3
    assert [names for names, _ in reads.sent] == [["a", "b", "c"]]
    reads.error = None
    assert await reads.at(0.0, "a")


async def _fails(reads: Reads, name: str) -> str:
    with pytest.raises(KubeError) as failed:
        await reads.shared.fresh(name)
    return failed.value.reason
