"""The program over a cloud that is not Azure: nothing of the rules, the operator and the metrics depends on Azure."""

import asyncio

import pytest

from provisioner.simulator.loop import VirtualClock
from tests.world.demand import node_class, node_pool, pending, pod
from tests.world.harness import EPOCH, Json, Sim, node_claim, simulated
from tests.world.vms import MODEL, Vms


def vms_of(sim: Sim, removed: list[str]) -> Vms:
    """The VMs of a story; `removed`: what disappears, in order."""

    def changed(event: str, kind: str, obj: Json, _: Json | None) -> None:
        if event == "DELETED" and kind in ("nodes", "nodeclaims.karpenter.sh"):
            removed.append(f"{obj['kind']} {obj['metadata']['name']}")

    sim.store.subscribe(changed)
    clock = VirtualClock(asyncio.get_running_loop(), EPOCH)
    return Vms(sim.store, clock.now, lambda name: removed.append(f"VM {name}"))


@simulated()
async def test_a_machine_comes_and_goes(sim: Sim) -> None:
    """NodeClaim, VM, Node, Ready; then the VM, its Node and its NodeClaim go in this order."""
    removed = list[str]()
    vms = vms_of(sim, removed)
    await sim.start_controller(vms=vms)
    await sim.apply(node_claim("first", size="one-gpu"))
    await sim.until(lambda: sim.condition("first", "Ready") == "True", 600.0, "the NodeClaim is Ready")
    assert {name: one.size for name, one in vms.vms.items()} == {"vm-first": "one-gpu"}
    status = (sim.claim("first") or {})["status"]
    assert (status["nodeName"], status["providerID"]) == ("host-of-vm-first", "vms://vm-first")
    await sim.delete_claim("first")
    await sim.until(lambda: sim.claim("first") is None, 600.0, "the NodeClaim is gone")
    assert removed == ["VM vm-first", "Node host-of-vm-first", "NodeClaim first"]
    assert vms.vms == {}
    assert not sim.audit_log.calls(system="arm")


@pytest.mark.parametrize(("gpus", "size"), [(1, "one-gpu"), (2, "two-gpus")])
@simulated()
async def test_the_cheapest_machine_for_a_pending_pod(sim: Sim, gpus: int, size: str) -> None:
    """By the sizes, labels and prices of this cloud; the pod is bound to the Node of the VM, which goes after it."""
    removed = list[str]()
    vms = vms_of(sim, removed)
    await sim.start_controller(vms=vms)
    pool = node_pool(disruption={"consolidateAfter": "60s"})
    pool["spec"]["template"]["spec"]["requirements"] = [{"key": MODEL, "operator": "Exists"}]
    for one in (node_class(), pool):
        await sim.apply(one)
    await pending(sim, pod("p", gpus=gpus))
    await sim.until(lambda: sim.store.get("pods", "p", "default")["spec"].get("nodeName"), 900.0, "the pod has a place")
    assert [one.size for one in vms.vms.values()] == [size]
    (claim,) = sim.store.list("nodeclaims.karpenter.sh")
    name = claim["metadata"]["name"]
    assert sim.store.get("pods", "p", "default")["spec"]["nodeName"] == f"host-of-vm-{name}"
    await sim.until(lambda: sim.condition(name, "Ready") == "True", 300.0, "the NodeClaim is Ready")
    await sim.request("DELETE", "/api/v1/namespaces/default/pods/p")
    await sim.until(lambda: not vms.vms, 1200.0, "the empty machine is removed")
    await sim.until(lambda: sim.claim(name) is None, 600.0, "the NodeClaim is gone")
    assert removed == [f"VM vm-{name}", f"Node host-of-vm-{name}", f"NodeClaim {name}"]
