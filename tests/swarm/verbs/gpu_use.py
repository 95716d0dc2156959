"""Faults of GPUs that pods use: what must have held while they did is stated at the end of each verb."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from provisioner.simulator.kube.objects import rfc3339
from provisioner.simulator.nodes.machine import Machine
from provisioner.simulator.snapshot import condition, requests_gpus
from tests.swarm.owners import SLOW
from tests.swarm.plan import Event
from tests.world.demand import pod
from tests.world.harness import EPOCH, Json

from .base import one_of, verb
from .gpus import GPUS, installed
from .nodes import ready
from .truth import REPORTED_SECONDS, by_dra, claim_of, kept, remains

if TYPE_CHECKING:
    from tests.swarm.run import Run

# After a loss, so soon its Node is cordoned.
CORDONED_SECONDS = 540.0
# A Node that is Ready again is looked at within so long.
SEEN_SECONDS = 20.0
SHARES = 4
PREEMPTED_SECONDS = 120.0


def _used(run: "Run", machine: Machine) -> list[Json]:
    """The pods with GPUs on it."""
    return [one for one in run.sim.store.list("pods", fields=f"spec.nodeName={machine.name}") if requests_gpus(one)]


def _released(run: "Run", name: str) -> None:
    if run.sim.store.get("pods", name, "default") is not None:
        run.sim.store.delete("pods", name, "default", grace=0)


@verb("gpu-lost-in-use")
async def gpu_lost_in_use(run: "Run", event: Event) -> None:
    """One GPU is unhealthy while a pod uses others; it has an Xid, or its Node is not ready for a minute."""
    machine = ready(run, event)
    if machine is None or not machine.devices.healthy or _used(run, machine):
        return
    run.injected(event)
    nodes, several, driver = run.sim.nodes, machine.devices.count > 1, by_dra(run, machine)
    claim, name = claim_of(run, machine), f"trains{int(event.pick * 1e9)}-{event.at:.0f}"
    installed(run, machine)
    if several and not driver:
        run.sim.store.create("pods", pod(name, gpus=machine.devices.count // 2, nodeName=machine.name), "default")
    xid = one_of(event, (True, False))
    if xid:
        nodes.set_condition(machine.name, "XIDErrors", "True", "XIDErrorsIsUp", "an application's")
    nodes.set_unhealthy_gpus(machine.name, 1)
    await asyncio.sleep(CORDONED_SECONDS)
    if not xid and several and not driver and remains(run, machine) and machine.answers and _cordoned(run, machine):
        nodes.set_ready(machine.name, None)
        await asyncio.sleep(60.0)
        if remains(run, machine):
            nodes.set_ready(machine.name, True)
            await asyncio.sleep(SEEN_SECONDS)
            same = remains(run, machine) and machine.devices.unhealthy
            assert not same or _cordoned(run, machine), f"Node {machine.name} lacks a GPU, and takes pods again"
    await asyncio.sleep(max(0.0, event.seconds - CORDONED_SECONDS))
    if several and not driver:
        kept(run, claim, *GPUS, "XIDErrors")
    _released(run, name)
    if remains(run, machine):
        nodes.start_plugin(machine.name)
        nodes.set_condition(machine.name, "XIDErrors", "False", "NoXIDErrors", "all is well") if xid else None


def _cordoned(run: "Run", machine: Machine) -> bool:
    return bool((run.sim.store.get("nodes", machine.name) or {"spec": {}})["spec"].get("unschedulable"))


@verb("gpus-shared")
async def gpus_shared(run: "Run", event: Event) -> None:
    """The plugin shares each GPU of a machine of KAITO, or offers its slices; later most of its GPUs are dead."""
    claim, sim = run.workspace_claim(event), run.sim
    machine = claim and sim.nodes.machines.get((claim.get("status") or {}).get("nodeName", ""))
    if not claim or not machine or machine.plugin != "running" or by_dra(run, machine) or not machine.devices.healthy:
        return
    run.injected(event)
    count = machine.devices.count
    found = {"nvidia.com/gpu.product": "GPU-SHARED", "nvidia.com/gpu.replicas": f"{SHARES}"}
    if event.pick >= 0.5:
        found = {"nvidia.com/gpu.product": "GPU-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"}
        found["nvidia.com/gpu.count"] = f"{count * SHARES}"
    sim.store.patch("nodes", machine.name, {"metadata": {"labels": found}})
    sim.nodes.set_gpus(machine.name, count * SHARES)
    await asyncio.sleep(min(REPORTED_SECONDS, event.seconds / 2))
    since = sim.now
    if remains(run, machine):
        sim.nodes.set_gpus(machine.name, count * SHARES, unhealthy=max(1, count * 3 // 4) * SHARES)
    await asyncio.sleep(max(0.0, event.seconds - REPORTED_SECONDS))
    if not remains(run, machine):
        return
    late = sim.now - max(since, sim.disturbed_until) > REPORTED_SECONDS and machine.answers
    held = sim.claim(claim["metadata"]["name"])
    if held and late and machine.devices.unhealthy and run.plan.policy.get("gpu_readiness") != "report":
        assert condition(held, "Ready") != "True", f"claim {held['metadata']['name']} is Ready, whose GPUs are dead"
    sim.store.patch("nodes", machine.name, {"metadata": {"labels": dict.fromkeys(found)}})
    sim.nodes.set_gpus(machine.name, count)


@verb("gpus-unhealthy-for-good")
async def gpus_unhealthy_for_good(run: "Run", event: Event) -> None:
    """All GPUs of a machine are unhealthy until it is replaced; once in a run.

    One of a DRA driver is kept while pods use it, so that only one without pods has this fault.
    """
    machine = ready(run, event)
    if machine is None or not machine.devices.healthy or run.outcome.happened[event.fault]:
        return
    if by_dra(run, machine) and _used(run, machine):
        return
    run.injected(event)
    installed(run, machine)
    run.sim.nodes.set_unhealthy_gpus(machine.name, machine.devices.healthy)


@verb("preempts")
async def preempts(run: "Run", event: Event) -> None:
    """kube-scheduler preempts the only pod of a machine for one of a higher priority, which waits for its end."""
    machine, store = ready(run, event), run.sim.store
    found = _used(run, machine) if machine is not None else []
    if machine is None or len(found) != 1 or found[0]["metadata"].get("finalizers"):
        return
    (victim,) = found
    meta, spec = victim["metadata"], victim["spec"]
    if meta["namespace"] != "default" or "deletionTimestamp" in meta or "resourceClaims" in spec:
        return
    run.injected(event)
    claim, name = claim_of(run, machine), f"important{int(event.pick * 1e9)}-{event.at:.0f}"
    store.patch("pods", meta["name"], {"metadata": {"finalizers": [SLOW]}}, "default")
    same = {key: spec[key] for key in ("nodeSelector", "tolerations", "containers") if key in spec}
    store.create("pods", {"metadata": {"name": name}, "spec": {**same, "priority": 1000}}, "default")
    nominated = {"status": {"nominatedNodeName": machine.name}}
    store.patch("pods", name, nominated, "default", subresource="status")
    store.delete("pods", meta["name"], "default")
    await asyncio.sleep(PREEMPTED_SECONDS)
    one = store.get("pods", name, "default")
    if claim is not None and one is not None and (one.get("status") or {}).get("nominatedNodeName") == machine.name:
        _not_empty(run, claim, run.sim.now - PREEMPTED_SECONDS)
    if store.get("pods", meta["name"], "default") is not None:
        store.patch("pods", meta["name"], {"metadata": {"finalizers": None}}, "default")
    await asyncio.sleep(max(0.0, event.seconds - PREEMPTED_SECONDS))
    _released(run, name)


def _not_empty(run: "Run", claim: Json, since: float) -> None:
    """Raises AssertionError if this claim was removed since then because no pod used its machine."""
    moment = rfc3339(EPOCH + timedelta(seconds=since))
    for one in run.sim.store.each("events"):
        if one["involvedObject"].get("uid") != claim["metadata"]["uid"] or one.get("reason") != "DisruptionTerminating":
            continue
        recent = one["metadata"]["creationTimestamp"] >= moment
        assert not recent or "Empty" not in one["message"], f"a machine with a nominated pod was removed: {one}"
