"""Observers: what they count, with which labels, and that their errors do not affect their callers."""

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.error_table import TABLE
from cloudprovider.inventory import Inventory
from controllers.model.steps import (
    CreateInstance,
    LookUpPool,
    LookUpWorkloads,
    ReadDrain,
    ReadRemedies,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.planner.controller_names import controller_name
from controllers.state.indexes import Indexes
from provisioner.api import labels
from provisioner.api.aks_names import pool_of
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import OTHER, REGIONAL
from provisioner.metrics.observers.collector import GaugeCollector, Sample
from provisioner.metrics.observers.failures import CLASSES, failure_class
from provisioner.metrics.observers.label_values import (
    KNOWN_REASONS,
    NAMES_MAX,
    BoundedNames,
    LabelValues,
)
from provisioner.metrics.observers.loop_lag import LoopLag
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.summary import Summary, quantile
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES
from provisioner.simulator.loop import SimLoop, VirtualClock, run
from tests.unit.builders import NOW, claim, facts, instance, node

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
VALUES = LabelValues(AksCloud())


def at_once(main: Callable[[], Any]) -> Any:
    """Run on virtual time."""
    return run(main, seed=1, epoch=EPOCH)


# Words


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("QuotaExceeded", "quota"),
        ("ErrCode_InsufficientVCPUQuota", "quota"),
        ("VMSizeNotSupported", "sku_unavailable"),
        ("ZonalAllocationFailed", "allocation"),
        ("OverconstrainedZonalAllocationRequest", "allocation"),
        ("PoolLimitReached", "pool_limit"),
        ("ClientSideThrottling", "throttled"),
        ("NoToken", "auth"),
        ("ClusterNotRunning", "cluster_not_running"),
        ("AKSOperationPreemptedByDelete", "conflict"),
        ("Timeout", "timeout"),
        ("SubnetIsFull", "network"),
        ("VMExtensionError_OutboundConnFail", "network"),
        ("RequestDisallowedByPolicy", "policy"),
        ("VMExtensionProvisioningTimeout", "bring_up"),
        ("InstanceTypeInvalid", "invalid_spec"),
        ("SomethingNobodyHasSeen", OTHER),
    ],
)
def test_failures_have_few_names(reason: str, word: str) -> None:
    """Every error of ARM has one of a few reasons, which alerts select."""
    assert failure_class(reason) == word


def test_the_words_for_failures_are_those_of_the_table() -> None:
    """Every class is declared, and every declared class can occur."""
    assert {name for name, _ in CLASSES} | {OTHER} == set(own.CREATE_REASONS)


def test_every_reason_of_ours_and_arms_is_known() -> None:
    """A reason of the error table is its own label; an unknown one is `other`."""
    for row in TABLE:
        assert not row.reason or VALUES.reason(row.reason) == row.reason
    assert "nodelost" in KNOWN_REASONS
    assert VALUES.reason("NodeLost") == "NodeLost"
    assert VALUES.reason("x" * 500) == OTHER


def test_names_that_people_choose_are_few() -> None:
    """The first ten have their own series permanently; all others share one."""
    few = BoundedNames()
    assert [few(f"n{number}")[0] for number in range(NAMES_MAX)] == [f"n{number}" for number in range(NAMES_MAX)]
    assert few("another") == (OTHER,)
    assert few("n3") == ("n3",)
    assert few("") == ("",)


def test_places_and_sizes_are_bounded() -> None:
    """A known size has Azure's spelling; a zone has a region prefix, which the label of a regional machine lacks."""
    assert VALUES.size("standard_nc24ads_a100_V4") == "Standard_NC24ads_A100_v4"
    assert VALUES.size("Standard_Nobody") == OTHER
    assert VALUES.zone({labels.ZONE: "westeurope-2"}) == "westeurope-2"
    assert VALUES.zone({labels.ZONE: "0"}) == VALUES.zone({}) == REGIONAL
    made = msgspec.structs.replace(claim().metadata, labels={labels.CAPACITY_TYPE: "free"})
    assert VALUES.machine(msgspec.structs.replace(claim(), metadata=made)) == (OTHER, REGIONAL, "")


# Whose step it is


