"""Workers that take keys from a queue and have each one looked at.

A pass that fails, or outlives its deadline, is logged with its traceback, counted, and tried again more and
more slowly; no error of one key stops another. This is the program's only broad `except`, beside the guard of those who
only count. Cancellation passes.

A pass returns the seconds after which it wants to look again, or None to be woken by the next change alone.

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
from .kube_errors import KubeError
from .logs import get_logger
from .metrics import ControllerMetrics, Metrics
from .workqueue import WorkQueue

Outcome = float | None
Reconcile = Callable[[str], Awaitable[Outcome]]

log = get_logger("controller")


class Controller:
    """`pass_timeout_seconds` bounds one pass over one key; `workers` passes run at a time.

    `log_fields(key)` is what the log lines of its passes say beside the key.
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
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._reconcile_timeout_seconds = reconcile_timeout_seconds
        self._metrics = metrics or Metrics().controller(name)
        self._log_fields = log_fields
        self._progress_at: float | None = None
        self._passes = itertools.count(1)

    @property
    def progress_at(self) -> float:
        """Loop time of the last sign of life: the end of a pass, or now if there is nothing to do.

        Older than the deadline of a pass, with workers to spare, means that the workers are stuck.
        """
        idle = not self._queue.depth and not self._queue.working
        if idle or self._progress_at is None:
            return self._now()
        return self._progress_at

    async def run(self) -> Never:
        """Work until cancelled."""
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
                number = f"{self.name}-{next(self._passes)}"
                with bound_contextvars(controller=self.name, key=key, **self._log_fields(key), reconcileID=number):
                    await self._pass(key)
            finally:
                self._metrics.active.dec()
                self._queue.done(key)
                self._progress_at = self._now()

    async def _pass(self, key: str) -> None:
        begun = self._now()
        set_controller("")
        deadline = asyncio.timeout(self._reconcile_timeout_seconds)
        try:
            async with deadline:
                after = await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - the one place where anything may have gone wrong
            self._failed(key, error, expired=deadline.expired())
        else:
            self._queue.forget(key)
            self._metrics.total.labels(self._rule(), "success" if after is None else "requeue_after").inc()
            if after is not None:
                self._queue.add_after(key, after)
        finally:
            self._metrics.seconds.labels(self._rule()).observe(self._now() - begun)

    def _failed(self, key: str, error: Exception, *, expired: bool) -> None:
        self._metrics.total.labels(self._rule(), "error").inc()
        self._metrics.errors.labels(self._rule()).inc()
        asked = error.retry_after if isinstance(error, KubeError) else None
        delay = self._queue.add_rate_limited(key, min_seconds=asked or 0.0)
        what = "the pass outlived its deadline" if expired else "the pass failed"
        log.error(
            what,
            error=f"{type(error).__name__}: {error}",
            trace="".join(traceback.format_exception(error)),
            failures=self._queue.num_requeues(key),
            retry_seconds=round(delay, 3),
        )

    def _rule(self) -> str:
        """Who had the last word in this pass; the controller itself, if it came to none."""
        return current_controller() or self.name

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
