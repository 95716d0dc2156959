"""I31 and I32 are violated by one deliberate removal, and not by permitted ones."""

import asyncio

import pytest

from provisioner.api import labels

from .histories import breaks, conditions, delete, node_of, play

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
