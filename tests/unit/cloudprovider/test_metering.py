"""Metrics of cloud calls, with Karpenter's names and labels."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from cloudprovider.errors import CloudError, NoCapacity, NotFound, Rejected, Retryable
from cloudprovider.interface import (
    BeforePage,
    Cluster,
    Failure,
    Instance,
    InstanceState,
    Offering,
    ResourceSku,
    Usage,
    immediately,
)
from cloudprovider.metering import InstrumentedProvider
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.metrics.definitions import karpenter
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.loop import run

T = TypeVar("T")
POOL = Instance(name="a", state=InstanceState.RUNNING, etag="e")
SECONDS = 3.0


class Slow:
    """A cloud whose calls take three seconds, and then fail with `error` if it is set."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    async def _answer(self, value: T) -> T:
        await asyncio.sleep(SECONDS)
        if self.error is not None:
            raise self.error
        return value

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        return await self._answer(POOL)

    async def get(self, name: str) -> Instance:
        return await self._answer(POOL)

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        return await self._answer([POOL])

    async def delete(self, instance: Instance) -> None:
        return await self._answer(None)

    async def cause(self, instance: Instance) -> Failure | None:
        return await self._answer(None)

    async def usages(self) -> Mapping[str, Usage]:
        return {}

    async def skus(self) -> Mapping[str, ResourceSku]:
        return {}

    async def latest_image(self, name: str) -> str:
        return ""

    async def cluster(self) -> Cluster:
        return await self._answer(Cluster(running=True))

    async def close(self) -> None:
        return


CALLS: dict[str, Callable[[InstrumentedProvider], Awaitable[object]]] = {
    "Create": lambda cloud: cloud.create(NodeClaim(), "a"),
    "Get": lambda cloud: cloud.get("a"),
    "List": lambda cloud: cloud.list(),
    "Delete": lambda cloud: cloud.delete(POOL),
    "Cause": lambda cloud: cloud.cause(POOL),
    "Cluster": lambda cloud: cloud.cluster(),
}


def measured(error: BaseException | None = None) -> dict[tuple[str, str], float]:
    """Make all calls once; returns the samples by (sample, method), with the labels of errors."""

    async def main() -> dict[tuple[str, str], float]:
        metrics = Metrics()
        registry, cloud = metrics.registry, InstrumentedProvider(Slow(error), metrics)
        for call in CALLS.values():
            try:
                await call(cloud)
            except (CloudError, asyncio.CancelledError):
                continue
        return {
            (
                sample.name + (f":{sample.labels['error']}" if "error" in sample.labels else ""),
                sample.labels["method"],
            ): (sample.value)
            for family in registry.collect()
            for sample in family.samples
            if "method" in sample.labels and "le" not in sample.labels
        }

    return run(main, seed=1, epoch=datetime(2026, 3, 1, tzinfo=UTC))


def test_the_duration_of_each_call() -> None:
    """One observation per call; a successful call counts no error."""
    seen = measured()
    for method in CALLS:
        assert seen["karpenter_cloudprovider_duration_seconds_count", method] == 1.0
        assert seen["karpenter_cloudprovider_duration_seconds_sum", method] == pytest.approx(SECONDS)
    assert not [name for name, _ in seen if "errors" in name]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NoCapacity("QuotaExceeded", "no", scope="size"), "InsufficientCapacityError"),
        (NotFound("NotFound", "gone"), "NodeClaimNotFoundError"),
        (Rejected("TaintInvalid", "no"), ""),
        (Retryable("Throttled", "later"), ""),
    ],
)
def test_the_names_of_errors(error: CloudError, name: str) -> None:
    """Failed calls are timed and counted, with the name that Karpenter has for the error."""
    seen = measured(error)
    for method in CALLS:
        assert seen["karpenter_cloudprovider_duration_seconds_count", method] == 1.0
        assert seen[f"karpenter_cloudprovider_errors_total:{name}", method] == 1.0


def test_a_cancelled_call_is_not_an_error() -> None:
    """Its duration is observed."""
    seen = measured(asyncio.CancelledError())
    assert seen["karpenter_cloudprovider_duration_seconds_count", "Create"] == 1.0
    assert not [name for name, _ in seen if "errors" in name]


def test_the_histogram_covers_the_longest_call() -> None:
    """A call takes at most 15 s (a GET 20 s with its rate limit)."""

    async def main() -> list[float]:
        metrics = Metrics()
        await InstrumentedProvider(Slow(), metrics).get("a")
        name = karpenter.CALL_SECONDS.name
        (family,) = (found for found in metrics.registry.collect() if found.name == name)
        bounds = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
        return [float(bound) for bound in bounds]

    bounds = run(main, seed=1, epoch=datetime(2026, 3, 1, tzinfo=UTC))
    assert bounds == sorted(bounds)
    assert 15.0 in bounds
    assert bounds[-2] >= 20.0
