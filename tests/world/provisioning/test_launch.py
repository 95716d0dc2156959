"""From the offerings of a NodeClaim to its machine: the order of prices after refusals, and zones."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Fault
from tests.world.demand import claims_of, node_class, node_pool, pending, pod, sizes, with_node_pool
from tests.world.harness import Json, Sim, simulated

# In westeurope the second one costs 15 % more than the first one, and the third one twice as much.
A10, A100, H100 = "Standard_NV36ads_A10_v5", "Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5"
SIZES = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [H100, A100, A10]}
REFUSALS: dict[str, Callable[[str], Fault]] = {
    "SkuNotAvailable": lambda size: faults.capacity("SkuNotAvailable", size=size),
    "AllocationFailed": lambda size: faults.capacity("AllocationFailed", size=size),
    "quota, later": lambda size: faults.quota(size=size),
    "quota, at once": lambda size: faults.quota_preflight(size=size),
    "restricted": faults.restricted,
}


def requirement(claim: Json, key: str) -> list[str]:
    """The values of a requirement; [] without one."""
    return [value for one in claim["spec"]["requirements"] if one["key"] == key for value in one.get("values", ())]


def running(sim: Sim, *names: str) -> list[Json]:
    """The Nodes on which these pods run, once all run."""
    found = [sim.store.get("pods", name, "default") or {} for name in names]
    if any((one.get("status") or {}).get("phase") != "Running" for one in found):
        return []
    return [node for one in found if (node := sim.store.get("nodes", one["spec"]["nodeName"])) is not None]


@pytest.mark.parametrize("refusal", REFUSALS)
@simulated()
async def test_the_next_size_follows_within_the_same_claim(sim: Sim, refusal: str) -> None:
    """The NodeClaim has all sizes within 15 % of the price, cheapest first; the first one cannot be had."""
    sim.cloud.faults.append(REFUSALS[refusal](A10))
    await with_node_pool(sim, requirements=[SIZES])
    await pending(sim, pod("p"))
    (claim,) = await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    assert requirement(claim, labels.INSTANCE_TYPE) == [A10, A100]
    (node,) = await sim.until(lambda: running(sim, "p"), 1500.0, "the pod runs")
    assert node["metadata"]["labels"][labels.INSTANCE_TYPE] == A100
    assert [one["metadata"]["uid"] for one in claims_of(sim)] == [claim["metadata"]["uid"]]


@simulated()
async def test_a_claim_whose_sizes_all_failed_is_replaced(sim: Sim) -> None:
    """One by AllocationFailed, one by quota: its NodeClaim is deleted, and the dearer machine is bought, once."""
    sim.cloud.faults += [faults.capacity("AllocationFailed", size=A10), faults.quota_preflight(size=A100)]
    await with_node_pool(sim, requirements=[SIZES])
    await pending(sim, pod("p"))
    (claim,) = await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    (node,) = await sim.until(lambda: running(sim, "p"), 1800.0, "the pod runs")
    assert node["metadata"]["labels"][labels.INSTANCE_TYPE] == H100
    await asyncio.sleep(600)
    (other,) = claims_of(sim)
    assert other["metadata"]["uid"] != claim["metadata"]["uid"]
    assert sizes(sim) == [H100]


SPREAD = {
    "maxSkew": 1,
    "topologyKey": labels.ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "trainer"}},
}


def spread(name: str) -> Json:
    made = pod(name, topologySpreadConstraints=[SPREAD])
    made["metadata"]["labels"] = {"app": "trainer"}
    return made


def zones(sim: Sim, nodes: list[Json]) -> list[tuple[str, Any]]:
    """The zone of each Node, and the zones of its pool."""
    found = []
    for node in nodes:
        known = node["metadata"]["labels"]
        found.append((known[labels.ZONE], sim.cloud.pools[known[labels.AGENTPOOL]].properties["availabilityZones"]))
    return sorted(found)


@simulated()
async def test_pods_that_spread_over_zones(sim: Sim) -> None:
    """Three pods get a machine in each zone: requirement of the NodeClaim, zone of the pool, label of the Node."""
    await with_node_pool(sim)
    await pending(sim, *(spread(name) for name in "abc"))
    await sim.until(lambda: len(claims_of(sim)) == 3, 20.0, "three NodeClaims")
    expected = [f"westeurope-{number}" for number in (1, 2, 3)]
    assert sorted(requirement(claim, labels.ZONE)[0] for claim in claims_of(sim)) == expected
    nodes = await sim.until(lambda: running(sim, "a", "b", "c"), 1800.0, "all pods run")
    assert zones(sim, nodes) == [(f"westeurope-{number}", [number]) for number in "123"]
    assert len(claims_of(sim)) == 3


@simulated()
async def test_a_nodepool_in_two_zones(sim: Sim) -> None:
    """A machine in one of them; if it has no capacity there, the same NodeClaim gets it in the other one."""
    sim.cloud.faults.append(faults.capacity("ZonalAllocationFailed", zone="1"))
    both = {"key": labels.ZONE, "operator": "In", "values": ["westeurope-1", "westeurope-2"]}
    await with_node_pool(sim, requirements=[both])
    await pending(sim, pod("p"))
    (claim,) = await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    assert requirement(claim, labels.ZONE) == both["values"]
    nodes = await sim.until(lambda: running(sim, "p"), 1800.0, "the pod runs")
    assert zones(sim, nodes) == [("westeurope-2", ["2"])]
    assert [one["metadata"]["uid"] for one in claims_of(sim)] == [claim["metadata"]["uid"]]


@simulated()
async def test_without_a_constraint_azure_chooses_the_zone(sim: Sim) -> None:
    """The NodeClaim requires no zone, and a later pod that requires one gets a machine of its own."""
    await with_node_pool(sim)
    await pending(sim, pod("any"))
    (claim,) = await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    assert requirement(claim, labels.ZONE) == []
    await pending(sim, pod("zonal", gpus=0, nodeSelector={labels.ZONE: "westeurope-2"}))
    await sim.until(lambda: len(claims_of(sim)) == 2, 20.0, "another NodeClaim")
    await sim.until(lambda: running(sim, "any", "zonal"), 1800.0, "both pods run")
    made = {requirement(one, labels.ZONE)[0] if requirement(one, labels.ZONE) else "" for one in claims_of(sim)}
    assert made == {"", "westeurope-2"}
    requested = sorted(str(put.properties.get("availabilityZones")) for put in sim.cloud.request_log.puts)
    assert requested == ["None", "['2']"]


@simulated()
async def test_spot_is_requested_before_on_demand(sim: Sim) -> None:
    """At equal prices spot comes first; without capacity of spot the same NodeClaim gets an on-demand machine."""
    sim.cloud.faults.append(faults.capacity("AllocationFailed", priority="Spot"))
    both = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}
    await with_node_pool(sim, requirements=[both])
    await pending(sim, pod("p", tolerations=[{"operator": "Exists"}]))
    (claim,) = await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    (node,) = await sim.until(lambda: running(sim, "p"), 1800.0, "the pod runs")
    assert node["metadata"]["labels"][labels.CAPACITY_TYPE] == "on-demand"
    priorities = [put.properties.get("scaleSetPriority", "Regular") for put in sim.cloud.request_log.puts]
    assert priorities == ["Spot", "Regular"]
    assert [one["metadata"]["uid"] for one in claims_of(sim)] == [claim["metadata"]["uid"]]


@simulated()
async def test_spot_as_a_label_of_the_node_pool(sim: Sim) -> None:
    """A label of the template is a requirement, as in Karpenter, also of the capacity type."""
    pool = node_pool()
    pool["spec"]["template"]["metadata"]["labels"] = {labels.CAPACITY_TYPE: "spot"}
    await sim.apply(node_class())
    await sim.apply(pool)
    await sim.start_controller()
    await pending(sim, pod("p", tolerations=[{"operator": "Exists"}]))
    (node,) = await sim.until(lambda: running(sim, "p"), 1800.0, "the pod runs")
    assert node["metadata"]["labels"][labels.CAPACITY_TYPE] == "spot"
    await asyncio.sleep(600.0)
    assert [put.properties.get("scaleSetPriority") for put in sim.cloud.request_log.puts] == ["Spot"]
