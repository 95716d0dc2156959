"""What programs on a Node and users write to the Node: conditions, taints, labels and times."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from provisioner.api import labels
from provisioner.simulator.kube.objects import rfc3339
from provisioner.simulator.nodes.machine import Machine
from tests.swarm.plan import Event
from tests.world.harness import EPOCH, Json
from tests.world.quarter.scenario import CONDITIONS

from .base import verb
from .nodes import ready
from .truth import claim_of, kept, remains

if TYPE_CHECKING:
    from tests.swarm.run import Run

NODE_POOLS = "nodepools.karpenter.sh"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
# The label that a user edits; "" removes it.
EDITS = (
    ("agentpool", "renamed"),
    ("kubernetes.azure.com/agentpool", ""),
    ("node.kubernetes.io/instance-type", "Standard_D2s_v5"),
    ("topology.kubernetes.io/zone", ""),
    ("topology.kubernetes.io/zone", "elsewhere-1"),
    ("karpenter.sh/registered", ""),
    ("karpenter.sh/initialized", ""),
    ("karpenter.sh/capacity-type", "reserved"),
    ("kubernetes.io/hostname", "other"),
    ("kaito.sh/workspace", ""),
    ("team", "other"),
)
# What Azure and AKS announce or remedy by themselves: advice about spot capacity, a Node that AKS restarts.
ANNOUNCED = (("PreemptionScheduled", "True", "False"), ("kubernetes.azure.com/NodeHealthy", "False", "True"))
# So long AKS remedies a Node by itself.
REMEDIED_SECONDS = 1200.0
CLOCKS = (-86_400.0, -3600.0, -120.0, 30.0, 600.0, 86_400.0)


def _part(event: Event, parts: tuple[Any, ...]) -> Any:
    """One of them, independent of the machine that `pick` chooses."""
    return parts[int(event.pick * 1e6) % len(parts)]


async def _report(run: "Run", event: Event, machines: list[Machine], kind: str) -> None:
    for one in machines:
        run.injected(event)
        run.sim.nodes.set_condition(one.name, kind, "True", f"{kind}IsUp", "reported by a node problem detector")
    await run.lasts(event)
    for one in machines:
        if remains(run, one):
            run.sim.nodes.set_condition(one.name, kind, "False", f"No{kind}", "all is well")


@verb("detector")
async def detector(run: "Run", event: Event) -> None:
    """A node problem detector, or the kubelet, sets a condition on one Node while it lasts."""
    machine = ready(run, event)
    if machine:
        await _report(run, event, [machine], _part(event, (*CONDITIONS, "XIDErrors", *PRESSURES)))


@verb("detector-everywhere")
async def detector_everywhere(run: "Run", event: Event) -> None:
    """A bad release of a node problem detector sets a condition on all Nodes while it lasts."""
    machines = [one for one in run.sim.nodes.machines.values() if remains(run, one)]
    await _report(run, event, machines, _part(event, (*CONDITIONS, "XIDErrors")))


@verb("announced")
async def announced(run: "Run", event: Event) -> None:
    """AKS announces something about a machine, which remains."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        claim, (kind, now, later) = claim_of(run, machine), _part(event, ANNOUNCED)
        run.sim.nodes.set_condition(machine.name, kind, now, "Announced", "see https://aka.ms/aks-spot-eviction")
        await asyncio.sleep(min(event.seconds, REMEDIED_SECONDS))
        kept(run, claim, kind)
        await asyncio.sleep(max(0.0, event.seconds - REMEDIED_SECONDS))
        if remains(run, machine):
            run.sim.nodes.set_condition(machine.name, kind, later, "Over", "all is well")


