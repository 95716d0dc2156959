"""Workers of a controller, on virtual time."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from prometheus_client import generate_latest

from provisioner.runtime.controller import Controller
from provisioner.runtime.fence import RETRY_SECONDS, LeaseExpires
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.workqueue import WorkQueue
from tests.stories import run_by

from .kube_server import seeded
from .virtual import now, virtually


def worked(
    reconcile: Callable[[str], Awaitable[float | None]],
    *,
    keys: tuple[str, ...] = ("a",),
    seconds: float = 100,
    **options: Any,
) -> tuple[WorkQueue, str, list]:
    """Run a controller for a while; returns its queue, the text of its metrics and its log lines."""
    metrics = Metrics()

    async def main():
        queue = WorkQueue(seeded(), base_seconds=1.0)
        controller = Controller("machine", queue, reconcile, metrics=metrics.controller("machine"), **options)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            for key in keys:
                queue.add(key)
            await asyncio.sleep(seconds)
            assert not task.done()
            task.cancel()
        return queue

    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        queue = virtually(main)
    return queue, generate_latest(metrics.registry).decode(), logged


def test_a_reconcile_returns_its_requeue_delay() -> None:
    """None waits for the next event; a number is a delay in seconds."""
    seen = []

    async def reconcile(key: str) -> float | None:
        seen.append((key, now()))
        return 30.0 if len(seen) == 1 else None

    _, text, logged = worked(reconcile)
    assert seen == [("a", 0), ("a", 30)]
    assert 'controller_runtime_reconcile_total{controller="machine",result="requeue_after"} 1.0' in text
    assert 'controller_runtime_reconcile_total{controller="machine",result="success"} 1.0' in text
    assert 'controller_runtime_max_concurrent_reconciles{controller="machine"} 10.0' in text
    assert not logged


def test_an_error_is_logged_with_its_context_and_retried() -> None:
    """The log line contains controller, key and reconcileID; success resets the failures."""
    seen = []

    async def reconcile(key: str) -> None:
        seen.append(now())
        if len(seen) < 4:
            raise LookupError("no such thing")

    queue, text, logged = worked(reconcile)
    gaps = [b - a for a, b in itertools.pairwise(seen)]
    assert [0.5 <= gaps[0] <= 1, 1 <= gaps[1] <= 2, 2 <= gaps[2] <= 4] == [True] * 3
    assert queue.num_requeues("a") == 0
    line = logged[0]
    assert (line["controller"], line["key"], line["error"]) == ("machine", "a", "LookupError: no such thing")
    assert "in reconcile" in line["trace"]
    assert len({entry["reconcileID"] for entry in logged}) == 3
    assert 'controller_runtime_reconcile_errors_total{controller="machine"} 3.0' in text


def test_a_write_that_the_lease_does_not_permit_is_repeated_without_an_error() -> None:
    """The Lease is renewed before the next attempt, or another replica leads."""
    seen = []

    async def reconcile(_: str) -> None:
        seen.append(now())
        if len(seen) < 3:
            raise LeaseExpires("patch NodeClaim a")

    queue, text, logged = worked(reconcile)
    assert seen == [0, RETRY_SECONDS, 2 * RETRY_SECONDS]
    assert not [one for one in logged if one["log_level"] == "error"]
    assert queue.num_requeues("a") == 0
    assert "controller_runtime_reconcile_errors_total{" not in text


def test_retry_after_is_a_lower_bound_of_the_backoff() -> None:
    """The API server sent Retry-After."""
    seen = []

    async def reconcile(key: str) -> None:
        seen.append(now())
        if len(seen) == 1:
            raise KubeError(429, "TooManyRequests", "slowly", retry_after=20)

    worked(reconcile)
    assert seen == [0, 20]


def test_a_failing_key_does_not_affect_others() -> None:
    """Fault 69: a key that always fails is backed off while the only worker reconciles the others."""
    served = []

    async def reconcile(key: str) -> float:
        if key == "bad":
            raise ValueError("poison")
        served.append(now())
        return 1.0

    worked(reconcile, keys=("bad", "good"), workers=1)
    assert served == [float(second) for second in range(101)]


def test_a_reconcile_that_times_out_is_an_error() -> None:
    """A reconcile that hangs is cancelled; its worker continues."""
    ended = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(now())

    _, _, logged = worked(reconcile, reconcile_timeout_seconds=10.0, seconds=15)
    assert ended[0] == 10
    assert logged[0]["event"] == "reconcile timed out"


def test_workers_share_the_keys() -> None:
    """Ten slow keys and five workers: two rounds."""
    ends = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(3)
        ends.append(now())

    worked(reconcile, keys=tuple("abcdefghij"), workers=5)
    assert ends == [3.0] * 5 + [6.0] * 5


@run_by(virtually, given=0)
async def test_progress_is_old_only_while_workers_hang() -> None:
    """An idle controller is healthy; progress of one whose only worker hangs gets old."""

    async def hang(key: str) -> None:
        await asyncio.sleep(1000)

    queue = WorkQueue(seeded())
    controller = Controller("machine", queue, hang, workers=1, reconcile_timeout_seconds=500)
    assert controller.progress_at == now()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        await asyncio.sleep(50)
        assert controller.progress_at == 50
        queue.add("a")
        await asyncio.sleep(100)
        assert controller.progress_at < 60
        task.cancel()
