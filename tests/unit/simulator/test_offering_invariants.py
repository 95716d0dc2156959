"""I33 is violated by one deliberate request each, and not by permitted ones."""

import asyncio

import pytest

from provisioner.simulator.azure.faults import capacity

from .histories import breaks, play


async def fails(controller, uid, name="gpu1"):
    """The agent pool of this claim fails for lack of capacity 45 s after its request, and the controller deletes it."""
    await controller.pool(uid, name)
    await asyncio.sleep(46)
    await controller.arm("DELETE", name)
    await asyncio.sleep(31)


@pytest.mark.parametrize(("failures", "seconds", "permitted"), [(2, 0, True), (3, 0, False), (3, 30, True)])
def test_i33_failures_in_a_row(failures: int, seconds: float, permitted: bool) -> None:
    """32 s after the failure are enough after two of them, and not after three."""

    async def story(world, controller, person) -> None:
        world.cloud.faults.append(capacity())
        uid = (await controller.claim())["uid"]
        for number in range(failures):
            await asyncio.sleep(30.0 * number)
            await fails(controller, uid)
        await asyncio.sleep(seconds)
        await controller.pool(uid)
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, r"I33 violated.*ctl created pool gpu1 of .* 32 s after its failure \(AllocationFailed\), the 3th")


@pytest.mark.parametrize("ended", ["", "runs", "deleted"])
def test_i33_two_claims_try_an_offering(ended: str) -> None:
    """The other one may once the first one has succeeded, or its claim is deleted."""

    async def story(world, controller, person) -> None:
        world.cloud.faults.append(capacity(times=1))
        uids = [(await controller.claim(name))["uid"] for name in ("gpu1", "gpu2")]
        await fails(controller, uids[0])
        await controller.pool(uids[0])
        if ended == "runs":
            await asyncio.sleep(130)
        elif ended:
            await person.kube("DELETE", "/apis/karpenter.sh/v1/nodeclaims/gpu1")
        await controller.pool(uids[1], "gpu2")
        world.check()

    if ended:
        play(story)
    else:
        breaks(story, r"I33 violated.*ctl created pool gpu2 of .*AllocationFailed\), and gpu1 is being tried")
