"""A controller: workers that take keys from a work queue and reconcile them.

A reconcile that fails or times out is logged with its traceback, counted and retried with backoff; it does not affect
other keys. Cancellation passes. A write that the Lease leaves no time for is no failure: the key is queued again after
`fence.RETRY_SECONDS`. Beside the guards of the metrics observers, this module has the only broad `except` of the
program.

Source: https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/reconcile, docs/references/karpenter.md#metrics,
https://docs.rs/kube/latest/kube/runtime/controller/struct.Action.html.
"""

import asyncio
import itertools
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Never

from structlog.contextvars import bound_contextvars

from .controller_name import current_controller, set_controller
from .fence import RETRY_SECONDS, LeaseExpires
from .kube_errors import KubeError
from .logs import get_logger
from .metrics import ControllerMetrics, Metrics
from .workqueue import WorkQueue

# Seconds after which the key is reconciled again; None: at its next event.
RequeueAfter = float | None
Reconcile = Callable[[str], Awaitable[RequeueAfter]]
# Called with the key, its error and its consecutive failures, after each failure.
OnFailure = Callable[[str, Exception, int], Awaitable[None]]
ON_FAILURE_SECONDS = 10.0

log = get_logger("controller")


class Controller:
    """`workers` keys are reconciled at a time, each for at most `reconcile_timeout_seconds`.

    `log_fields(key)` are fields of every log line of a reconcile, beside the key. `on_failure` may report a failure on
    the object; its own errors are logged.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue,
        reconcile: Reconcile,
        *,
        workers: int = 10,
        reconcile_timeout_seconds: float = 60.0,
        metrics: ControllerMetrics | None = None,
        log_fields: Callable[[str], Mapping[str, object]] = lambda _: {},
        on_failure: OnFailure | None = None,
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._reconcile_timeout_seconds = reconcile_timeout_seconds
        self._metrics = metrics or Metrics().controller(name)
        self._log_fields = log_fields
        self._on_failure = on_failure
        self._progress_at: float | None = None
        self._reconcile_ids = itertools.count(1)

    @property
    def progress_at(self) -> float:
        """Loop time of the end of the last reconcile, or now if no key is queued.

        If it is older than `reconcile_timeout_seconds` while keys are queued, the workers are stuck.
        """
        idle = not self._queue.depth and not self._queue.processing
        if idle or self._progress_at is None:
            return self._now()
        return self._progress_at

    async def run(self) -> Never:
        """Reconcile until cancelled."""
        self._progress_at = self._now()
        self._metrics.workers.set(self._workers)
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")
        raise AssertionError("unreachable: workers end only by cancellation")

    async def _work(self) -> Never:
        while True:
            key = await self._queue.get()
            self._metrics.active.inc()
            try:
                reconcile_id = f"{self.name}-{next(self._reconcile_ids)}"
                fields = self._log_fields(key)
                with bound_contextvars(controller=self.name, key=key, **fields, reconcileID=reconcile_id):
                    await self._reconcile_key(key)
            finally:
                self._metrics.active.dec()
                self._queue.done(key)
                self._progress_at = self._now()

    async def _reconcile_key(self, key: str) -> None:
        started = self._now()
        set_controller("")
        deadline = asyncio.timeout(self._reconcile_timeout_seconds)
        try:
            async with deadline:
                after = await self._unless_fenced(key)
        except Exception as error:  # noqa: BLE001 - an error of one key must not end the workers
            self._failed(key, error, expired=deadline.expired())
            await self._report(key, error)
        else:
            self._queue.forget(key)
            self._metrics.total.labels(self._acting_controller(), "success" if after is None else "requeue_after").inc()
            if after is not None:
                self._queue.add_after(key, after)
        finally:
            self._metrics.seconds.labels(self._acting_controller()).observe(self._now() - started)

    async def _unless_fenced(self, key: str) -> RequeueAfter:
        try:
            return await self._reconcile(key)
        except LeaseExpires:
            return RETRY_SECONDS

    def _failed(self, key: str, error: Exception, *, expired: bool) -> None:
        self._metrics.total.labels(self._acting_controller(), "error").inc()
        self._metrics.errors.labels(self._acting_controller()).inc()
        retry_after = error.retry_after if isinstance(error, KubeError) else None
        delay = self._queue.add_rate_limited(key, min_seconds=retry_after or 0.0)
        log.error(
            "reconcile timed out" if expired else "reconcile failed",
            error=f"{type(error).__name__}: {error}",
            trace="".join(traceback.format_exception(error)),
            failures=self._queue.num_requeues(key),
            retry_seconds=round(delay, 3),
        )

    async def _report(self, key: str, error: Exception) -> None:
        if self._on_failure is None:
            return
        try:
            async with asyncio.timeout(ON_FAILURE_SECONDS):
                await self._on_failure(key, error, self._queue.num_requeues(key))
        except Exception as failed:  # noqa: BLE001 - the error itself is logged already
            log.warning("failed to report the error on the object", error=f"{type(failed).__name__}: {failed}")

    def _acting_controller(self) -> str:
        """The controller that decided in this reconcile; this one if none did."""
        return current_controller() or self.name

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
