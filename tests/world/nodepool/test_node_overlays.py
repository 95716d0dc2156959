"""NodeOverlays: the prices that a user states decide what is bought, and each overlay states whether it is used."""

import asyncio
from typing import Any

from aiohttp import web

from provisioner.runtime.metrics import Metrics
from tests.world.claims import condition
from tests.world.demand import GPU, T4, claims_of, node_class, node_pool, pending, pod, pod_events, workload
from tests.world.harness import Sim, simulated

from .common import OVERLAYS, overlay

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
A100, TWO_A100 = "Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4"


def ready(sim: Sim, name: str) -> tuple[str, str] | None:
    """Status and message of the condition Ready."""
    found = sim.store.get(OVERLAYS, name) or {}
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next(((one["status"], one["message"]) for one in conditions if one["type"] == "Ready"), None)


def bought(sim: Sim) -> list[str]:
    return sorted(put.properties["vmSize"] for put in sim.cloud.request_log.puts)


def patches(sim: Sim) -> int:
    """How often conditions of overlays were written."""
    return sum(call.verb == "PATCH" and call.target.kind == "nodeoverlays" for call in sim.audit_log.calls())


@simulated()
async def test_the_stated_price_decides(sim: Sim) -> None:
    """A reservation makes an A100 cheaper than a T4; once the overlay is deleted, the next pod gets a T4."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.apply(overlay("reserved", A100, price="0"))
    await sim.start_controller()
    await sim.until(lambda: ready(sim, "reserved") == ("True", ""), 60.0, "the overlay is used")
    await pending(sim, pod("first"))
    await sim.until(lambda: bought(sim) == [A100], 60.0, "an A100 is bought")
    sim.store.delete(OVERLAYS, "reserved")
    await pending(sim, pod("second"))
    await sim.until(lambda: bought(sim) == [A100, T4], 60.0, "a T4 is bought")
    assert len(claims_of(sim)) == 2


@simulated()
async def test_what_overlays_state(sim: Sim) -> None:
    """One that conflicts states with which other one; it is used once the other one has another weight."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.apply(overlay("all", priceAdjustment="-20%"))
    await sim.apply(overlay("typo", "Standard_NC4", price="1", weight=7))
    await sim.apply(overlay("t4", T4, price="0.2"))
    await sim.start_controller()
    why = f"it sets the same as NodeOverlay t4 for {T4} in NodePool gpu: give one of them another spec.weight"
    await sim.until(lambda: all(ready(sim, name) for name in ("all", "t4", "typo")), 60.0, "the overlays were read")
    assert (ready(sim, "all"), ready(sim, "t4")) == (("False", why), ("True", ""))
    unmatched = "no instance type of a NodePool satisfies spec.requirements: it changes nothing"
    assert ready(sim, "typo") == ("True", "")
    found = sim.store.get(OVERLAYS, "typo") or {}
    assert unmatched in [one["message"] for one in found["status"]["conditions"]]
    sim.store.patch(OVERLAYS, "t4", {"spec": {"weight": 10}})
    await sim.until(lambda: ready(sim, "all") == ("True", ""), 60.0, "both are used")
    await asyncio.sleep(60)
    written = patches(sim)
    await asyncio.sleep(600)
    assert patches(sim) == written


@simulated()
async def test_nothing_is_bought_before_the_overlays_are_read(sim: Sim) -> None:
    """A slow list delays the first purchase, which then has the stated price."""

    async def delayed(call: Any, _: Any) -> None:
        if (call.verb, call.target.kind) == ("LIST", "nodeoverlays"):
            await asyncio.sleep(5)

    sim.world.before.append(delayed)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.apply(overlay("reserved", A100, price="0"))
    await sim.start_controller()
    await pending(sim, pod("first"))
    await asyncio.sleep(4)
    assert bought(sim) == []
    assert claims_of(sim) == []
    await sim.until(lambda: bought(sim) == [A100], 60.0, "an A100 is bought")


@simulated()
async def test_refused_lists_stop_purchases_and_nothing_else(sim: Sim) -> None:
    """Without the permission no pod gets a machine, and its Event states why; one that exists is removed."""

    async def forbidden(call: Any, _: Any) -> Any:
        if call.target.kind != "nodeoverlays":
            return None
        body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}
        return web.json_response(body, status=403)

    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    await pending(sim, pod("first"))
    await sim.until(lambda: bought(sim) == [T4], 60.0, "a T4 is bought")
    await sim.stop_controller()
    sim.world.before.append(forbidden)
    await sim.start_controller("ctl1")
    await pending(sim, pod("second"))
    (first,) = claims_of(sim)
    sim.store.delete("pods", "first", "default")
    await sim.delete_claim(first["metadata"]["name"])
    await sim.until(lambda: not claims_of(sim), 1800.0, "the claim is gone")
    assert bought(sim) == [T4]
    (text,) = {text for reason, text in pod_events(sim, "second") if reason == "FailedScheduling"}
    assert text.startswith(
        "Failed to schedule pod, the NodeOverlays, which state prices, cannot be read: 403 Forbidden"
    )


