"""Reads what decides whether a device plugin or DRA driver runs on a Node: the DaemonSets of the cluster, and the pods
on the Node.

DaemonSets are read at most once in `CACHED_SECONDS` for all Nodes. A failed read is an answer without them, because it
must not delay the status of the claim.

Source: docs/adr/0055-diagnosis-of-gpus.md.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
import structlog

from controllers.model.diagnosis import Workloads
from controllers.model.steps import LookUpWorkloads
from controllers.node.health.diagnosis import lacks_pod
from provisioner.api.pod import Pod
from provisioner.api.workload import DaemonSet
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import DAEMONSETS, PODS

from .kept import on_node, plugins, unbound

T = TypeVar("T")

CACHED_SECONDS = 60.0

log = structlog.get_logger("workloads")


class _Cached(Generic[T]):
    """One answer for all callers, and one request at a time. An error is not kept."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._read_at = -math.inf

    async def recent(self) -> T:
        """An answer that is at most `CACHED_SECONDS` old. Raises KubeError."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._answer is None or now - self._read_at >= CACHED_SECONDS:
                self._answer = await self._read()
                self._read_at = now
            return self._answer


class WorkloadReader:
    """The reads of the diagnosis, through one `Kube`."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._daemon_sets = _Cached(self._list_daemon_sets)
        self._unbound = _Cached(self._list_unbound)

    async def read(self, step: LookUpWorkloads) -> Workloads:
        """At most three requests; the last one if a plugin fits the Node and has no pod there."""
        found = Workloads(since=step.since, read_at=asyncio.get_running_loop().time())
        try:
            daemon_sets, pods = await self._daemon_sets.recent(), await self._pods_of(step.node.name)
            found = msgspec.structs.replace(found, daemon_sets=daemon_sets, pods=pods)
            if lacks_pod(step.node, step.source, found):
                found = msgspec.structs.replace(found, unbound=await self._unbound.recent())
        except KubeError as error:
            log.info("the cause of missing GPUs is not known", node=step.node.name, error=str(error))
            return Workloads(since=found.since, read_at=found.read_at, forbidden=error.status == 403)
        return found

    async def _list_daemon_sets(self) -> tuple[DaemonSet, ...]:
        return (await self._kube.list(DAEMONSETS, digest=plugins())).items

    async def _pods_of(self, node: str) -> tuple[Pod, ...]:
        return (await self._kube.list(PODS, digest=on_node, field_selector=f"spec.nodeName={node}")).items

    async def _list_unbound(self) -> tuple[Pod, ...]:
        return (await self._kube.list(PODS, digest=unbound, field_selector="spec.nodeName=")).items
