"""Pods with topology constraints: each machine that is bought for them is used by kube-scheduler."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.demand import pending, pod, pod_events, with_node_pool
from tests.world.harness import Json, Sim, simulated
from tests.world.transcript import refuse

from .common import labelled, machines

MINUTES = 60.0


def phases(sim: Sim, *names: str) -> list[str]:
    found = (sim.store.get("pods", name, "default") or {} for name in names)
    return [(one.get("status") or {}).get("phase", "") for one in found]


def spread(**more: Any) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": labels.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }


async def other_nodes(sim: Sim) -> None:
    """The Nodes of the system pool and of the pool of others, outside all zones, are there."""

    def zones() -> list[str | None]:
        return [node["metadata"]["labels"].get(labels.ZONE) for node in sim.store.list("nodes")]

    await sim.until(lambda: zones() == ["0", "0"], 10 * MINUTES, "two Nodes in zone 0")


@simulated()
async def test_spread_that_ignores_node_affinity(sim: Sim) -> None:
    """The Nodes of the system pool are an empty domain in which no pod may run: each other zone gets one machine."""
    zones = {"key": labels.ZONE, "operator": "In", "values": ["westeurope-1", "westeurope-2"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    constraints = [spread(nodeAffinityPolicy="Ignore")]
    await other_nodes(sim)
    await with_node_pool(sim)
    names = [f"p{number}" for number in range(4)]
    wanted = [pod(name, affinity=affinity, topologySpreadConstraints=constraints) for name in names]
    await pending(sim, *(labelled(one, app="x") for one in wanted))
    await asyncio.sleep(30 * MINUTES)
    assert machines(sim) == 2
    assert sorted(phases(sim, *names)) == ["Pending", "Pending", "Running", "Running"]


@simulated()
async def test_spread_that_honors_taints(sim: Sim) -> None:
    """The zone of tainted system Nodes is no domain: all pods run."""
    await other_nodes(sim)
    taint = {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}
    for node in sim.store.list("nodes"):
        sim.store.patch("nodes", node["metadata"]["name"], {"spec": {"taints": [taint]}})
    await with_node_pool(sim)
    names = [f"p{number}" for number in range(6)]
    wanted = [pod(name, topologySpreadConstraints=[spread(nodeTaintsPolicy="Honor")]) for name in names]
    await pending(sim, *(labelled(one, app="x") for one in wanted))
    await asyncio.sleep(30 * MINUTES)
    assert phases(sim, *names) == ["Running"] * 6


def in_namespace(sim: Sim, namespace: str, team: str) -> None:
    if sim.store.get("namespaces", namespace) is None:
        sim.store.create("namespaces", {"metadata": {"name": namespace}})
    sim.store.patch("namespaces", namespace, {"metadata": {"labels": {"team": team}}})


def apart_from(team: str) -> Json:
    term = {
        "topologyKey": labels.HOSTNAME,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": team}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def small(name: str, **spec: Any) -> Json:
    body = labelled(pod(name, **spec), app="x")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return body


@simulated()
@pytest.mark.parametrize(("team", "expected"), [("a", 2), ("b", 1)])
async def test_selectors_of_namespaces(sim: Sim, team: str, expected: int) -> None:
    """A pod gets a machine of its own if its anti-affinity selects the namespace of the others by its labels."""
    in_namespace(sim, "default", "a")
    await with_node_pool(sim)
    await pending(sim, small("first", nodeSelector={labels.NODEPOOL: "gpu"}))
    await sim.until(lambda: phases(sim, "first") == ["Running"], 20 * MINUTES, "the first pod runs")
    await pending(sim, small("second", nodeSelector={labels.NODEPOOL: "gpu"}, affinity=apart_from(team)))
    await sim.until(lambda: phases(sim, "second") == ["Running"], 20 * MINUTES, "the second pod runs")
    assert machines(sim) == expected


@simulated()
async def test_namespaces_that_may_not_be_listed(sim: Sim) -> None:
    """A pod whose term selects namespaces by label waits, with the cause; the others get machines, then it gets one."""
    words = 'namespaces is forbidden: User "gpu-provisioner" cannot list resource "namespaces"'
    allow = refuse(sim, lambda call: call.target.kind == "namespaces" and call.who == "ctl0", 403, "Forbidden", words)
    in_namespace(sim, "default", "a")
    await with_node_pool(sim)
    await pending(sim, pod("plain"), labelled(pod("selecting", affinity=apart_from("a")), app="x"))
    await sim.until(lambda: phases(sim, "plain") == ["Running"], 20 * MINUTES, "the other pod runs")
    assert phases(sim, "selecting") == ["Pending"]
    (found,) = pod_events(sim, "selecting")
    assert found[0] == "FailedScheduling"
    assert "cannot be read" in found[1]
    assert "grant list and watch of namespaces" in found[1]
    allow()
    await sim.until(lambda: phases(sim, "selecting") == ["Running"], 20 * MINUTES, "it runs")
