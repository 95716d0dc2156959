"""I28 to I30 and a part of I2 are violated by one deliberate request each, and not by permitted ones."""

import asyncio

import pytest

from provisioner.api import labels
from provisioner.simulator.azure.faults import Fault

from .histories import CLAIMS, PODS, TOKEN, breaks, delete, node_pool, play, use
from .histories import claim as claim_of

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_i23_a_pool_is_written_unconditionally(method: str) -> None:
    async def story(world, controller, person) -> None:
        meta = await controller.claim()
        if method == "DELETE":
            await controller.pool(meta["uid"])
            await asyncio.sleep(70)
        body = {"properties": {"count": 1, "vmSize": "Standard_NC24ads_A100_v4"}}
        await controller.call(method, controller.url("gpu1"), body if method == "PUT" else None, TOKEN)

    breaks(story, rf"I28 violated.*ctl sent a {method} of pool gpu1 unconditionally")


def test_i23_a_pod_is_evicted_by_its_name() -> None:
    async def story(world, controller, person) -> None:
        use(world, "")
        await controller.kube("POST", f"{PODS}/p/eviction", EVICTION)

    breaks(story, "I28 violated.*ctl deleted one of the pods, p, by its name alone")


@pytest.mark.parametrize(("seconds", "permitted"), [(30, True), (90, False)], ids=["just before", "long before"])
def test_i24_a_pool_for_a_deleted_claim(seconds: float, permitted: bool) -> None:
    async def story(world, controller, person) -> None:
        meta = await controller.claim()
        await delete(person, "gpu1")
        await asyncio.sleep(seconds)
        await controller.pool(meta["uid"])
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, "I29 violated.*ctl created pool gpu1, whose claim was deleted 90 s ago")


def test_i24_a_pool_for_a_claim_without_the_finalizer() -> None:
    async def story(world, controller, person) -> None:
        pool = await node_pool(person)
        uid = await claim_of(person, pool, "a", finalizers=())
        await controller.pool(uid, "a")

    breaks(story, "I29 violated.*ctl created pool a, whose claim has had no finalizer")


@pytest.mark.parametrize("corrected", [False, True], ids=["as created", "corrected"])
def test_i29_a_pool_for_a_claim_that_is_to_adopt_a_machine(corrected: bool) -> None:
    """Of a claim that exists: it gets none of its own until the annotation is removed."""

    async def story(world, controller, person) -> None:
        living = await controller.claim()
        made = await person.kube("GET", f"{CLAIMS}/gpu1")
        meta = {"name": "a", "finalizers": living["finalizers"], "annotations": {labels.ADOPT: living["uid"]}}
        uid = (await person.kube("POST", CLAIMS, {**made, "metadata": meta}))["metadata"]["uid"]
        if corrected:
            await person.kube("PATCH", f"{CLAIMS}/a", {"metadata": {"annotations": None}})
        await controller.pool(uid, "a")
        world.check()

    if corrected:
        play(story)
    else:
        breaks(story, "I29 violated.*ctl created pool a, whose claim is to adopt that of gpu1")


@pytest.mark.parametrize(("seconds", "permitted"), [(30.0, False), (90.0, True)], ids=["soon", "later than a minute"])
def test_i2_a_claim_that_is_released_while_its_pool_is_requested(seconds: float, permitted: bool) -> None:
    """A request takes effect after the finalizer was removed."""

    async def story(world, controller, person) -> None:
        meta = await controller.claim()
        world.cloud.faults.append(Fault(verb="PUT", slow_seconds=seconds))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.pool(meta["uid"]))
            await asyncio.sleep(1)
            await delete(person, "gpu1")
            await controller.kube("PATCH", f"{CLAIMS}/gpu1", {"metadata": {"finalizers": None}})
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, "I2 violated.*the claim of pool gpu1 was released while it was being requested")


@pytest.mark.parametrize("other", [False, True], ids=["its own write", "a write of somebody else"])
def test_i25_a_write_conflicts(other: bool) -> None:
    """The controller patches a version of the claim from before the last write."""

    async def story(world, controller, person) -> None:
        await controller.claim()
        old = (await controller.kube("GET", f"{CLAIMS}/gpu1"))["metadata"]["resourceVersion"]
        note = {"metadata": {"annotations": {labels.ADOPT: "x"}}}
        await (person if other else controller).kube("PATCH", f"{CLAIMS}/gpu1", note)
        await asyncio.sleep(1)
        with pytest.raises(AssertionError, match="Conflict"):
            await controller.kube("PATCH", f"{CLAIMS}/gpu1", {"metadata": {"resourceVersion": old, "labels": {}}})
        world.check()

    if other:
        play(story)
    else:
        breaks(story, r"I30 violated.*ctl did not know its own write #\d+ of nodeclaims/gpu1")