@verb("policy-taints")
async def policy_taints(run: "Run", event: Event) -> None:
    """A policy adds a taint, which no pod tolerates, to each new Node of a NodePool while it lasts.

    Then users remove the taints, and have the controller buy again for the pods that it has bought for in vain.
    """
    store, taint, names = (
        run.sim.store,
        {"key": f"policy.example.com/{event.at:.0f}", "effect": "NoSchedule"},
        set[str](),
    )
    until = run.sim.now + event.seconds

    def changed(_: str, resource: str, obj: Json, before: Json | None) -> None:
        name = obj["metadata"]["name"]
        fits = resource == "nodes" and before is None and labels.NODEPOOL in obj["metadata"].get("labels", {})
        if fits and run.sim.now < until:
            names.add(name)
            asyncio.get_running_loop().call_soon(act, name)

    def act(name: str) -> None:
        if node := store.get("nodes", name):
            run.injected(event)
            store.patch("nodes", name, {"spec": {"taints": [*(node["spec"].get("taints") or ()), taint]}})

    store.subscribe(changed)
    await run.lasts(event)
    for name in names:
        if node := store.get("nodes", name):
            kept = [one for one in node["spec"].get("taints") or () if one != taint]
            store.patch("nodes", name, {"spec": {"taints": kept}})
    for one in list(store.each_served(NODE_POOLS)):
        note = {labels.RETRY: f"{event.at:.0f}"}
        store.patch(NODE_POOLS, one["metadata"]["name"], {"metadata": {"annotations": note}})


@verb("agent-taints")
async def agent_taints(run: "Run", event: Event) -> None:
    """An agent has a taint on a Node while it lasts."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        mine = {"key": f"agent.example.com/upgrade-{event.at:.0f}", "effect": _part(event, EFFECTS)}
        _set_taints(run, machine, [*_taints(run, machine), mine])
        await run.lasts(event)
        if remains(run, machine):
            _set_taints(run, machine, [one for one in _taints(run, machine) if one["key"] != mine["key"]])


@verb("label-edited")
async def label_edited(run: "Run", event: Event) -> None:
    """A user changes or removes a label of a Node, and restores it when it ends."""
    machine = ready(run, event)
    key, value = _part(event, EDITS)
    before = _meta(run, machine) if machine else {}
    if machine and key in before["labels"]:
        run.injected(event)
        _set_label(run, machine, key, value or None)
        await run.lasts(event)
        # Not on a Node that has taken its place.
        if _meta(run, machine).get("uid") == before["uid"]:
            _set_label(run, machine, key, before["labels"][key])


@verb("clock-differs")
async def clock_differs(run: "Run", event: Event) -> None:
    """The clock of a machine is wrong while it lasts: its conditions have times of the past or the future."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        _set_times(run, machine, _part(event, CLOCKS))
        await run.lasts(event)
        if remains(run, machine):
            _set_times(run, machine, 0.0)


def _meta(run: "Run", machine: Machine) -> dict[str, Any]:
    node = run.sim.store.get("nodes", machine.name) or {"metadata": {}}
    found: dict[str, Any] = node["metadata"]
    return found


def _set_label(run: "Run", machine: Machine, key: str, value: str | None) -> None:
    run.sim.store.patch("nodes", machine.name, {"metadata": {"labels": {key: value}}})


def _taints(run: "Run", machine: Machine) -> list[dict[str, Any]]:
    node = run.sim.store.get("nodes", machine.name) or {"spec": {}}
    return node["spec"].get("taints") or []


def _set_taints(run: "Run", machine: Machine, taints: list[dict[str, Any]]) -> None:
    run.sim.store.patch("nodes", machine.name, {"spec": {"taints": taints or None}})


def _set_times(run: "Run", machine: Machine, off_seconds: float) -> None:
    """Of all conditions, so many seconds from now."""
    node = run.sim.store.get("nodes", machine.name) or {"status": {}}
    time = rfc3339(EPOCH + timedelta(seconds=run.sim.now + off_seconds))
    times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
    changed = [{**one, **times} for one in node["status"].get("conditions") or ()]
    run.sim.store.patch("nodes", machine.name, {"status": {"conditions": changed}}, subresource="status")
