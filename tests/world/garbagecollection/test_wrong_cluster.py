"""Settings that name another managed cluster than the one of the API server: nothing of either is changed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.claims import ready
from tests.world.commands import check
from tests.world.harness import SIZE, Json, Sim, node_claim, simulated
from tests.world.transcript import FAST, MINUTE, pool_calls

from .common import NO_BOUND, deletes

OTHER = "/subscriptions/s/resourceGroups/mc_rg_b_westeurope/providers/Microsoft.Compute/virtualMachineScaleSets"


def system_node(sim: Sim, provider: str, number: int = 0) -> None:
    """A Node of the API server that no agent pool of ours has."""
    name = f"aks-system-11111111-vmss00000{number}"
    sim.store.create("nodes", {"metadata": {"name": name}, "spec": {"providerID": provider} if provider else {}})


def of_group(group: str, number: int = 0) -> str:
    """The providerID of a machine in this resource group, with the casing of AKS."""
    return f"azure://{group}/aks-system-11111111-vmss/virtualMachines/{number}"


def orphan(sim: Sim) -> None:
    """A machine of another cluster's NodeClaim, whose Node registers with that cluster."""
    sim.nodes.never_register("ws1")
    uid = "11111111-2222-3333-4444-555555555555"
    tags = {labels.TAG_CLAIM_NAME: "ws1", labels.TAG_CLAIM_UID: uid, labels.TAG_PUT_TIME: "2026-03-01T12:05:00Z"}
    sim.cloud.seed_pool("ws1", vmSize=SIZE, nodeLabels={labels.CLAIM_UID: uid}, tags=tags)


def launched(sim: Sim) -> Json:
    """The condition of the claim ws2."""
    found: Json = next(c for c in sim.claim("ws2")["status"]["conditions"] if c["type"] == "Launched")
    return found


@simulated(azure=FAST, foreign_pools=(), **NO_BOUND)
async def test_machines_of_another_cluster_are_not_deleted(sim: Sim) -> None:
    """Every Node of the API server is in another node resource group than the managed cluster's."""
    for number in range(3):
        system_node(sim, of_group(OTHER, number), number)
    await sim.start_controller()
    await asyncio.sleep(5 * MINUTE)
    orphan(sim)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)


@simulated(azure=FAST, foreign_pools=(), **NO_BOUND)
async def test_nothing_is_bought_or_released_in_another_cluster(sim: Sim) -> None:
    """A NodeClaim waits with the cause, and a deleted one keeps its finalizer and its Node."""
    system_node(sim, of_group(OTHER))
    await sim.start_controller()
    await sim.apply(node_claim("ws2"))
    await asyncio.sleep(5 * MINUTE)
    assert not pool_calls(sim, "PUT", name=None)
    condition = launched(sim)
    assert (condition["status"], condition["reason"]) == ("Unknown", "WrongCluster")
    assert "AZURE_CLUSTER_NAME" in condition["message"]
    assert len(condition["message"].encode()) <= 256
    await sim.delete_claim("ws2")
    await asyncio.sleep(20 * MINUTE)
    assert sim.claim("ws2")["metadata"]["finalizers"] == [labels.FINALIZER]


@simulated(azure=FAST, foreign_pools=(), **NO_BOUND)
async def test_an_orphan_waits_for_a_node_that_proves_the_cluster(sim: Sim) -> None:
    """Nodes without a machine in Azure prove nothing: an orphan is kept; the first Node of AKS lets it be removed."""
    system_node(sim, "")
    system_node(sim, "azure-arc://hybrid/1", 1)
    await sim.start_controller()
    await asyncio.sleep(5 * MINUTE)
    orphan(sim)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    group = f"/subscriptions/{sim.cloud.settings.subscription}/resourceGroups/{sim.cloud.settings.machine_group}"
    system_node(sim, of_group(f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets"), 2)
    await asyncio.sleep(5 * MINUTE)
    assert deletes(sim)


@pytest.mark.parametrize("beside", ["", "azure-arc://hybrid/1", of_group(OTHER)], ids=["none", "hybrid", "other group"])
@simulated(azure=replace(FAST))
async def test_other_nodes_do_not_stop_it(sim: Sim, beside: str) -> None:
    """A cluster without Nodes, or with hybrid Nodes and machines of other groups beside those of AKS, is served."""
    if beside:
        settings = sim.cloud.settings
        group = f"/subscriptions/{settings.subscription}/resourceGroups/{settings.machine_group.lower()}"
        system_node(sim, of_group(f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets"))
        system_node(sim, beside, 1)
    await sim.start_controller()
    await sim.apply(node_claim("ws2"))
    await ready(sim, "ws2")
    await sim.delete_claim("ws2")
    await sim.until(lambda: sim.claim("ws2") is None, 20 * MINUTE, "the claim is gone")


@simulated(azure=FAST, foreign_pools=())
async def test_check_names_the_wrong_cluster(sim: Sim) -> None:
    """The command fails before the controller is installed, and names both groups and the settings."""
    system_node(sim, of_group(OTHER))
    ended: Any = await check(sim)
    assert ended.code == 3
    assert "the API server's Nodes are in mc_rg_b_westeurope" in " ".join(ended.out.split())
    assert "AZURE_CLUSTER_NAME" in ended.out


@simulated(azure=FAST, foreign_pools=())
async def test_check_confirms_the_cluster(sim: Sim) -> None:
    """With a Node of the managed cluster the check passes."""
    await sim.start_controller()
    await sim.apply(node_claim("ws2"))
    await ready(sim, "ws2")
    ended: Any = await check(sim)
    assert "same cluster" in ended.out
    assert "Nodes of the API server are machines in" in " ".join(ended.out.split())


@pytest.mark.parametrize("times", [1, 3])
@simulated(azure=replace(FAST), foreign_pools=())
async def test_a_cluster_that_cannot_be_read_is_not_taken_for_this_one(sim: Sim, times: int) -> None:
    """Until the managed cluster is read once, nothing is created or released; without a failure it is another one."""
    system_node(sim, of_group(OTHER))
    sim.cloud.faults.append(Fault(verb="CLUSTER", times=times, answer=errors.gateway(503, "Unavailable", "busy")))
    await sim.start_controller()
    await sim.apply(node_claim("ws2"))
    await asyncio.sleep(5 * MINUTE)
    assert not pool_calls(sim, "PUT", name=None)
    assert launched(sim)["reason"] == "WrongCluster"


@simulated(azure=FAST)
async def test_without_the_right_to_read_the_cluster_claims_state_it(sim: Sim) -> None:
    """Nothing is bought for a managed cluster that is never read; the condition names the missing action."""
    sim.cloud.faults.append(
        Fault(
            verb="CLUSTER",
            times=ALWAYS,
            answer=errors.forbidden("Microsoft.ContainerService/managedClusters/read", "/x"),
        )
    )
    await sim.start_controller()
    await sim.apply(node_claim("ws2"))
    await asyncio.sleep(5 * MINUTE)
    assert not pool_calls(sim, "PUT", name=None)
    assert (launched(sim)["status"], launched(sim)["reason"]) == ("Unknown", "AuthorizationFailed")
    assert "managedClusters/read" in launched(sim)["message"]
