"""Latency and errors of every call to the cloud, as a decorator.

Promise: Karpenter's families and labels, so that its dashboards work; no provider mentions Prometheus.
Left to others: the calls themselves; what an error means.

Source: karpenter.md §7 (`cloudprovider_duration_seconds`, `cloudprovider_errors_total`); the buckets are ours, since
Karpenter's end at 10 s and an ARM call may take 15.
"""

import asyncio
import builtins
from collections.abc import Awaitable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from provisioner.api.nodeclaim import NodeClaim

from .errors import CloudError, NoCapacity, NotFound
from .interface import CloudProvider, Cluster, Failure, Instance, NextPage, Offering, at_once

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60)
LABELS = ("controller", "method", "provider")
ERRORS = {NoCapacity: "InsufficientCapacityError", NotFound: "NodeClaimNotFoundError"}

T = TypeVar("T")


class Metered:
    """A provider whose calls are timed and whose errors are counted in `registry`."""

    def __init__(self, provider: CloudProvider, registry: CollectorRegistry) -> None:
        self._provider = provider
        self._seconds = Histogram(
            "karpenter_cloudprovider_duration_seconds",
            "Duration of cloud provider calls",
            LABELS,
            buckets=BUCKETS,
            registry=registry,
        )
        self._errors = Counter(
            "karpenter_cloudprovider_errors",
            "Errors of cloud provider calls, by Karpenter's name for them",
            (*LABELS, "error"),
            registry=registry,
        )

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        return await self._timed("nodeclaim.lifecycle", "Create", self._provider.create(claim, name, offering))

    async def get(self, name: str) -> Instance:
        return await self._timed("node.termination", "Get", self._provider.get(name))

    async def list(self, *, next_page: NextPage = at_once) -> builtins.list[Instance]:
        return await self._timed("instance.garbagecollection", "List", self._provider.list(next_page=next_page))

    async def delete(self, instance: Instance) -> None:
        await self._timed("node.termination", "Delete", self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        return await self._timed("nodeclaim.lifecycle", "Cause", self._provider.cause(instance))

    async def cluster(self) -> Cluster:
        return await self._timed("instance.garbagecollection", "Cluster", self._provider.cluster())

    async def close(self) -> None:
        await self._provider.close()

    async def _timed(self, controller: str, method: str, call: Awaitable[T]) -> T:
        began = _now()
        try:
            return await call
        except CloudError as error:
            self._errors.labels(controller, method, "azure", ERRORS.get(type(error), "")).inc()
            raise
        finally:
            self._seconds.labels(controller, method, "azure").observe(_now() - began)


def _now() -> float:
    return asyncio.get_running_loop().time()
