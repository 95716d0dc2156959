"""Machines outside all zones: a domain like a zone, with whatever label Azure's cloud provider writes."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.demand import node_pool, pending, pod, with_node_pool
from tests.world.harness import Json, Sim, simulated

from .common import labelled, machines, running

HOUR = 3600.0
SPREAD = {
    "maxSkew": 1,
    "topologyKey": labels.ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


def spread(name: str, **spec: Any) -> Json:
    return labelled(pod(name, topologySpreadConstraints=[SPREAD], **spec), app="x")


def near(**selected: str) -> Json:
    term = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": selected}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


async def settled(sim: Sim) -> None:
    """The cloud node manager has labelled the Nodes of the system pools."""
    await sim.until(
        lambda: all(labels.REGION in one["metadata"]["labels"] for one in sim.store.list("nodes")), 60.0, "labels"
    )
    await asyncio.sleep(1)


def zones(sim: Sim, *names: str) -> list[str]:
    """The zone labels of the Nodes of these pods."""
    nodes = [sim.store.get("pods", name, "default")["spec"]["nodeName"] for name in names]
    return sorted(sim.store.get("nodes", name)["metadata"]["labels"].get(labels.ZONE, "") for name in nodes)


@pytest.mark.parametrize("label", ["0", "westus-0"])
def test_a_region_without_zones(label: str) -> None:
    """Pods that are spread over zones, or need a pod of the same zone, run in the one domain that there is."""

    @simulated(azure=AzureSettings(location="westus", regional_zone=label))
    async def story(sim: Sim) -> None:
        await with_node_pool(sim)
        await settled(sim)
        follower = labelled(pod("follower", affinity=near(app="x")), app="y")
        await pending(sim, spread("a"), spread("b"), follower)
        await asyncio.sleep(HOUR)
        assert running(sim, "a", "b", "follower") == ["a", "b", "follower"]
        assert zones(sim, "a", "b", "follower") == [label] * 3
        assert machines(sim) == 3

    story()


@simulated(azure=AzureSettings(location="westus", regional_zone=""))
async def test_nodes_without_a_zone_label(sim: Sim) -> None:
    """kube-scheduler places no pod with such a constraint there: nothing is bought, and other pods are served."""
    await with_node_pool(sim)
    await settled(sim)
    await pending(sim, spread("a"), pod("b"))
    await asyncio.sleep(HOUR)
    assert running(sim, "a", "b") == ["b"]
    assert machines(sim) == 1


@simulated()
async def test_a_system_pool_without_zones(sim: Sim) -> None:
    """kube-scheduler counts its zone 0 as a fourth domain: pods that are spread get machines there too."""
    await with_node_pool(sim)
    await settled(sim)
    names = [f"p{number}" for number in range(6)]
    await pending(sim, *(spread(name) for name in names))
    await asyncio.sleep(HOUR)
    assert running(sim, *names) == names
    assert "0" in zones(sim, *names)
    assert machines(sim) == 6


@simulated()
async def test_a_pod_of_the_same_zone(sim: Sim) -> None:
    """A pod that needs another one in its zone gets a machine where that one is, also outside all zones."""
    await with_node_pool(sim)
    await settled(sim)
    await pending(sim, labelled(pod("server"), app="server"))
    await sim.until(lambda: running(sim, "server"), HOUR, "the server runs")
    await pending(sim, labelled(pod("worker", affinity=near(app="server")), app="worker"))
    await asyncio.sleep(HOUR)
    assert running(sim, "worker") == ["worker"]
    assert zones(sim, "server", "worker") == ["0", "0"]
    assert machines(sim) == 2


@simulated()
async def test_pods_that_arrive_together(sim: Sim) -> None:
    """Two pods of one zone get machines in a zone."""
    await with_node_pool(sim)
    await settled(sim)
    server, worker = pod("server"), pod("worker", affinity=near(app="server"))
    await pending(sim, labelled(server, app="server"), labelled(worker, app="worker"))
    await asyncio.sleep(HOUR)
    assert running(sim, "server", "worker") == ["server", "worker"]
    assert zones(sim, "server", "worker") == ["westeurope-1", "westeurope-1"]


@simulated()
async def test_no_domain_is_added_to_a_spread(sim: Sim) -> None:
    """Beside pods that are spread over three zones, a pod without a constraint gets a machine in a zone.

    Its machine outside all zones would be a domain without a pod of the spread, in which that NodePool cannot buy.
    """
    await settled(sim)
    for node in sim.store.list("nodes"):
        sim.store.delete("nodes", node["metadata"]["name"])
    three = {"key": labels.ZONE, "operator": "In", "values": [f"westeurope-{number}" for number in (1, 2, 3)]}
    await with_node_pool(sim, requirements=[three])
    await sim.apply(node_pool("anywhere"))
    names = [f"p{number}" for number in range(4)]
    await pending(sim, pod("other", nodeSelector={"karpenter.sh/nodepool": "anywhere"}))
    await pending(sim, *(spread(name, nodeSelector={"karpenter.sh/nodepool": "gpu"}) for name in names))
    await asyncio.sleep(HOUR)
    assert running(sim, "other", *names) == ["other", *names]
    assert "0" not in zones(sim, "other", *names)
