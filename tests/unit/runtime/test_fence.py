"""The fence of writes."""

import asyncio
import math

import pytest

from provisioner.runtime.fence import Fence, LeaseExpires


@pytest.mark.parametrize(
    ("lease_left", "seconds", "sent"),
    [(30.0, 15.0, True), (15.1, 15.0, True), (15.0, 15.0, False), (0.0, 10.0, False), (math.inf, 15.0, True)],
)
def test_a_write_is_sent_if_the_lease_outlives_it(lease_left: float, seconds: float, *, sent: bool) -> None:
    """The Lease is read again for each request: a step may be several."""
    left, requests = [lease_left], list[str]()
    fence = Fence(lambda: left[0])

    async def request() -> str:
        requests.append("sent")
        left[0] = seconds
        return "answer"

    async def twice() -> None:
        assert await fence.send("patch NodeClaim a", seconds, request) == "answer"
        await fence.send("patch NodeClaim a", seconds, request)

    assert fence.leads == (lease_left > 0)
    with pytest.raises(LeaseExpires, match="patch NodeClaim a"):
        asyncio.run(twice())
    assert len(requests) == sent


def test_a_write_that_is_cancelled_keeps_the_lease_for_its_time() -> None:
    """It can take effect until then; one that was answered cannot."""
    kept = list[float]()
    fence = Fence(on_cancelled=kept.append)

    async def story() -> None:
        await fence.send("patch", 10.0, lambda: asyncio.sleep(0))
        assert not kept
        async with asyncio.timeout(0.001):
            await fence.send("delete", 10.0, lambda: asyncio.sleep(60))

    with pytest.raises(TimeoutError):
        asyncio.run(story())
    assert kept == [10.0]
