"""I19 and I21 are violated by one deliberate history, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import faults
from tests.unit.simulator.test_disruption_invariants import (
    NODE_POOLS,
    ONE,
    T4,
    claim,
    conditions,
    delete,
    machine,
    node_pool,
    use,
)
from tests.unit.simulator.test_invariants import breaks, node_of, play

EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
NOWHERE = {"no": "Node"}
SIZE = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}


async def leads(controller, seconds):
    """A controller lists the agent pools each minute, and does nothing else."""
    for _ in range(int(seconds // 60)):
        await controller.arm("GET", "")
        await asyncio.sleep(60)


async def accepted(controller, person, **spec):
    """A NodePool of one size, with the condition Ready; its UID."""
    template = {
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": [SIZE],
        }
    }
    uid = await node_pool(person, ONE, template=template, **spec)
    await ready(controller, "True")
    return uid


async def ready(controller, status):
    one = {"type": "Ready", "status": status, "reason": "Ready", "message": ""}
    status = {"conditions": [{**one, "lastTransitionTime": "2026-03-01T12:00:00Z"}]}
    await controller.kube("PATCH", f"{NODE_POOLS}/gpu/status", {"status": status})


async def states(caller, world, name, component="gpu-provisioner"):
    """An Event about a pod."""
    uid = world.store.get("pods", name, "default")["metadata"]["uid"]
    about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default", "uid": uid}
    body = {"metadata": {"name": f"{name}.1", "namespace": "default"}, "involvedObject": about, "reason": "Limit",
            "type": "Warning", "message": "its NodePool is at its limit", "reportingComponent": component}  # fmt: skip
    await caller.kube("POST", EVENTS, body)


def wait(world, name="p", *, gpus="1", **spec):
    """A pending pod that only NodePool gpu can take."""
    amounts = {kind: {"nvidia.com/gpu": gpus} for kind in ("requests", "limits")}
    containers = [{"name": "main", "image": "web", "resources": amounts}]
    selector = {labels.NODEPOOL: "gpu", **spec.pop("nodeSelector", {})}
    use(world, "", name, **{"schedulingGates": [], "containers": containers, "nodeSelector": selector, **spec})


# I21


@pytest.mark.parametrize("what", ["a pod", "a replica"])
def test_i21_nothing_is_done_for_a_node_pool(what: str) -> None:
    """A controller leads for a quarter of an hour, and nobody states why nothing happens."""

    async def story(world, controller, person) -> None:
        await accepted(controller, person, **({"replicas": 2} if what == "a replica" else {}))
        if what == "a pod":
            wait(world)
        await leads(controller, 1100)

    words = r"made no progress for 9\d\d s, and pod p waits" if what == "a pod" else r"has 0 NodeClaims of 2 replicas"
    breaks(rf"I21 violated.*NodePool gpu {words}", story)


def test_i21_another_node_pool_that_makes_progress_is_no_excuse() -> None:
    """One NodePool starves while NodeClaims of another one are created."""

    async def story(world, controller, person) -> None:
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

    breaks(r"I21 violated.*NodePool gpu made no progress", story)


@pytest.mark.parametrize(
    "case",
    [
        "an Event states why",
        "a NodeClaim is created",
        "nobody leads",
        "requests fail",
        "the NodePool is not Ready",
        "its sizes are too small",
        "another constraint",
        "another scheduler",
        "not for this NodePool",
        "the pod is new",
        "the pod runs",
    ],
)
def test_i21_is_kept(case: str) -> None:
    """A reason is stated, there is progress, or it is not certain that there is work and a controller for it."""

    async def story(world, controller, person) -> None:
        pool = await accepted(controller, person)
        if case == "the NodePool is not Ready":
            await ready(controller, "False")
        if case == "the pod is new":
            await leads(controller, 800)
        spec: dict[str, dict[str, Any]] = {
            "its sizes are too small": {"gpus": "2"},
            "another scheduler": {"schedulerName": "volcano"},
            "another constraint": {"nodeSelector": {"topology.kubernetes.io/zone": "westeurope-1"}},
            "not for this NodePool": {"nodeSelector": {labels.NODEPOOL: "other"}},
        }
        wait(world, **spec.get(case, {}))
        if case == "an Event states why":
            await states(controller, world, "p")
        if case == "nobody leads":
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
            await leads(controller, 600 if case == "the pod is new" else 1200)
        world.check()

    play(story)


def test_i21_an_event_of_kube_scheduler_states_no_reason() -> None:
    """It only says that no Node fits."""

    async def story(world, controller, person) -> None:
        await accepted(controller, person)
        wait(world)
        await states(controller, world, "p", "default-scheduler")
        await leads(controller, 1100)

    breaks(r"I21 violated.*pod p waits for it", story)


# I19


async def drifted(world, controller, person, **spec):
    """A drifted machine on which a pod runs, and another one; the name of the first one's Node."""
    pool = await node_pool(person, {"nodes": "2"})
    _, node = await machine(world, controller, person, pool, "a", **spec)
    await machine(world, controller, person, pool, "b")
    use(world, node)
    await conditions(world, controller, "a", Drifted="True")
    # What was created before is no longer recent.
    await asyncio.sleep(60)
    return node


async def evict(caller, world, name="p"):
    """The API server evicts the pod, and it is gone."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await caller.kube("POST", f"{PODS}/{name}/eviction", body)
    await asyncio.sleep(31)
    assert world.store.get("pods", name, "default") is None


def test_i19_a_pod_that_finds_no_place() -> None:
    """Its owner creates another one, which no Node takes for more than a minute."""

    async def story(world, controller, person) -> None:
        await drifted(world, controller, person)
        await delete(controller, "a")
        await evict(controller, world)
        use(world, "", "p2", schedulingGates=[], nodeSelector=NOWHERE)
        await asyncio.sleep(59)
        world.check()
        await asyncio.sleep(40)
        world.check()

    breaks(r"I19 violated.*pod p2 is pending for \d+ s, because claim a was deleted", story)


@pytest.mark.parametrize(
    "case",
    [
        "it finds a place",
        "a user deleted the claim",
        "a user evicted the pod",
        "the machine expired",
        "the machine was broken",
        "another pod may take the place",
        "the place is lost",
        "its owner waited",
        "it is gone again",
    ],
)
def test_i19_is_kept(case: str) -> None:
    """The pod is bound in time, or its waiting has another cause."""

    async def story(world, controller, person) -> None:
        node = await drifted(world, controller, person, **({"expireAfter": "30s"} if "expired" in case else {}))
        if case == "the machine was broken":
            world.nodes.set_ready(node, False)
        await delete(person if case == "a user deleted the claim" else controller, "a")
        await evict(person if case == "a user evicted the pod" else controller, world)
        if case == "its owner waited":
            await asyncio.sleep(200)
        selector = {} if case == "it finds a place" else NOWHERE
        use(world, "", "p2", schedulingGates=[], nodeSelector=selector)
        await asyncio.sleep(30)
        if case == "another pod may take the place":
            use(world, "", "q", schedulingGates=[], nodeSelector=NOWHERE)
        if case == "the place is lost":
            world.nodes.set_ready(node_of(world, "b"), None)
        if case == "it is gone again":
            world.store.delete("pods", "p2", "default", grace=0)
        await asyncio.sleep(100)
        world.check()

    play(story)
