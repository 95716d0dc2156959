"""I21 is violated by one deliberate history, and not by permitted ones."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.azure import faults
from tests.stories import run_by

from .histories import A100, NODE_POOLS, ONE, T4, breaks, claim, conditions, delete, machine, node_pool, play, use

EVENTS = "/api/v1/namespaces/default/events"
SIZE = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}


async def leads(controller, seconds):
    """A controller lists the agent pools each minute, and does nothing else."""
    for _ in range(int(seconds // 60)):
        await controller.arm("GET", "")
        await asyncio.sleep(60)


async def accepted(controller, person, *, size=T4, **spec):
    """A NodePool of one size, with the condition Ready; its UID."""
    template = {
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": [{**SIZE, "values": [size]}],
        }
    }
    uid = await node_pool(person, ONE, template=template, **spec)
    await ready(controller, "True")
    return uid


async def ready(controller, status):
    one = {"type": "Ready", "status": status, "reason": "Ready", "message": ""}
    status = {"conditions": [{**one, "lastTransitionTime": "2026-03-01T12:00:00Z"}]}
    await controller.kube("PATCH", f"{NODE_POOLS}/gpu/status", {"status": status})


async def states(caller, world, name, *, kind="pods", component="gpu-provisioner", reason="Limit"):
    """An Event about a pod, a NodePool or a NodeClaim; again: it is counted."""
    place = ("default",) if kind == "pods" else ()
    uid = world.store.get(kind, name, *place)["metadata"]["uid"]
    if (before := world.store.get("events", f"{name}.1", "default")) is not None:
        await caller.kube("PATCH", f"{EVENTS}/{name}.1", {"count": before["count"] + 1})
        return
    about = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "namespace": "default" if place else ""}
    body = {"metadata": {"name": f"{name}.1", "namespace": "default"}, "involvedObject": about, "reason": reason,
            "type": "Warning", "message": "at its limit", "reportingComponent": component, "count": 1}  # fmt: skip
    await caller.kube("POST", EVENTS, body)


def wait(world, name="p", *, gpus="1", requests=None, **spec):
    """A pending pod that only NodePool gpu can take."""
    amounts = {kind: {"nvidia.com/gpu": gpus, **(requests or {})} for kind in ("requests", "limits")}
    containers = [{"name": "main", "image": "web", "resources": amounts}]
    selector = {labels.NODEPOOL: "gpu", **spec.pop("nodeSelector", {})}
    use(world, "", name, **{"schedulingGates": [], "containers": containers, "nodeSelector": selector, **spec})


@pytest.mark.parametrize("what", ["a pod", "a replica"])
def test_i21_nothing_is_done_for_a_node_pool(what: str) -> None:
    """A controller leads for a quarter of an hour, and nobody states why nothing happens."""

    async def story(world, controller, person) -> None:
        await accepted(controller, person, **({"replicas": 2} if what == "a replica" else {}))
        if what == "a pod":
            wait(world)
        await leads(controller, 1100)

    words = r"made no progress for 9\d\d s, and pod p waits" if what == "a pod" else r"has 0 NodeClaims of 2 replicas"
    breaks(story, rf"I21 violated.*NodePool gpu {words}")


@run_by(breaks, given=3, match=r"I21 violated.*NodePool gpu made no progress")
async def test_i21_another_node_pool_that_makes_progress_is_no_excuse(world, controller, person) -> None:
    """One NodePool starves while NodeClaims of another one are created."""
    pool = await accepted(controller, person)
    await claim(person, pool, "before")
    body = await person.kube("GET", f"{NODE_POOLS}/gpu")
    meta = {"name": "other"}
    other = await person.kube("POST", NODE_POOLS, {**body, "metadata": meta, "status": {}})
    wait(world)
    await delete(person, "before")
    await person.kube("PATCH", "/apis/karpenter.sh/v1/nodeclaims/before", {"metadata": {"finalizers": None}})
    for number in range(18):
        await claim(person, other["metadata"]["uid"], f"other-{number}")
        await leads(controller, 60)


@pytest.mark.parametrize(
    "case",
    [
        "an Event states why",
        "an Event is repeated",
        "an Event about the NodePool states why",
        "a NodeClaim is created",
        "a NodeClaim with its label is on its way",
        "nobody leads",
        "requests fail",
        "the NodePool is not Ready",
        "its sizes are too small",
        "their memory is too small",
        "their vCPUs are too few",
        "another constraint",
        "another scheduler",
        "not for this NodePool",
        "the pod is new",
        "the pod runs",
    ],
)
@run_by(play, given=3)
async def test_i21_is_kept(world, controller, person, case: str) -> None:
    """A reason is stated, there is progress, or it is not certain that there is work and a controller for it."""
    pool = await accepted(controller, person)
    if case == "the NodePool is not Ready":
        await ready(controller, "False")
    if case == "the pod is new":
        await leads(controller, 800)
    spec: dict[str, dict[str, Any]] = {
        "its sizes are too small": {"gpus": "2"},
        "their memory is too small": {"requests": {"memory": "20Gi"}},
        "their vCPUs are too few": {"requests": {"cpu": "3500m"}},
        "another scheduler": {"schedulerName": "volcano"},
        "another constraint": {"nodeSelector": {"topology.kubernetes.io/zone": "westeurope-1"}},
        "not for this NodePool": {"nodeSelector": {labels.NODEPOOL: "other"}},
    }
    if case == "a NodeClaim with its label is on its way":
        await claim(person, pool, "restored")
        meta = {"ownerReferences": None, "labels": {labels.NODEPOOL: "gpu"}}
        world.store.patch("nodeclaims.karpenter.sh", "restored", {"metadata": meta})
    wait(world, **spec.get(case, {}))
    if case == "an Event states why":
        await leads(controller, 600)
        await states(controller, world, "p")
    if case == "an Event about the NodePool states why":
        await leads(controller, 600)
        await states(controller, world, "gpu", kind="nodepools.karpenter.sh")
    if case == "an Event is repeated":
        for _ in range(4):
            await states(controller, world, "p")
            await leads(controller, 300)
        await leads(controller, 300)
    elif case == "nobody leads":
        await asyncio.sleep(1200)
        await leads(controller, 120)
    elif case == "requests fail":
        for _ in range(4):
            await leads(controller, 300)
            world.cloud.faults.append(faults.throttled(verb="LIST", times=1))
            with pytest.raises(AssertionError, match="429"):
                await controller.arm("GET", "")
    elif case == "a NodeClaim is created":
        await leads(controller, 600)
        await claim(person, pool, "a")
        await leads(controller, 600)
    elif case == "the pod runs":
        await leads(controller, 600)
        world.store.delete("pods", "p", "default", grace=0)
        await leads(controller, 600)
    else:
        short = case == "the pod is new" or "states why" in case
        await leads(controller, 600 if short else 1200)
    world.check()


@pytest.mark.parametrize(
    "event",
    [
        {"component": "default-scheduler"},
        {"component": "kubelet"},
        {"component": "autoscaler", "name": "gpu", "kind": "nodepools.karpenter.sh"},
        {"reason": "Nominated"},
        {"reason": "DisruptionBlocked", "name": "gpu", "kind": "nodepools.karpenter.sh"},
    ],
)
@run_by(breaks, given=3, match=r"I21 violated.*pod p waits for it")
async def test_i21_an_event_that_states_no_cause(world, controller, person, event: dict[str, str]) -> None:
    """Others do not know why the controller buys nothing. Neither a place that the pod should have is a cause of that,
    nor one by which machines are kept.
    """
    await accepted(controller, person)
    wait(world)
    await leads(controller, 600)
    await states(controller, world, **{"name": "p", **event})
    await leads(controller, 500)


@pytest.mark.parametrize("about", ["pod", "NodePool"])
@run_by(breaks, given=3, match=r"I21 violated.*pod p waits for it")
async def test_i21_an_event_that_is_not_repeated(world, controller, person, about: str) -> None:
    """Its cause has ended: the controller repeats it while it lasts."""
    await accepted(controller, person)
    wait(world)
    kind = {"pod": "pods", "NodePool": "nodepools.karpenter.sh"}[about]
    await states(controller, world, "p" if about == "pod" else "gpu", kind=kind)
    await leads(controller, 1100)


@pytest.mark.parametrize("fault", ["cordoned", "not Ready", "disrupted"])
def test_i21_a_node_that_takes_no_pods_is_no_excuse_for_ever(fault: str) -> None:
    """It may take pods soon after others cordoned it, it was not Ready or it was tainted, and not for ever."""
    changes = {
        "cordoned": {"spec": {"unschedulable": True}},
        "disrupted": {"spec": {"taints": [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]}},
    }

    async def story(world, controller, person) -> None:
        pool = await accepted(controller, person)
        _, node = await machine(world, controller, person, pool, "a")
        wait(world)
        await leads(controller, 600)
        if fault in changes:
            await person.kube("PATCH", f"/api/v1/nodes/{node}", changes[fault])
        else:
            world.nodes.set_ready(node, False)
            await conditions(world, controller, "a", Initialized="False")
        await leads(controller, 840)
        world.check()
        await leads(controller, 300)

    breaks(story, r"I21 violated.*pod p waits for it")


@pytest.mark.parametrize(
    ("size", "requests"),
    [(T4, {"cpu": "3", "memory": "14Gi"}), (A100, {"cpu": "18"}), (A100, {"memory": "110Gi"})],
)
@run_by(breaks, given=3, match=r"I21 violated.*pod p waits for it")
async def test_i21_a_large_pod_waits(world, controller, person, size: str, requests: dict[str, str]) -> None:
    """It surely fits an empty machine of the size."""
    await accepted(controller, person, size=size)
    wait(world, requests=requests)
    await leads(controller, 1100)


# I21: drift


async def outdated(world, controller, person, **spec):
    """A machine of the NodePool that has drifted, with a pod on it; the UID of the NodePool."""
    pool = await accepted(controller, person, **spec)
    _, node = await machine(world, controller, person, pool, "a")
    use(world, node)
    await conditions(world, controller, "a", Drifted="True")
    return pool


@pytest.mark.parametrize("spec", [{}, {"replicas": 1}], ids=["dynamic", "static"])
@run_by(breaks, given=3, match=r"I21 violated.*NodePool gpu made no progress for 9\d\d s, and claim a has drifted")
async def test_i21_a_machine_that_has_drifted(world, controller, person, spec: dict[str, Any]) -> None:
    """Nothing is done about it, and nothing states why."""
    await outdated(world, controller, person, **spec)
    await leads(controller, 1100)


async def refused(call, _):
    """As an admission policy refuses deletions, and a role reads of Nodes."""
    fits = call.verb == "DELETE" or call.target.kind == "nodes"
    return web.json_response({}, status=403) if fits else None


@pytest.mark.parametrize("case", ["replaced for ever", "pods come and go", "refused"])
@run_by(
    breaks,
    given=3,
    match=r"I21 violated.*NodePool gpu made no progress for .* claim (a has drifted|b is being replaced)",
)
async def test_i21_a_machine_that_has_drifted_beside_others(world, controller, person, case: str) -> None:
    """A command that does not end, another condition, or a deletion that is refused: of another machine."""
    pool = await outdated(world, controller, person)
    await machine(world, controller, person, "another" if case == "refused" else pool, "b")
    if case == "replaced for ever":
        await conditions(world, controller, "b", DisruptionReason="Drifted")
        await leads(controller, 5400)
        world.check()
    world.before.append(refused)
    for number in range(12):
        if case == "pods come and go":
            await conditions(world, controller, "b", Consolidatable=str(number % 2 == 0))
        if case == "refused":
            with pytest.raises(AssertionError, match="403"):
                await delete(controller, "b")
        await leads(controller, 120)


@pytest.mark.parametrize(
    "case",
    [
        "its deletion is refused",
        "nothing can be read",
        "it has just drifted",
        "it is Ready again",
        "the NodePool is Ready again",
        "an Event of the NodeClaim states why",
        "an Event of the NodePool states why",
        "another one is being replaced",
        "its replacement is created",
        "it is not Ready",
        "it has not drifted",
        "the NodePool is not Ready",
    ],
)
@run_by(play, given=3)
async def test_i21_a_machine_that_has_drifted_and_that_is_kept(world, controller, person, case: str) -> None:
    """A cause is stated, another machine is disrupted, or it has not been for long that it can be replaced."""
    pool = await outdated(world, controller, person)
    if case == "another one is being replaced":
        await machine(world, controller, person, pool, "b")
        await conditions(world, controller, "b", DisruptionReason="Drifted")
    if case in {"it has not drifted", "it has just drifted"}:
        await conditions(world, controller, "a", Drifted="False")
    node = world.store.list("nodes")[0]["metadata"]["name"]
    if case in {"it is not Ready", "it is Ready again"}:
        world.nodes.set_ready(node, False)
    if case in {"the NodePool is not Ready", "the NodePool is Ready again"}:
        await ready(controller, "False")
    await leads(controller, 600)
    if case == "an Event of the NodeClaim states why":
        await states(controller, world, "a", kind="nodeclaims.karpenter.sh")
    if case == "an Event of the NodePool states why":
        await states(controller, world, "gpu", kind="nodepools.karpenter.sh")
    if case == "its replacement is created":
        await claim(person, pool, "b")
    world.before.append(refused)
    if case in {"its deletion is refused", "nothing can be read"}:
        with pytest.raises(AssertionError, match="403"):
            await (delete(controller, "a") if case.startswith("its") else controller.kube("GET", "/api/v1/nodes"))
    if case in {"it has just drifted", "it is Ready again", "the NodePool is Ready again"}:
        await leads(controller, 600)
        world.nodes.set_ready(node, True)
        await ready(controller, "True")
        await conditions(world, controller, "a", Drifted="True")
    await leads(controller, 600)
    world.check()
