"""Faults of what runs on a machine whose GPUs work, and of the GPUs themselves: no machine goes for the former.

Each of these verbs states at its end what must have held: the hardware is known here, and not to the controller.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provisioner.simulator.nodes.machine import Machine
from provisioner.simulator.snapshot import condition, requests_gpus
from tests.swarm.plan import Event
from tests.world.demand import pod
from tests.world.harness import Json
from tests.world.health.plugins import DAEMON_SETS, PLUGIN, daemon_set, install, plugin

from .base import one_of, verb
from .nodes import boots, ready, some_gpus, starting
from .truth import REPORTED_SECONDS, by_dra, claim_of, kept, remains

if TYPE_CHECKING:
    from tests.swarm.run import Run

NAMESPACE = "kube-system"
DRA_PLUGIN = "nvidia-dra-driver-gpu-kubelet-plugin"
DRA_IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v25.12.0"
GPUS = ("nvidia.com/gpu", "GPUs", "ResourceSlice")
WAITING = ("CreateContainerConfigError", "ContainerCreating", "PodInitializing")
REJECTED = "Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"
REJECTED_SECONDS = 120.0


def installed(run: "Run", machine: Machine, **spec: Any) -> Json:
    """The DaemonSet of what offers this machine's GPUs, which is there from now on."""
    driver = by_dra(run, machine)
    name = DRA_PLUGIN if driver else PLUGIN
    found = run.sim.store.get(DAEMON_SETS, name, NAMESPACE)
    if found is None:
        everywhere = {"operator": "Exists"}
        containers = [{"name": "gpus", "image": DRA_IMAGE}]
        volumes = [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins"}}]
        one = {"containers": containers, "volumes": volumes, "tolerations": [everywhere], **spec}
        install(run.sim, daemon_set(name, NAMESPACE, **one) if driver else plugin(everywhere, **spec))
        found = run.sim.store.get(DAEMON_SETS, name, NAMESPACE)
    assert found is not None
    return found


def _pods(run: "Run", name: str) -> list[Json]:
    return [one for one in run.sim.store.list("pods", NAMESPACE) if one["metadata"]["name"].startswith(f"{name}-")]


def _set_status(run: "Run", one: Json, status: Json) -> None:
    meta = one["metadata"]
    if run.sim.store.get("pods", meta["name"], NAMESPACE) is not None:
        run.sim.store.patch("pods", meta["name"], {"status": status}, NAMESPACE, subresource="status")


def _waiting(reason: str) -> Json:
    """The status of a pod whose container waits for this reason; while it initializes, for the driver."""
    one = {"name": "ctr", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    status: Json = {"phase": "Pending", "containerStatuses": [{**one, "state": {"waiting": {"reason": reason}}}]}
    if reason == "PodInitializing":
        running = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
        status["initContainerStatuses"] = [{**one, "name": "toolkit-validation", "state": running}]
    return status


@verb("plugin-misconfigured")
async def plugin_misconfigured(run: "Run", event: Event) -> None:
    """The pod of the device plugin, or of the DRA driver, cannot start for want of its configuration or of others."""
    machine = ready(run, event)
    if machine is None:
        return
    run.injected(event)
    claim, owner = claim_of(run, machine), installed(run, machine)["metadata"]["name"]
    await asyncio.sleep(min(30.0, event.seconds / 2))
    run.sim.nodes.stop_plugin(machine.name) if remains(run, machine) else None
    mine = [one for one in _pods(run, owner) if one["spec"].get("nodeName") == machine.name]
    for one in mine:
        _set_status(run, one, _waiting(one_of(event, WAITING)))
    await asyncio.sleep(max(0.0, event.seconds - 30.0))
    kept(run, claim, *GPUS)
    for one in mine:
        _set_status(run, one, {"phase": "Running", "containerStatuses": [], "initContainerStatuses": None})
    if remains(run, machine):
        run.sim.nodes.start_plugin(machine.name)


@verb("plugin-kept-away")
async def plugin_kept_away(run: "Run", event: Event) -> None:
    """The DaemonSet of what offers the GPUs selects no Node any more, or is uninstalled; also with an Xid."""
    machine, store = ready(run, event), run.sim.store
    if machine is None:
        return
    run.injected(event)
    claim, variant = claim_of(run, machine), int(event.pick * 1e6) % 3
    name = installed(run, machine, nodeSelector={"example.com/no": "such-label"})["metadata"]["name"]
    if variant == 0:
        store.delete(DAEMON_SETS, name, NAMESPACE)
    elif variant == 1:
        run.sim.nodes.set_condition(machine.name, "XIDErrors", "True", "XIDErrorsIsUp", "an application's")
    run.sim.nodes.stop_plugin(machine.name)
    await run.lasts(event)
    kept(run, claim, *GPUS, "XIDErrors")
    if store.get(DAEMON_SETS, name, NAMESPACE) is not None:
        store.delete(DAEMON_SETS, name, NAMESPACE)
    if remains(run, machine):
        run.sim.nodes.start_plugin(machine.name)
        if variant == 1:
            run.sim.nodes.set_condition(machine.name, "XIDErrors", "False", "NoXIDErrors", "all is well")


@verb("mig-refused")
async def mig_refused(run: "Run", event: Event) -> None:
    """A label names a MIG configuration that the GPU lacks: the MIG manager states that, and offers no GPU."""
    machine, store = ready(run, event), run.sim.store
    if machine is None or by_dra(run, machine):
        return
    run.injected(event)
    claim = claim_of(run, machine)
    installed(run, machine)
    label = {"nvidia.com/mig.config": "all-9g.999gb", "nvidia.com/mig.config.state": "failed"}
    store.patch("nodes", machine.name, {"metadata": {"labels": label}})
    run.sim.nodes.stop_plugin(machine.name)
    await run.lasts(event)
    kept(run, claim, *GPUS)
    if remains(run, machine):
        store.patch("nodes", machine.name, {"metadata": {"labels": dict.fromkeys(label)}})
        run.sim.nodes.start_plugin(machine.name)


@verb("xid-and-restart")
async def xid_and_restart(run: "Run", event: Event) -> None:
    """A detector reports an application's Xid, and then the plugin or the kubelet restarts."""
    machine = ready(run, event)
    if machine is None:
        return
    run.injected(event)
    claim = claim_of(run, machine)
    run.sim.nodes.set_condition(machine.name, "XIDErrors", "True", "XIDErrorsIsUp", "an application's")
    await asyncio.sleep(event.seconds * 0.8)
    if remains(run, machine) and machine.answers:
        if event.pick < 0.5:
            run.sim.nodes.restart_kubelet(machine.name)
        else:
            run.sim.nodes.stop_plugin(machine.name)
            await asyncio.sleep(min(60.0, event.seconds * 0.1))
            if remains(run, machine):
                run.sim.nodes.start_plugin(machine.name)
    await asyncio.sleep(event.seconds * 0.1)
    kept(run, claim, *GPUS, "XIDErrors")
    if remains(run, machine):
        run.sim.nodes.set_condition(machine.name, "XIDErrors", "False", "NoXIDErrors", "all is well")


@verb("rejects-pods")
async def rejects_pods(run: "Run", event: Event) -> None:
    """A Node without such pods shows its GPUs, and its kubelet rejects each pod that requests some."""
    machine, store = ready(run, event), run.sim.store
    if machine is None or by_dra(run, machine) or not run.plan.node_pools:
        return
    if any(requests_gpus(one) for one in store.list("pods", fields=f"spec.nodeName={machine.name}")):
        return
    run.injected(event)
    claim, until, number = claim_of(run, machine), run.sim.now + event.seconds, 0
    while run.sim.now + REJECTED_SECONDS < until and remains(run, machine):
        name = f"rejected{int(event.pick * 1e9)}-{number}"
        store.create("pods", pod(name, nodeName=machine.name), "default")
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": REJECTED}
        store.patch("pods", name, {"status": status}, "default", subresource="status")
        number += 1
        await asyncio.sleep(REJECTED_SECONDS)
    node, found = store.get("nodes", machine.name), claim and run.sim.claim(claim["metadata"]["name"])
    quiet = run.sim.now - run.sim.disturbed_until > REPORTED_SECONDS and event.seconds > 2 * REPORTED_SECONDS
    for index in range(number):
        name = f"rejected{int(event.pick * 1e9)}-{index}"
        if store.get("pods", name, "default") is not None:
            store.delete("pods", name, "default", grace=0)
    if quiet and node and found and remains(run, machine) and "deletionTimestamp" not in found["metadata"]:
        words = condition(found, "NodeHealthy"), condition(found, "Ready")
        assert node["spec"].get("unschedulable") or "False" in words, (
            f"Node {machine.name} has rejected {number} pods, and takes more"
        )


@verb("gpus-never")
async def gpus_never(run: "Run", event: Event) -> None:
    """The next machine that boots lacks GPUs for good, and what offers them runs; once in a run."""
    name = starting(run, event)
    if run.outcome.happened[event.fault] or not await boots(run, name, run.sim.now + event.seconds):
        return
    machine = next((one for one in run.sim.nodes.machines.values() if one.pool.name == name), None)
    if machine is not None and machine.devices.count:
        run.injected(event)
        installed(run, machine)
        count = machine.devices.count - some_gpus(event, machine)
        machine.devices = replace(machine.devices, count=count)
