"""I31, I32, I34 and a part of I7 are violated by one deliberate removal, and not by permitted ones."""

import asyncio

import pytest

from provisioner.api import labels

from .histories import ONE, breaks, conditions, delete, machine, node_of, node_pool, play

NODES = "/api/v1/nodes"
CRD = "customresourcedefinitions.apiextensions.k8s.io"


async def fleet(world, controller, person, count):
    """The names of NodeClaims with Nodes that have the finalizer and are Ready."""
    names = [f"gpu{number}" for number in range(count)]
    for name in names:
        await controller.pool((await person.claim(name))["uid"], name)
    await asyncio.sleep(130)
    for name in names:
        mark = {"metadata": {"finalizers": [labels.FINALIZER], "labels": {labels.INITIALIZED: "true"}}}
        world.store.patch("nodes", node_of(world, name), mark)
        await conditions(world, controller, name, Initialized="True")
    return names


@pytest.mark.parametrize("confirmed", [False, True])
def test_i26_four_machines_whose_nodes_were_deleted(confirmed: bool) -> None:
    """Three are within the limit; a user may confirm more."""

    async def story(world, controller, person) -> None:
        names = await fleet(world, controller, person, 4)
        for name in names:
            await person.kube("DELETE", f"{NODES}/{node_of(world, name)}")
        if confirmed:
            meta = {"name": "other", "annotations": {labels.CONFIRMED_REMOVALS: "{}"}}
            world.store.create("leases.coordination.k8s.io", {"metadata": meta, "spec": {}}, "kube-system")
        for name in names[:3]:
            await delete(controller, name)
        world.check()
        await delete(controller, names[3])
        world.check()

    if confirmed:
        play(story)
    else:
        breaks(story, "I31 violated.*ctl deleted claim gpu3, the 4th removal that it infers")


@pytest.mark.parametrize("what", ["pool", "Node"])
def test_i26_a_machine_whose_claim_was_deleted_with_its_crd(what: str) -> None:
    async def story(world, controller, person) -> None:
        await fleet(world, controller, person, 1)
        world.store.delete(CRD, "nodeclaims.karpenter.sh")
        await asyncio.sleep(1)
        if what == "pool":
            await controller.arm("DELETE", "gpu0")
        else:
            await controller.kube("DELETE", f"{NODES}/{node_of(world, 'gpu0')}")
        world.check()

    breaks(story, "I31 violated.*claim gpu0 was deleted with its CRD, and its machine is removed")


@pytest.mark.parametrize("count", [1, 2])
def test_i27_machines_that_are_repaired_together(count: int) -> None:
    async def story(world, controller, person) -> None:
        names = await fleet(world, controller, person, count)
        for name in names:
            world.nodes.set_ready(node_of(world, name), False)
        await asyncio.sleep(1)
        for name in names:
            await delete(controller, name)
        world.check()

    if count == 1:
        play(story)
    else:
        breaks(story, "I32 violated.*ctl repairs claim gpu1, with 1 others of 2")


@pytest.mark.parametrize("worked", [False, True], ids=["none worked", "one worked in between"])
def test_i34_machines_that_never_become_usable(worked: bool) -> None:
    """The third one in a row is kept."""

    async def story(world, controller, person) -> None:
        world.nodes.plugin_delay_seconds = 86_400.0
        for number in range(3):
            name = f"gpu{number}"
            await controller.pool((await person.claim(name))["uid"], name)
            await asyncio.sleep(130)
            world.store.patch("nodes", node_of(world, name), {"metadata": {"finalizers": [labels.FINALIZER]}})
            await conditions(world, controller, name, Registered="True")
            if worked and number == 1:
                await conditions(world, controller, "gpu1", Initialized="True")
                continue
            await asyncio.sleep(1300)
            await delete(controller, name)
        world.check()

    if worked:
        play(story)
    else:
        breaks(story, r"I34 violated.*ctl deleted claim gpu2, the 3th machine .* never usable \(.*without its GPUs\)")


@pytest.mark.parametrize("replicas", [None, 1], ids=["dynamic", "static"])
def test_i7_a_machine_that_no_pod_uses(replicas: int | None) -> None:
    """One of a static NodePool is removed for no want of pods."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE, **({"replicas": replicas} if replicas else {}))
        await machine(world, controller, person, pool, "idle")
        await conditions(world, controller, "idle", Consolidatable="True")
        await asyncio.sleep(60)
        await delete(controller, "idle")
        world.check()

    if replicas is None:
        play(story)
    else:
        breaks(story, "I7 violated.*ctl deleted claim idle, which is healthy")
