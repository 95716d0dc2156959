"""I19 is violated by one deliberate history, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.simulator.nodes.machine import NodeSettings
from tests.stories import run_by

from .histories import breaks, conditions, delete, machine, node_of, node_pool, play

NOWHERE = {"no": "Node"}
TEMPLATE = {"cpu": "1", "nvidia.com/gpu": "1"}
# Of NodeClaim b: no other Node of the world.
PLACE = {"agentpool": "b"}


def run(world, name="p", *, node="", owner="web", kind="ReplicaSet", requests=None, **spec) -> None:
    """A pod of a ReplicaSet, on that Node or pending."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    amounts = TEMPLATE if requests is None else requests
    limits = {key: value for key, value in amounts.items() if "/" in key}
    containers = [{"name": "main", "image": "web", "resources": {"requests": amounts, "limits": limits}}]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]},
        "spec": {"containers": containers, **({"nodeName": node} if node else {}), **spec},
    }
    world.store.create("pods", body, "default")


async def drifted(world, controller, person, **spec):
    """A drifted machine, and another one, which has room for its pod; the name of the first one's Node."""
    pool = await node_pool(person, {"nodes": "2"})
    _, node = await machine(world, controller, person, pool, "a", **spec)
    await machine(world, controller, person, pool, "b", **spec)
    await conditions(world, controller, "a", Drifted="True")
    # What was created before is no longer recent.
    await asyncio.sleep(60)
    return node


async def evict(caller, world, name="p", *, seconds=31):
    """The API server evicts the pod, and it is gone."""
    await caller.evict(name)
    await asyncio.sleep(seconds)
    assert world.store.get("pods", name, "default") is None


async def moved(world, controller, person, **spec) -> None:
    """A voluntary command evicts the pod of the drifted machine."""
    node = await drifted(world, controller, person)
    run(world, node=node, **spec)
    await asyncio.sleep(60)
    await delete(controller, "a")
    await evict(controller, world)


async def waits(world, name="p2", **spec) -> None:
    """Its owner creates another one, which no Node takes for more than a minute."""
    run(world, name, **{"nodeSelector": NOWHERE, **spec})
    await asyncio.sleep(59)
    world.check()
    await asyncio.sleep(40)
    world.check()


LOST = r"I19 violated.*pod p2 is pending for \d+ s, because claim a was deleted"


@run_by(breaks, given=3, match=LOST)
async def test_a_pod_that_finds_no_place(world, controller, person) -> None:
    """The other Node does not take it."""
    await moved(world, controller, person, nodeSelector=NOWHERE)
    await waits(world)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("is pending", {"nodeSelector": NOWHERE}),
        ("is small", {"nodeSelector": PLACE, "requests": {"cpu": "100m"}}),
        ("runs on another Node", {"nodeSelector": {"agentpool": "system"}, "requests": {"cpu": "1"}}),
        ("leaves room", {"nodeSelector": PLACE, "requests": {"cpu": "2", "memory": "4Gi"}}),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
@run_by(breaks, given=3, match=LOST)
async def test_another_pod_that_does_not_take_the_place(
    world, controller, person, *, when: str, name: str, other: dict[str, Any]
) -> None:
    """It is no excuse, whether it comes before the command or after the eviction."""
    node = await drifted(world, controller, person)
    run(world, node=node, nodeSelector=NOWHERE)
    await asyncio.sleep(60)
    if when == "before":
        run(world, "q", owner="other", **other)
        await asyncio.sleep(5)
    await delete(controller, "a")
    await evict(controller, world)
    if when == "after":
        run(world, "q", owner="other", **other)
    await waits(world)


@run_by(breaks, given=3, match=LOST, nodes=NodeSettings(pod_stop_seconds=580))
async def test_a_pod_whose_last_one_ends_late(world, controller, person) -> None:
    """A StatefulSet creates the next pod when the last one has ended, at most its grace period after the eviction."""
    node = await drifted(world, controller, person)
    run(world, node=node, kind="StatefulSet", nodeSelector=NOWHERE, terminationGracePeriodSeconds=600)
    await asyncio.sleep(60)
    await delete(controller, "a")
    await evict(controller, world, seconds=590)
    await waits(world, kind="StatefulSet", terminationGracePeriodSeconds=600)


@pytest.mark.parametrize(
    "case",
    [
        "it finds a place",
        "a user deleted the claim",
        "a user evicted the pod",
        "the machine expired",
        "the machine was broken",
        "another pod takes the GPU",
        "another pod takes the GPU in between",
        "another pod takes the vCPUs",
        "another pod takes the vCPUs just before",
        "another pod may keep it off the Node",
        "the place is lost",
        "the place is cordoned",
        "the place is tainted",
        "the place has another label",
        "the place offers less",
        "its owner waited",
        "its owner has another template",
        "it is gone again",
    ],
)
@run_by(play, given=3)
async def test_i19_is_kept(world, controller, person, case: str) -> None:
    """The pod is bound in time, or its waiting has another cause."""
    node = await drifted(world, controller, person, **({"expireAfter": "30s"} if "expired" in case else {}))
    place = f"/api/v1/nodes/{node_of(world, 'b')}"
    mine = {} if case == "it finds a place" else {"nodeSelector": NOWHERE}
    run(world, node=node, **mine)
    await asyncio.sleep(60)
    if case == "the machine was broken":
        world.nodes.set_ready(node, False)
    if case == "another pod takes the vCPUs just before":
        run(world, "q", owner="other", nodeSelector=PLACE, requests={"cpu": "3"})
        await asyncio.sleep(5)
    await delete(person if case == "a user deleted the claim" else controller, "a")
    await evict(person if case == "a user evicted the pod" else controller, world)
    if case == "its owner waited":
        await asyncio.sleep(200)
    if case == "another pod takes the GPU in between":
        run(world, "q", owner="other", nodeSelector=PLACE)
        await asyncio.sleep(5)
    template = {"nodeSelector": {"other": "Node"}} if case == "its owner has another template" else mine
    run(world, "p2", **template)
    await asyncio.sleep(30)
    match case:
        case "another pod takes the GPU":
            run(world, "q", owner="other", nodeSelector=PLACE)
        case "another pod takes the vCPUs":
            run(world, "q", owner="other", nodeSelector=PLACE, requests={"cpu": "3"})
        case "another pod may keep it off the Node":
            terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            run(world, "q", owner="other", nodeSelector=PLACE, requests={"cpu": "100m"}, affinity=apart)
        case "the place is lost":
            world.nodes.set_ready(node_of(world, "b"), None)
        case "the place is cordoned":
            await person.kube("PATCH", place, {"spec": {"unschedulable": True}})
        case "the place is tainted":
            await person.kube("PATCH", place, {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
        case "the place has another label":
            await person.kube("PATCH", place, {"metadata": {"labels": {"agentpool": "c"}}})
        case "the place offers less":
            world.nodes.set_unhealthy_gpus(node_of(world, "b"), 1)
        case "it is gone again":
            world.store.delete("pods", "p2", "default", grace=0)
    await asyncio.sleep(100)
    world.check()