STEPS: list[tuple[str, dict[str, Any], Step, str]] = [
    ("a claim is launched", {"claims": (claim(),)}, CreateInstance(claim=claim(), name="a"), "nodeclaim.lifecycle"),
    ("a live claim waits", {"claims": (claim(),)}, Wait(after=None, why=""), "nodeclaim.lifecycle"),
    ("a pool is proven gone", {"claims": (claim(deleting=True),)}, LookUpPool(name="a"), "nodeclaim.lifecycle"),
    ("a Node is drained", {"claims": (claim(deleting=True),)}, ReadDrain(node=node()), "node.termination"),
    ("a Node is let go", {}, ReleaseFinalizer(target=node(), why=""), "node.termination"),
    ("a claim is let go", {"claims": (claim(deleting=True),)}, ReleaseFinalizer(target=claim(), why=""),
     "nodeclaim.lifecycle"),
    ("an orphan waits", {"instance": instance()}, Wait(after=1.0, why=""), "instance.garbagecollection"),
    ("a sick Node", {"claims": (claim(),)}, ReadRemedies(node=node()), "node.health"),
    ("a Node without GPUs", {"claims": (claim(),)}, LookUpWorkloads(node=node(), source="r", since=NOW),
     "node.health"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "step", "name"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_a_step_is_named_as_karpenter_names_it(known: dict[str, Any], step: Step, name: str) -> None:
    """The name is that of Karpenter's controller with the same task."""
    assert controller_name(facts(**known), step) == name


# Nobody is disturbed


def test_a_scrape_survives_what_cannot_be_read() -> None:
    """Samples before the error are exposed, the family remains, and the error is counted."""

    async def main() -> str:
        metrics = Metrics()
        errors = metrics.counter(own.OBSERVATION_ERRORS)

        def read() -> Any:
            sample: Sample = (own.OVERDUE, ("Launched",), 2.0)
            yield sample
            raise ZeroDivisionError

        metrics.registry.register(GaugeCollector((own.OVERDUE,), read, errors))
        generate_latest(metrics.registry)
        return generate_latest(metrics.registry).decode()

    reported = at_once(main)
    assert 'gpu_provisioner_nodeclaims_overdue{condition="Launched"} 2.0' in reported
    assert "gpu_provisioner_observation_errors_total 1.0" in reported


def test_an_observer_that_fails_reaches_nobody() -> None:
    """The caller continues, and the error is counted."""

    async def main() -> float | None:
        metrics, rng = Metrics(), Random(1)
        nowhere: Any = None
        caches: dict[str, Any] = {
            name: Reflector(nowhere, resource, rng=rng, indexes={}, on_change=lambda *_: None)
            for name, resource in (("claims", NODECLAIMS), ("nodes", NODES), ("crds", CRDS))
        }
        inventory = Inventory(nowhere, rng=rng, on_change=lambda _: None, on_resync=lambda: None)

        def leading() -> bool:
            raise ZeroDivisionError

        observer = Observer(
            metrics,
            indexes=Indexes(**caches, pool_name=lambda made: made.name, pool_of=pool_of),
            nodes=caches["nodes"].items,
            inventory=inventory,
            clock=VirtualClock(asyncio.get_running_loop(), EPOCH),
            leading=leading,
            offerings_of=lambda _: (),
            cloud=AksCloud(),
            types=lambda: None,
        )
        observer.claim_changed(claim(), claim(deleting=True))
        observer.performed(facts(), LookUpPool(name="a"), nowhere)
        return metrics.registry.get_sample_value(own.OBSERVATION_ERRORS.name)

    assert at_once(main) == 1.0


# Quantiles


def test_quantiles_are_of_the_last_hour() -> None:
    """Go's names and labels; old observations count in sum and count only; without recent ones quantiles are NaN."""

    async def main() -> tuple[dict[str, float], dict[str, float]]:
        summary = Summary(karpenter.NODES_TERMINATION)

        def reported() -> dict[str, float]:
            (family,) = summary.collect()
            assert family.type == "summary"
            return {s.labels.get("quantile", s.name.rpartition("_")[2]): s.value for s in family.samples}

        for seconds in (10.0, 20.0, 30.0, 40.0):
            summary.observe(("kaito",), seconds)
        now = reported()
        await asyncio.sleep(timedelta(hours=1.5).total_seconds())
        return now, reported()

    now, later = at_once(main)
    assert now == {"0": 10.0, "0.5": 20.0, "0.9": 40.0, "0.99": 40.0, "1": 40.0, "count": 4, "sum": 100.0}
    assert (later["count"], later["sum"]) == (4, 100.0)
    assert math.isnan(later["0.5"])


def test_a_quantile_is_an_observation() -> None:
    """The smallest value that is not exceeded by at least that share."""
    ascending = [float(number) for number in range(1, 101)]
    assert [quantile(ascending, share) for share in (0.0, 0.5, 0.9, 0.99, 1.0)] == [1, 50, 90, 99, 100]


# The loop


def test_a_loop_that_is_held_up_is_seen_for_a_minute() -> None:
    """A sleep of half a second that returns after three was delayed by two and a half."""

    async def main() -> list[float]:
        metrics, loop = Metrics(), asyncio.get_running_loop()
        lag, seen = LoopLag(metrics), []
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(lag.run())
            await asyncio.sleep(2.2)
            seen.append(lag.worst_seconds())
            assert isinstance(loop, SimLoop)
            loop._now += 3.0  # as a computation that takes so long
            await asyncio.sleep(1.0)
            seen.append(lag.worst_seconds())
            await asyncio.sleep(70.0)
            seen.append(lag.worst_seconds())
            watching.cancel()
        return seen

    before, held, after = at_once(main)
    assert (before, after) == (pytest.approx(0.0, abs=1e-6), pytest.approx(0.0, abs=1e-6))
    assert held == pytest.approx(2.7, abs=0.01)
