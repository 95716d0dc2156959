"""A NodePool with a limit in money buys machines up to it, and states what they cost and what it holds back."""

from provisioner.api.labels import COST_PER_HOUR
from tests.world.demand import (
    T4,
    claims_of,
    node_class,
    node_pool,
    pending,
    pod,
    pod_events,
    watches_pods,
    with_node_pool,
)
from tests.world.disruption.common import drift, live, ready
from tests.world.harness import Sim, simulated
from tests.world.metric_samples import Numbers

from .common import OVERLAYS, SIZE, limit_events, overlay, settle, shown, until_shown

POOLS = "nodepools.karpenter.sh"
POOL = (POOLS, "gpu")
SIZES = [{"key": SIZE, "operator": "In", "values": [T4]}]


def cost(sim: Sim) -> str | None:
    """What the NodePool states that its machines cost."""
    found = sim.store.get(*POOL) or {}
    return ((found.get("status") or {}).get("resources") or {}).get(COST_PER_HOUR)


def refusals(sim: Sim, *pods: str) -> set[str]:
    """Why pods get no machine."""
    found = (event for name in pods for event in pod_events(sim, name))
    return {message.partition("NodePool gpu: ")[2] for reason, message in found if reason == "FailedScheduling"}


@simulated()
async def test_pods_get_machines_up_to_the_limit(sim: Sim) -> None:
    """Two of three pods; a lower price lets the third one be bought, and a higher one removes no machine."""
    await sim.apply(overlay("t4", T4, price="0.5"))
    metrics = Numbers()
    await sim.apply(node_class())
    await sim.apply(node_pool(limits={COST_PER_HOUR: "1.2"}))
    await sim.start_controller(metrics=metrics.metrics)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    names = ("a", "b", "c")
    await pending(sim, *map(pod, names))
    await sim.until(lambda: cost(sim) == "1", 60.0, "two machines")
    await settle(sim, 300.0)
    assert len(claims_of(sim)) == 2
    assert "limits of the NodePool do not allow another machine: gpu-provisioner.sh/cost-per-hour" in refusals(
        sim, *names
    )
    text = "limits of the NodePool are exhausted: gpu-provisioner.sh/cost-per-hour"
    amounts = "(its machines cost 1 of 1.2 USD an hour, another one 0.5)"
    assert f"{text} {amounts}" in refusals(sim, *names)
    for family, amount in (("karpenter_nodepools_usage", 1.0), ("karpenter_nodepools_limit", 1.2)):
        assert metrics.total(family, resource_type="gpu_provisioner.sh/cost_per_hour", nodepool="gpu") == amount
    sim.store.patch(OVERLAYS, "t4", {"spec": {"price": "0.4"}})
    await sim.until(lambda: cost(sim) == "1.2" and len(claims_of(sim)) == 3, 900.0, "the third machine")
    sim.store.patch(OVERLAYS, "t4", {"spec": {"price": "0.6"}})
    await sim.until(lambda: cost(sim) == "1.8", 120.0, "the new price")
    await settle(sim, 600.0)
    assert len(claims_of(sim)) == 3
    message = "is 1.2, and its machines cost 1.8 USD an hour: nothing is bought"
    assert message in shown(sim, "ValidationSucceeded", *POOL)[2]


@simulated()
async def test_a_negative_limit_is_an_error(sim: Sim) -> None:
    await with_node_pool(sim, limits={COST_PER_HOUR: "-1"})
    message = await until_shown(sim, "ValidationSucceeded", POOL, "False", "NodePoolValidationFailed")
    assert "spec.limits[gpu-provisioner.sh/cost-per-hour]" in message
    await pending(sim, pod("a"))
    await settle(sim)
    assert not claims_of(sim)


@simulated()
async def test_a_static_nodepool_has_the_limit_as_an_annotation(sim: Sim) -> None:
    """Two of three replicas, and no replacement of a drifted one before the limit allows a machine beside them."""
    body = node_pool(replicas=3, requirements=SIZES)
    body["metadata"]["annotations"] = {COST_PER_HOUR: "1.2"}
    await sim.apply(overlay("t4", T4, price="0.5"))
    await sim.apply(node_class())
    await sim.apply(body)
    await sim.start_controller()
    await sim.until(lambda: len(ready(sim)) == 2, 900.0, "two machines")
    await settle(sim)
    assert live(sim) == ["gpu-1", "gpu-2"]
    full = "its machines cost 1 USD an hour, another one up to 0.5; raise it"
    assert any(full in one["message"] for one in limit_events(sim))
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    drift(sim, "gpu-1")
    await settle(sim, 300.0)
    assert live(sim) == ["gpu-1", "gpu-2"]
    blocked = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=DisruptionBlocked")
    assert any(full in one["message"] for one in blocked)
    sim.store.patch(POOLS, "gpu", {"metadata": {"annotations": {COST_PER_HOUR: "1.5"}}})
    await sim.until(lambda: live(sim) == ["gpu-2", "gpu-3"] and len(claims_of(sim)) == 2, 1800.0, "gpu-1 is replaced")