@simulated()
async def test_the_crd_is_deleted(sim: Sim) -> None:
    """List prices count from then on, as without the CRD from the start; once it is back, its overlays count again."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.apply(overlay("reserved", A100, price="0"))
    await sim.start_controller()
    await sim.until(lambda: ready(sim, "reserved") == ("True", ""), 60.0, "the overlay is used")
    crd = sim.store.get("customresourcedefinitions.apiextensions.k8s.io", OVERLAYS)
    await sim.request("DELETE", f"{CRDS}/{OVERLAYS}")
    await asyncio.sleep(30)
    await pending(sim, pod("first"))
    await sim.until(lambda: bought(sim) == [T4], 60.0, "a T4 is bought")
    assert crd is not None
    made = {**crd, "metadata": {"name": OVERLAYS, "annotations": crd["metadata"].get("annotations", {})}, "status": {}}
    await sim.request("POST", CRDS, made)
    await asyncio.sleep(30)
    await sim.apply(overlay("reserved", A100, price="0"))
    await sim.until(lambda: ready(sim, "reserved") == ("True", ""), 60.0, "the overlay is used")
    await pending(sim, pod("second", gpus=1))
    await sim.until(lambda: bought(sim) == [A100, T4], 60.0, "an A100 is bought")


@simulated()
async def test_consolidation_and_metrics_have_the_stated_price(sim: Sim) -> None:
    """A machine becomes dearer by an edit: a cheaper size with its GPU model replaces it."""
    metrics = Metrics()
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}))
    await sim.apply(overlay("reserved", A100, price="0.1"))
    await sim.start_controller(metrics=metrics)
    await sim.until(lambda: ready(sim, "reserved") == ("True", ""), 60.0, "the overlay is used")
    workload(sim, "ReplicaSet", "first")
    await sim.until(lambda: bought(sim) == [A100], 60.0, "an A100 is bought")

    def cost(size: str) -> float | None:
        about = {"instance_type": size, "capacity_type": "on-demand"}
        return metrics.registry.get_sample_value("gpu_provisioner_node_cost_per_hour", about)

    await sim.until(lambda: cost(A100) == 0.1, 1200.0, "the metric has the price")
    await asyncio.sleep(900)
    assert bought(sim) == [A100]
    sim.store.patch(OVERLAYS, "reserved", {"spec": {"price": "70"}})
    await sim.until(lambda: cost(A100) == 70, 60.0, "the metric has the new price")
    await sim.until(lambda: bought(sim) == [A100, TWO_A100], 1200.0, "two A100 are cheaper than one")


@simulated()
async def test_a_device_that_an_overlay_adds(sim: Sim) -> None:
    """Pods that request it get one machine, whose claim is Initialized once the device plugin has registered it."""
    device = "example.com/nic"
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    wanting = pod("first")
    for amounts in wanting["spec"]["containers"][0]["resources"].values():
        amounts[device] = "1"
    await pending(sim, wanting)
    await asyncio.sleep(60)
    assert bought(sim) == []
    await sim.apply(overlay("nic", A100, capacity={device: "2"}))
    await sim.until(lambda: bought(sim) == [A100], 120.0, "an A100 is bought")
    (claim,) = claims_of(sim)
    name = claim["metadata"]["name"]
    assert claim["spec"]["resources"]["requests"][device] == "1"
    await sim.until(
        lambda: device in condition(sim.claim(name), "Initialized").get("message", ""), 1200.0, "the condition names it"
    )
    await asyncio.sleep(300)
    assert bought(sim) == [A100]
    (node,) = (one for one in sim.store.each("nodes") if GPU in one["status"].get("allocatable", {}))
    amounts = {device: "2"}
    added = {"status": {"capacity": amounts, "allocatable": amounts}}
    sim.store.patch("nodes", node["metadata"]["name"], added, subresource="status")
    await sim.until(lambda: sim.condition(name, "Initialized") == "True", 600.0, "the claim is initialized")
