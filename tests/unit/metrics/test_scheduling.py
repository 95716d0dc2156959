"""Metrics of scheduling decisions, and of the pods that they are about."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.model import Decision, NewMachine
from provisioner.api.meta import ObjectMeta
from provisioner.api.pod import PodSpec
from provisioner.metrics.definitions import own
from provisioner.metrics.observers.scheduling import SchedulingMetrics
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.loop import VirtualClock, run
from tests.stories import run_by

CREATED = datetime(2026, 3, 1, tzinfo=UTC)
BOUND, STARTED = "karpenter_pods_bound_duration_seconds", "karpenter_pods_startup_duration_seconds"
PROVISIONING = "karpenter_pods_provisioning_bound_duration_seconds"
PROVISIONING_STARTED = "karpenter_pods_provisioning_startup_duration_seconds"
SCHEDULER = "karpenter_scheduler_"


class Observed:
    """Scheduling metrics on virtual time; pods are created at its beginning."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        clock = VirtualClock(asyncio.get_running_loop(), CREATED)
        self.observer = SchedulingMetrics(self.metrics, self.metrics.counter(own.OBSERVATION_ERRORS), clock)
        self._pods: dict[str, CachedPod] = {}

    def pod(self, name: str, *, on: str = "", ready: bool = False, uid: str = "") -> None:
        old = self._pods.get(name)
        new = CachedPod(
            metadata=ObjectMeta(name=name, namespace="default", uid=uid or name, creation_timestamp=CREATED),
            spec=PodSpec(node_name=on),
            ready=ready,
        )
        self._pods[name] = new
        self.observer.pod_changed(old, new)

    def gone(self, name: str) -> None:
        self.observer.pod_changed(self._pods.pop(name), None)

    def decided(self, *placed: str, existing: str = "", failed: str = "") -> None:
        pods = tuple(f"default/{name}" for name in placed)
        machine = NewMachine(node_pool="gpu", pods=pods, instance_types=("s",), requirements={}, requests={}, price=1.0)
        decision = Decision(
            machines=(machine,),
            existing={"n": (f"default/{existing}",)} if existing else {},
            errors={f"default/{failed}": "no"} if failed else {},
        )
        self.observer.decided(decision, len(placed), 0, 2, 0.1)

    def value(self, name: str) -> float:
        (found,) = (s for family in self.metrics.registry.collect() for s in family.samples if s.name == name)
        return found.value

    def observed(self, name: str) -> tuple[float, float]:
        """Number and sum of the observations."""
        found = {s.name: s.value for family in self.metrics.registry.collect() for s in family.samples}
        return found.get(f"{name}_count", 0.0), found.get(f"{name}_sum", 0.0)


def on_virtual_time(story: Any) -> None:
    async def main() -> None:
        await story(Observed())

    run(main, seed=1, epoch=CREATED)


@run_by(on_virtual_time)
async def test_the_durations_of_a_pod_that_gets_a_machine(seen: Observed) -> None:
    """Bound and Ready count once each, from the creation and from the decision; becoming Ready again does not."""
    await asyncio.sleep(1)
    seen.pod("a")
    await asyncio.sleep(1)
    seen.decided("a")
    await asyncio.sleep(10)
    seen.decided("a")
    await asyncio.sleep(90)
    seen.pod("a", on="n")
    await asyncio.sleep(20)
    for ready in (False, True, False, True):
        seen.pod("a", on="n", ready=ready)
    assert seen.observed(BOUND) == (1, 102)
    assert seen.observed(STARTED) == (1, 122)
    assert seen.observed(PROVISIONING) == (1, 100)
    assert seen.observed(PROVISIONING_STARTED) == (1, 120)


@pytest.mark.parametrize(
    ("actions", "bound", "provisioning"),
    [
        pytest.param([("pod", {})], 0, 0, id="pending"),
        pytest.param([("pod", {"on": "n"})], 0, 0, id="seen with its Node first"),
        pytest.param([("pod", {}), ("pod", {"on": "n"})], 1, 0, id="placed by kube-scheduler alone"),
        pytest.param([("pod", {}), ("existing", {}), ("pod", {"on": "n"})], 1, 1, id="placed on an existing Node"),
        pytest.param(
            [("pod", {}), ("existing", {}), ("failed", {}), ("pod", {"on": "n"})], 1, 0, id="no machine is left for it"
        ),
        pytest.param([("pod", {}), ("gone", {}), ("pod", {"on": "n"})], 0, 0, id="deleted"),
        pytest.param([("pod", {}), ("pod", {"on": "n", "uid": "other"})], 0, 0, id="replaced by one of its name"),
    ],
)
@run_by(on_virtual_time)
async def test_which_pods_count(
    seen: Observed, actions: list[tuple[str, dict[str, Any]]], bound: int, provisioning: int
) -> None:
    """Those that were seen without a Node; the durations of provisioning those with a place in a decision."""
    for action, how in actions:
        match action:
            case "pod":
                seen.pod("a", **how)
            case "gone":
                seen.gone("a")
            case "existing":
                seen.decided(existing="a")
            case _:
                seen.decided(failed="a")
    assert seen.observed(BOUND)[0] == bound
    assert seen.observed(PROVISIONING)[0] == provisioning


@run_by(on_virtual_time)
async def test_unfinished_work(seen: Observed) -> None:
    """The time since a decision is due, until it is written; repeated attempts do not reset it."""
    seen.decided()
    unfinished = f"{SCHEDULER}unfinished_work_seconds"
    assert seen.value(unfinished) == 0
    seen.observer.due()
    await asyncio.sleep(30)
    seen.observer.due()
    await asyncio.sleep(5)
    assert seen.value(unfinished) == 35
    seen.observer.finished()
    assert seen.value(unfinished) == 0


@run_by(on_virtual_time)
async def test_counts_end_with_the_pods(seen: Observed) -> None:
    """Without pending pods the counts are 0; without a NodePool there are none."""
    seen.decided(failed="a")
    assert seen.value(f"{SCHEDULER}unschedulable_pods_count") == 1
    assert seen.value("gpu_provisioner_pods_set_aside") == 2
    seen.observer.nothing_pending(ignored=3)
    assert seen.value(f"{SCHEDULER}unschedulable_pods_count") == 0
    assert seen.value(f"{SCHEDULER}ignored_pods_count") == 3
    seen.observer.stopped()
    assert not [s for f in seen.metrics.registry.collect() for s in f.samples if s.name.startswith(f"{SCHEDULER}u")]
