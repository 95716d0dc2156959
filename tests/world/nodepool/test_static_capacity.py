"""A static NodePool has as many NodeClaims as its `spec.replicas`, also without pods."""

from typing import Any

import pytest

from controllers.provisioning.instances import InstanceTypeCache
from controllers.reconcile.static_capacity import StaticCapacity
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.errors import Answer
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod
from tests.world.disruption.common import live, sizes
from tests.world.harness import Sim, simulated

from .common import limit_events, settle

pytestmark = pytest.mark.matrix(quick=0)

POOLS = "nodepools.karpenter.sh"
A100 = "Standard_NC24ads_A100_v4"
SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]


async def static_pool(sim: Sim, replicas: int, **spec: Any) -> None:
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=replicas, requirements=SIZES, **spec))


def all_ready(sim: Sim) -> bool:
    return all(condition(claim, "Ready").get("status") == "True" for claim in claims_of(sim))


def nodes(sim: Sim) -> int:
    """The number of machines of NodePools."""
    return sum("karpenter.sh/nodepool" in pool.properties.get("nodeLabels", {}) for pool in sim.cloud.pools.values())


@simulated()
async def test_replicas_are_created_and_scaled(sim: Sim) -> None:
    """Up, down and to 0, without a pod; what is deleted goes in the ordinary order."""
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2"] and all_ready(sim), 900.0, "two machines")
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 3}})
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2", "gpu-3"], 10.0, "three NodeClaims")
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    await sim.until(lambda: len(live(sim)) == 2, 10.0, "two NodeClaims")
    assert live(sim) == ["gpu-1", "gpu-2"], "the one that was not Ready goes"
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 0}})
    await sim.until(lambda: not claims_of(sim) and nodes(sim) == 0, 900.0, "nothing is left")


@simulated()
async def test_replicas_wait_until_the_nodepool_is_ready(sim: Sim) -> None:
    """Its class does not exist yet; once it does, nothing else has to change."""
    await sim.apply(node_pool(replicas=2, requirements=SIZES))
    await sim.start_controller()
    await settle(sim, 600.0)
    assert not claims_of(sim)
    await sim.apply(node_class())
    await sim.until(lambda: len(live(sim)) == 2, 30.0, "two NodeClaims")


@pytest.mark.parametrize("replicas", [300, 100_000_000])
@simulated()
async def test_no_more_replicas_than_agent_pools(sim: Sim, replicas: int) -> None:
    """A cluster has at most 100 agent pools, of which some are reserved; an Event names the limit."""
    await static_pool(sim, replicas)
    await sim.start_controller()
    await settle(sim, 60.0)
    assert 80 <= len(live(sim)) <= 100
    assert [f"spec.replicas {replicas} is more than" in one["message"] for one in limit_events(sim)] == [True]


@simulated()
async def test_a_deleted_replica_is_replaced(sim: Sim) -> None:
    """One that a user deletes is replaced at once; a full `limits.nodes` waits until it is gone."""
    await static_pool(sim, 1)
    await sim.start_controller()
    await sim.until(lambda: live(sim) == ["gpu-1"] and all_ready(sim), 900.0, "the machine")
    sim.store.patch(POOLS, "gpu", {"spec": {"limits": {"nodes": "1"}}})
    sim.store.delete("nodeclaims.karpenter.sh", "gpu-1")
    await sim.until(lambda: sim.store.list("nodeclaims.karpenter.sh") == [] or live(sim), 900.0, "the old one goes")
    await sim.until(lambda: len(live(sim)) == 1 and all_ready(sim), 900.0, "the next machine")
    await settle(sim)
    assert len(claims_of(sim)) == 1


@simulated()
async def test_a_shortage_leads_to_no_series_of_nodeclaims(sim: Sim) -> None:
    """A NodeClaim that cannot be launched stays, with its cause; pods that other machines could take change nothing."""
    sim.cloud.faults.append(faults.capacity())
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: len(live(sim)) == 2, 30.0, "two NodeClaims")
    uids = {claim["metadata"]["uid"] for claim in claims_of(sim)}
    await pending(sim, pod("p"))
    await settle(sim, 1800.0)
    assert {claim["metadata"]["uid"] for claim in claims_of(sim)} == uids
    assert {condition(claim, "Launched")["status"] for claim in claims_of(sim)} == {"False"}


