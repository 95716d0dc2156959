"""`gpu-provisioner cost` beside a running controller: what runs, what it costs, and what nobody requests."""

import asyncio
import json
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from tests.world.claims import ready
from tests.world.commands import WHO, cost, written
from tests.world.demand import T4, node_class, node_pool, pending, pod
from tests.world.disruption.common import disruption, phase
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, refuse

pytestmark = pytest.mark.matrix(quick=0)

# It has no list price in the region of the simulator.
UNPRICED = "Standard_NG32adms_V620_v1"


def only(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


OVERLAY = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "spot"},
    "spec": {"requirements": [only(labels.CAPACITY_TYPE, "spot")], "price": "0.25"},
}


@simulated(azure=FAST)
async def test_what_a_fleet_costs(sim: Sim) -> None:
    """Nothing at first; then a spot machine at a stated price, one on demand, and one whose price nobody states."""
    ended = await cost(sim)
    assert (ended.code, ended.out) == (0, "No machine of this controller runs: nothing is paid.\n")
    for body in (node_class(), OVERLAY):
        await sim.apply(body)
    terms = {"a100": (SIZE, "on-demand"), "t4": (T4, "spot")}
    for name, (size, term) in terms.items():
        wanted = [only(labels.INSTANCE_TYPE, size), only(labels.CAPACITY_TYPE, term)]
        await sim.apply(node_pool(name, requirements=wanted, disruption=disruption("Never")))
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=UNPRICED))
    for name, size in (("train", SIZE), ("web", T4)):
        await pending(sim, pod(name, nodeSelector={labels.INSTANCE_TYPE: size}, tolerations=[{"operator": "Exists"}]))
    await sim.until(lambda: phase(sim, "train") == phase(sim, "web") == "Running", 1800.0, "the pods run")
    await ready(sim, NAME)
    sim.store.delete("pods", "web", "default")
    await asyncio.sleep(60)
    ended = await cost(sim)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "NODEPOOL   MACHINES   GPUS   REQUESTED   USD/H   USD/DAY   IDLE   IDLE USD/H   SAVED USD/H   UNPRICED",
        "a100       1          1      1           4.775   114.60    0%     0.000        0.000         -",
        "t4         1          1      0           0.250   6.00      100%   0.250        0.408         -",
        "<none>     1          1      0           -       -         100%   -            -             1",
        "total      3          3      1           5.025   120.60    67%    0.250        0.408         1",
        "",
        "Prices: list prices of westeurope, 2026-06-18, and prices of NodeOverlays",
        "1 machine without a price: part of no cost. State the price with a NodeOverlay or --prices.",
    ]
    answers = [json.loads((await cost(sim, "--by", by, "-o", "json")).out) for by in ("namespace", "nodeclaim", "app")]
    rows = {one["by"]: [(row["name"], row["perHour"]) for row in one["rows"]] for one in answers}
    assert rows["namespace"] == [("default", 4.775), ("<idle>", 0.25)]
    assert rows["app"] == [("<none>", 4.775), ("<idle>", 0.25)]
    assert [price for _, price in rows["nodeclaim"]] == [4.775, 0.25, 0.0]
    assert [one["total"] for one in answers[1:]] == [answers[0]["total"]] * 2
    assert written(sim) == []


@simulated(azure=FAST)
async def test_without_a_right(sim: Sim) -> None:
    """The error names what may not be read."""
    await sim.start_controller()

    def lists_pods(call: Call) -> bool:
        return call.who == WHO and call.target.kind == "pods"

    refuse(sim, lists_pods, 403, "Forbidden", "pods is forbidden")
    ended = await cost(sim, "--by", "namespace")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("the API server: 403 Forbidden: list pods: pods is forbidden\nRequest this permission;")
