"""A static NodePool has as many NodeClaims as its `spec.replicas`, also without pods."""

from typing import Any

import pytest

from provisioner.simulator.azure import faults
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Sim, simulated

pytestmark = pytest.mark.matrix(quick=0)

POOLS = "nodepools.karpenter.sh"
SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]


async def static_pool(sim: Sim, replicas: int, **spec: Any) -> None:
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=replicas, requirements=SIZES, **spec))


def names(sim: Sim) -> list[str]:
    """The NodeClaims that are not being deleted."""
    return sorted(one["metadata"]["name"] for one in claims_of(sim) if "deletionTimestamp" not in one["metadata"])


def all_ready(sim: Sim) -> bool:
    return all(condition(claim, "Ready").get("status") == "True" for claim in claims_of(sim))


def nodes(sim: Sim) -> int:
    """The number of machines of NodePools."""
    return sum("karpenter.sh/nodepool" in pool.properties.get("nodeLabels", {}) for pool in sim.cloud.pools.values())


async def settle(sim: Sim, seconds: float = 90.0) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some more passes")


@simulated()
async def test_replicas_are_created_and_scaled(sim: Sim) -> None:
    """Up, down and to 0, without a pod; what is deleted goes in the ordinary order."""
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: names(sim) == ["gpu-1", "gpu-2"] and all_ready(sim), 900.0, "two machines")
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 3}})
    await sim.until(lambda: names(sim) == ["gpu-1", "gpu-2", "gpu-3"], 10.0, "three NodeClaims")
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    await sim.until(lambda: len(names(sim)) == 2, 10.0, "two NodeClaims")
    assert names(sim) == ["gpu-1", "gpu-2"], "the one that was not Ready goes"
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 0}})
    await sim.until(lambda: not claims_of(sim) and nodes(sim) == 0, 900.0, "nothing is left")


@simulated()
async def test_a_deleted_replica_is_replaced(sim: Sim) -> None:
    """One that a user deletes is replaced at once; a full `limits.nodes` waits until it is gone."""
    await static_pool(sim, 1)
    await sim.start_controller()
    await sim.until(lambda: names(sim) == ["gpu-1"] and all_ready(sim), 900.0, "the machine")
    sim.store.patch(POOLS, "gpu", {"spec": {"limits": {"nodes": "1"}}})
    sim.store.delete("nodeclaims.karpenter.sh", "gpu-1")
    await sim.until(lambda: sim.store.list("nodeclaims.karpenter.sh") == [] or names(sim), 900.0, "the old one goes")
    await sim.until(lambda: len(names(sim)) == 1 and all_ready(sim), 900.0, "the next machine")
    await settle(sim)
    assert len(claims_of(sim)) == 1


@simulated()
async def test_a_shortage_leads_to_no_series_of_nodeclaims(sim: Sim) -> None:
    """A NodeClaim that cannot be launched stays, with its cause; pods that other machines could take change nothing."""
    sim.cloud.faults.append(faults.capacity())
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: len(names(sim)) == 2, 30.0, "two NodeClaims")
    uids = {claim["metadata"]["uid"] for claim in claims_of(sim)}
    await pending(sim, pod("p"))
    await settle(sim, 1800.0)
    assert {claim["metadata"]["uid"] for claim in claims_of(sim)} == uids
    assert {condition(claim, "Launched")["status"] for claim in claims_of(sim)} == {"False"}


@simulated()
async def test_replicas_beyond_the_limit_are_reported(sim: Sim) -> None:
    await static_pool(sim, 3, limits={"nodes": "1"})
    await sim.start_controller()
    await sim.until(lambda: len(names(sim)) == 1, 30.0, "one NodeClaim")
    await settle(sim)
    assert len(names(sim)) == 1
    found = condition(sim.store.get(POOLS, "gpu"), "ValidationSucceeded")
    assert "does not allow 2 of spec.replicas" in found["message"]


@simulated()
async def test_the_deletion_of_the_nodepool_removes_its_machines(sim: Sim) -> None:
    """And none is created while they go."""
    await static_pool(sim, 2)
    await sim.start_controller()
    await sim.until(lambda: len(names(sim)) == 2 and all_ready(sim), 900.0, "two machines")
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
    await sim.until(lambda: len(names(sim)) == 4, 60.0, "four NodeClaims")
    await settle(sim)
    assert len(created) == 4
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    await sim.until(lambda: len(names(sim)) <= 2, 60.0, "two NodeClaims")
    await settle(sim)
    assert (len(names(sim)), len(created)) == (2, 4)