@simulated()
async def test_replicas_beyond_the_limit_are_reported(sim: Sim) -> None:
    await static_pool(sim, 3, limits={"nodes": "1"})
    await sim.start_controller()
    await sim.until(lambda: len(live(sim)) == 1, 30.0, "one NodeClaim")
    await settle(sim)
    assert len(live(sim)) == 1
    found = condition(sim.store.get(POOLS, "gpu"), "ValidationSucceeded")
    assert "does not allow 2 of spec.replicas" in found["message"]
    await settle(sim, 3600.0)
    [event] = limit_events(sim)
    assert event["message"] == found["message"]
    assert 2 <= event["count"] <= 13, "it is repeated, so that it does not expire, and not in each pass"


@simulated()
async def test_a_limit_that_deleted_nodeclaims_use_is_an_event(sim: Sim) -> None:
    """The limit allows all of `spec.replicas`, and not beside the one that goes."""
    await static_pool(sim, 1, limits={"nodes": "1"})
    await sim.start_controller()
    await sim.until(lambda: live(sim) == ["gpu-1"] and all_ready(sim), 900.0, "the machine")
    assert not limit_events(sim)
    sim.store.delete("nodeclaims.karpenter.sh", "gpu-1")
    await sim.until(lambda: len(live(sim)) == 1 and all_ready(sim), 900.0, "the next machine")
    assert [one["message"] for one in limit_events(sim)] == [
        "spec.limits[nodes] is 1 and counts NodeClaims that are being deleted: 1 of spec.replicas 1 can be created"
        " after them"
    ]


@simulated()
async def test_the_deletion_of_the_nodepool_removes_its_machines(sim: Sim) -> None:
    """And none is created while they go."""
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: len(live(sim)) == 2 and all_ready(sim), 900.0, "two machines")
    sent = sim.audit_log.calls(verb="PUT", kind="pools")
    sim.store.delete(POOLS, "gpu")
    await sim.until(lambda: not claims_of(sim) and nodes(sim) == 0, 900.0, "nothing is left")
    assert sim.audit_log.calls(verb="PUT", kind="pools") == sent


@simulated()
async def test_two_replicas_of_the_controller_create_each_machine_once(sim: Sim) -> None:
    """Without a Lease both write; the name of the next NodeClaim is the same for both."""
    created: set[str] = set()

    def changed(event: str, resource: str, obj: dict[str, Any], _: object) -> None:
        if (event, resource) == ("ADDED", "nodeclaims.karpenter.sh"):
            created.add(obj["metadata"]["uid"])

    sim.store.subscribe(changed)
    await static_pool(sim, 4)
    for name in ("one", "two"):
        await sim.start_controller(name, elect=False)
    await sim.until(lambda: len(live(sim)) == 4, 60.0, "four NodeClaims")
    await settle(sim)
    assert len(created) == 4
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    await sim.until(lambda: len(live(sim)) <= 2, 60.0, "two NodeClaims")
    await settle(sim)
    assert (len(live(sim)), len(created)) == (2, 4)


def bound(sim: Sim, name: str, kind: str, claim: str, *, nominated: bool = False, kept: bool = False) -> None:
    """A pod of such a controller on the machine of this NodeClaim; `nominated`: its scheduler ends others there."""
    version, uid = "apps/v1", name
    if kind == "Job":
        version, uid = (
            "batch/v1",
            sim.store.create("jobs.batch", {"metadata": {"name": name}}, "default")["metadata"]["uid"],
        )
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    node = (sim.claim(claim) or {})["status"]["nodeName"]
    body = pod(name, **{"schedulerName": "volcano"} if nominated else {"nodeName": node})
    meta = {**body["metadata"], "ownerReferences": [owner]}
    if kept:
        meta["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    sim.store.create("pods", {**body, "metadata": meta}, "default")
    if nominated:
        status = {"status": {"nominatedNodeName": node}}
        sim.store.patch("pods", name, status, "default", subresource="status")


@pytest.mark.parametrize("nominated", [False, True])
@simulated()
async def test_the_machine_whose_end_costs_least_goes(sim: Sim, nominated: bool) -> None:
    """The order of their pods: one that is created again, one of a Job, bound or soon, one with do-not-disrupt."""
    await static_pool(sim, 3)
    await sim.start_controller()
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2", "gpu-3"] and all_ready(sim), 900.0, "three machines")
    bound(sim, "web", "ReplicaSet", "gpu-1")
    bound(sim, "kept", "ReplicaSet", "gpu-2", kept=True)
    bound(sim, "train", "Job", "gpu-3", nominated=nominated)
    await settle(sim)
    for replicas, left in ((2, ["gpu-2", "gpu-3"]), (1, ["gpu-2"])):
        sim.store.patch(POOLS, "gpu", {"spec": {"replicas": replicas}})
        await sim.until(lambda left=left: live(sim) == left, 60.0, "one is deleted")  # type: ignore[misc]  # the default binds the value of this round
        await settle(sim)
        assert live(sim) == left


REFUSED = Answer(403, {"error": {"code": "RequestDisallowedByPolicy", "message": "Disallowed by 'allowed sizes'."}})
CORRECTIONS: dict[str, tuple[faults.Fault, list[dict[str, Any]]]] = {
    "another size": (faults.capacity(size=A100), sizes(T4)),
    "one more size": (faults.capacity(size=A100), sizes(A100, T4)),
    "refused for good": (faults.Fault(verb="PUT", size=A100, answer=REFUSED, times=100_000), sizes(T4)),
}


@pytest.mark.parametrize("case", CORRECTIONS)
@simulated()
async def test_a_corrected_nodepool_replaces_what_cannot_be_launched(sim: Sim, case: str) -> None:
    """Once; before the correction and after it the NodeClaim stays."""
    fault, corrected = CORRECTIONS[case]
    sim.cloud.faults.append(fault)
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=1, requirements=sizes(A100)))
    await sim.start_controller()
    await settle(sim, 1800.0)
    assert live(sim) == ["gpu-1"]
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=corrected)["spec"]["template"]}})
    await sim.until(lambda: live(sim) == ["gpu-2"] and all_ready(sim), 1800.0, "the machine")
    await settle(sim, 600.0)
    assert live(sim) == ["gpu-2"]


