"""What people do."""

from typing import TYPE_CHECKING

from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run


@verb("delete-claim")
async def delete_claim(run: "Run", event: Event) -> None:
    """A user deletes a NodeClaim."""
    claim = run.claim(event)
    if claim is not None:
        run.struck(event)
        await run.sim.delete_claim(claim["metadata"]["name"])


@verb("delete-pool")
async def delete_pool(run: "Run", event: Event) -> None:
    """A user deletes an agent pool in the portal."""
    name = run.pool(event)
    if name:
        run.struck(event)
        run.sim.cloud.delete_pool_by_hand(name)


@verb("delete-node")
async def delete_node(run: "Run", event: Event) -> None:
    """A user deletes a Node."""
    name = run.node(event)
    if name:
        run.struck(event)
        await run.sim.delete_node(name)
