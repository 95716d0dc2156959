"""A search for machines to consolidate that found nothing is made again when something changed, else rarely."""

import pytest

from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, workload
from tests.world.harness import Sim, simulated
from tests.world.metric_samples import Numbers, start

from .common import A100, passes, running, sizes

pytestmark = pytest.mark.matrix(quick=1)

COUNT = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"


async def quiet_machine(sim: Sim) -> Numbers:
    """One that nothing cheaper may replace, as its pod needs its GPU model."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}
    await sim.apply(node_pool(requirements=sizes(A100, T4), disruption={**disruption, "budgets": [{"nodes": "100%"}]}))
    numbers = await start(sim)
    workload(sim, "ReplicaSet", "web", nodeSelector={"node.kubernetes.io/instance-type": A100})
    await sim.until(lambda: running(sim) == 1, 1800.0, "the pod runs")
    await sim.until(lambda: condition(claims_of(sim)[0], "Consolidatable"), 600.0, "the machine is quiet")
    await passes(sim, 60.0)
    return numbers


@simulated()
async def test_without_changes(sim: Sim) -> None:
    """Once in five minutes, as Karpenter does: what has no event could have changed."""
    numbers = await quiet_machine(sim)
    before = numbers.total(COUNT, reason="underutilized")
    assert before > 0
    await passes(sim, 3600.0)
    assert 10 <= numbers.total(COUNT, reason="underutilized") - before <= 12


@simulated()
async def test_after_a_change(sim: Sim) -> None:
    """Of what a Node offers: in the next pass."""
    numbers = await quiet_machine(sim)
    before = numbers.total(COUNT, reason="underutilized")
    (node,) = [one for one in sim.store.list("nodes") if "karpenter.sh/nodepool" in one["metadata"]["labels"]]
    sim.store.patch("nodes", node["metadata"]["name"], {"metadata": {"labels": {"rack": "2"}}})
    await passes(sim, 12.0)
    assert numbers.total(COUNT, reason="underutilized") == before + 1