@simulated()
async def test_replicas_beyond_its_own_limit_are_no_lack_of_progress(sim: Sim) -> None:
    """The condition states the limit; the invariant I21 does not expect more machines."""
    await static_pool(sim, 3, limits={"nodes": "1"})
    await sim.start_controller()
    await settle(sim, 4000.0)
    assert live(sim) == ["gpu-1"]


def test_a_pass_reads_once_which_instance_types_can_be_bought(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is about hundreds of offerings, so it is not asked for each NodeClaim."""
    requested: list[int] = []
    in_region, replicas = InstanceTypeCache.in_region, StaticCapacity._replicas
    inside = False

    def counted(self: InstanceTypeCache, *args: Any) -> Any:
        if inside:
            requested[-1] += 1
        return in_region(self, *args)

    def passed(self: StaticCapacity, *args: Any) -> Any:
        nonlocal inside
        requested.append(0)
        inside = True
        try:
            return replicas(self, *args)
        finally:
            inside = False

    monkeypatch.setattr(InstanceTypeCache, "in_region", counted)
    monkeypatch.setattr(StaticCapacity, "_replicas", passed)

    @simulated()
    async def story(sim: Sim) -> None:
        await static_pool(sim, 4)
        await sim.start_controller()
        await sim.until(lambda: len(live(sim)) == 4 and all_ready(sim), 900.0, "four machines")
        requested.clear()
        await settle(sim, 600.0)

    story()
    assert set(requested) == {1}


@simulated()
async def test_a_schedule_of_the_node_class_lowers_the_replicas(sim: Sim) -> None:
    """A protected machine stays; the other one is created again when the schedule ends."""
    night = {"schedule": "0 14 * * *", "duration": "2h", "timeZone": "Europe/Berlin"}  # 13:00 to 15:00 UTC
    await static_pool(sim, 2)
    sim.store.patch("agentpoolnodeclasses.gpu-provisioner.sh", "default", {"spec": {"replicaSchedules": [night]}})
    await sim.start_controller()
    await sim.until(lambda: len(live(sim)) == 2 and all_ready(sim), 900.0, "two machines")
    kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    sim.store.patch("nodeclaims.karpenter.sh", "gpu-1", kept)
    await settle(sim, 3600.0 - sim.now - 30.0)
    assert live(sim) == ["gpu-1", "gpu-2"]
    await sim.until(lambda: len(claims_of(sim)) == 1 and nodes(sim) == 1, 900.0, "one machine is deleted")
    (event,) = sim.store.list("events", fields="involvedObject.kind=NodeClaim,reason=ScaledDown")
    why = "spec.replicaSchedules[0].replicas of AgentPoolNodeClass default, which is 0"
    assert event["message"].startswith(f"Deleted from NodePool gpu by {why}"), event["message"]
    await settle(sim, 3 * 3600.0 - sim.now - 60.0)
    assert live(sim) == ["gpu-1"]
    await sim.until(lambda: len(live(sim)) == 2 and all_ready(sim), 900.0, "two machines again")
