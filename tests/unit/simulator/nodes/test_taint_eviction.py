"""Which pods leave a Node with NoExecute taints, and when."""

import asyncio
from typing import Any

import pytest

from provisioner.simulator.nodes.machine import NodeSettings

from .stage import Sim, pod, run_scenario

TAINT = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
ALWAYS = {"operator": "Exists"}
AN_HOUR = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


def tolerating(name: str, node: str, *tolerations: dict[str, Any]) -> dict[str, Any]:
    made = pod(name, node)
    made["spec"]["tolerations"] = [*tolerations]
    return made


@pytest.mark.parametrize(
    ("tolerations", "after_seconds"),
    [((), 0.0), ((UNREACHABLE,), 0.0), ((AN_HOUR,), 3600.0), ((ALWAYS, AN_HOUR), 3600.0), ((ALWAYS,), None)],
)
def test_a_taint_that_a_user_sets(tolerations: tuple[dict[str, Any], ...], after_seconds: float | None) -> None:
    """At once, after the time of the toleration, or never."""

    async def scenario(sim: Sim) -> None:
        sim.create()
        await asyncio.sleep(600)
        sim.store.create("pods", tolerating("a", sim.name, *tolerations), "default")
        await asyncio.sleep(60)
        sim.store.patch("nodes", sim.name, {"spec": {"taints": [TAINT]}})
        if after_seconds:
            await asyncio.sleep(after_seconds - 1.0)
            assert ran(sim)
        await asyncio.sleep(10.0 if after_seconds is not None else 7200.0)
        assert ran(sim) is (after_seconds is None)

    run_scenario(scenario, NodeSettings(taint_evictions=True))


def ran(sim: Sim) -> bool:
    found = sim.store.get("pods", "a", "default")
    return found is not None and "deletionTimestamp" not in found["metadata"]


@pytest.mark.parametrize(("seconds", "stays"), [(290.0, True), (310.0, False)])
def test_a_node_that_does_not_answer(seconds: float, *, stays: bool) -> None:
    """Its pods have five minutes; then they terminate until the kubelet answers."""

    async def scenario(sim: Sim) -> None:
        sim.create()
        await asyncio.sleep(600)
        sim.store.create("pods", pod("a", sim.name), "default")
        await asyncio.sleep(60)
        sim.nodes.set_ready(sim.name, None)
        await asyncio.sleep(seconds)
        assert ran(sim) is stays
        assert sim.store.get("pods", "a", "default") is not None
        sim.nodes.set_ready(sim.name, True)
        await asyncio.sleep(600)
        assert ran(sim) is stays
        assert (sim.store.get("pods", "a", "default") is not None) is stays

    run_scenario(scenario, NodeSettings(taint_evictions=True))
