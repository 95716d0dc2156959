"""Builds controllers with their work queues, subscribes them to the caches, and runs them together.

A reconciler states its name, what it watches and how it reconciles a key; nothing about it is repeated elsewhere.

Source: https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager,
https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/builder.
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import ClassVar, Never, Protocol

from provisioner.metrics.definitions.labels import Queue

from .controller import Controller, OnFailure, RequeueAfter
from .metrics import Metrics
from .workqueue import WorkQueue


class Reconciler(Protocol):
    """`name`: of its controller and its queue, in logs and metrics."""

    name: ClassVar[Queue]

    def add_event_handlers(self) -> None:
        """Subscribe to the caches that it watches, which do not run yet."""

    async def reconcile(self, key: str, /) -> RequeueAfter:
        """One pass; see `Controller`."""


class Manager:
    """The controllers that run at the same time. Handlers of caches are called in the order of `add`."""

    def __init__(self, rng: Random, metrics: Metrics) -> None:
        self._rng = rng
        self._metrics = metrics
        self._controllers: list[Controller] = []

    def queue(self, reconciler: type[Reconciler]) -> WorkQueue:
        """A new work queue for a reconciler of this type."""
        return WorkQueue(self._rng, metrics=self._metrics.workqueue(reconciler.name))

    def add(
        self,
        reconciler: Reconciler,
        queue: WorkQueue,
        *,
        workers: int = 1,
        reconcile_timeout_seconds: float = 60.0,
        log_fields: Callable[[str], Mapping[str, object]] = lambda _: {},
        on_failure: OnFailure | None = None,
    ) -> Controller:
        """The controller of this reconciler, subscribed to its caches. The parameters are those of `Controller`."""
        reconciler.add_event_handlers()
        controller = Controller(
            reconciler.name,
            queue,
            reconciler.reconcile,
            workers=workers,
            reconcile_timeout_seconds=reconcile_timeout_seconds,
            metrics=self._metrics.controller(reconciler.name),
            log_fields=log_fields,
            on_failure=on_failure,
        )
        self._controllers.append(controller)
        return controller

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[Never]]:
        """Run all of them in this group."""
        return [tasks.create_task(one.run(), name=one.name) for one in self._controllers]
