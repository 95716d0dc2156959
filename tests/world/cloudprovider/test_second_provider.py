"""The program over a cloud that is not Azure: no rule, and neither operator, metrics nor commands depend on Azure."""

import asyncio
import io
import json

import pytest

from provisioner.cli.commands import schedule
from provisioner.cli.commands.console import Console
from provisioner.cli.parser import parse
from provisioner.simulator.loop import VirtualClock
from tests.world.commands import command, doctor, explain
from tests.world.demand import node_class, node_pool, pending, pod
from tests.world.harness import EPOCH, Json, Sim, node_claim, simulated
from tests.world.transcript import strip
from tests.world.vms import GPU, MODEL, Vms

HOST = "host-of-vm-first"
DRAIN = ["drain", "the", "Node,"]


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
    assert (status["nodeName"], status["providerID"]) == (HOST, "vms://vm-first")
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


def ready_pool(sim: Sim) -> bool:
    conditions = sim.store.get("nodepools.karpenter.sh", "gpu").get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


async def ready(sim: Sim, vms: Vms, size: str = "one-gpu") -> None:
    """The NodeClaim `first` with a VM of this size is Ready."""
    await sim.start_controller(vms=vms)
    await sim.apply(node_claim("first", size=size))
    await sim.until(lambda: sim.condition("first", "Ready") == "True", 600.0, "the NodeClaim is Ready")


@simulated()
async def test_commands_about_a_healthy_machine(sim: Sim) -> None:
    """They name its VM, its Node and its price, and find nothing wrong, without a request to Azure."""
    vms = vms_of(sim, [])
    await ready(sim, vms)
    explained = await explain(sim, "nodeclaim/first", vms=vms)
    assert explained.out.startswith("NodeClaim first: Ready\n")
    facts = dict(line.split(":", 1) for line in explained.out.splitlines() if ":  " in line)
    named = {key: facts[key].strip() for key in ("Agent pool", "Node", "Price")}
    assert named == {"Agent pool": "vm-first, running, one-gpu", "Node": HOST, "Price": "1.000 USD/h"}
    assert (await doctor(sim, vms=vms)).out == "every Node has its GPUs: 1 ready\n"
    kept = await command(sim, "gc", vms=vms)
    assert kept.out == "nothing to remove: 1 managed agent pool; 0 foreign agent pools\n"
    listed = await command(sim, "uninstall", "--drain", answer="no", vms=vms)
    rows = [line.split()[:3] for line in listed.err.splitlines() if line.startswith(("Node ", "AgentPool "))]
    assert rows == [["Node", HOST, "first"], ["AgentPool", "vm-first", "first"]]
    assert not sim.audit_log.calls(system="arm")


@simulated()
async def test_doctor_expects_the_gpus_of_the_size(sim: Sim) -> None:
    """A VM with two GPUs whose Node has one."""
    vms = vms_of(sim, [])
    await ready(sim, vms, "two-gpus")
    sim.store.patch("nodes", HOST, {"status": {"allocatable": {GPU: "1"}}}, subresource="status")
    found = await doctor(sim, "first", vms=vms)
    assert found.code == 3
    assert f"{GPU}: 1 of 2 allocatable\n" in found.out


@simulated()
async def test_a_vm_without_a_nodeclaim_is_removed(sim: Sim) -> None:
    """gc lists the removal first; Node and VM go in the order of every removal."""
    removed = list[str]()
    vms = vms_of(sim, removed)
    await ready(sim, vms)
    strip(sim, "first")
    found = await command(sim, "gc", vms=vms)
    assert found.row("vm-first").split()[:7] == ["vm-first", "-", HOST, "orphan-pool", *DRAIN]
    await sim.until(
        lambda: not vms.vms and sim.store.get("nodes", HOST) is None, 1200.0, "the VM and its Node are gone"
    )
    assert removed == ["NodeClaim first", "VM vm-first", f"Node {HOST}"]


@simulated()
async def test_schedule_and_explain_about_a_pending_pod(sim: Sim) -> None:
    """Both choose the cheapest size of this cloud that has two GPUs, at its price."""
    vms, pool, waiting = vms_of(sim, []), node_pool(), pod("p", gpus=2)
    pool["spec"]["template"]["spec"]["requirements"] = [{"key": MODEL, "operator": "Exists"}]
    typed, out = io.StringIO(json.dumps({"kind": "List", "items": [node_class(), pool, waiting]})), io.StringIO()
    assert schedule.run(parse(["schedule", "-f", "-"]).arguments, vms, typed, Console(out, out)) == 0
    _, row, *_, total = out.getvalue().splitlines()
    assert row.split() == ["gpu", "two-gpus", "on-demand", "1.900", "1", "default/p"]
    assert total == "1 new machine, 1.900 USD an hour (list prices of cellar, 2026-01-01)"
    await sim.start_controller(vms=vms)
    for one in (node_class(), pool):
        await sim.apply(one)
    await sim.until(lambda: ready_pool(sim), 60.0, "the NodePool is Ready")
    sim.crash()
    await sim.apply(waiting)
    explained = await explain(sim, "pod/p", vms=vms)
    assert explained.out.startswith("Pod default/p: will run on a new two-gpus, 1.900 USD/h from NodePool gpu\n")
    assert "list prices of cellar, 2026-01-01" in (await explain(sim, "nodepool/gpu", vms=vms)).out


@simulated()
async def test_a_vm_whose_node_is_not_ready_is_repaired(sim: Sim) -> None:
    """The Node is read again before its machine is removed."""
    removed = list[str]()
    vms = vms_of(sim, removed)
    await ready(sim, vms)
    vms.fail("vm-first")
    await sim.until(lambda: sim.claim("first") is None, 7200.0, "the NodeClaim is removed")
    assert removed == ["VM vm-first", f"Node {HOST}", "NodeClaim first"]
