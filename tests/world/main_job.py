"""The main use, from an applied NodeClaim to a GPU node and back to nothing, as a story of other tests."""

from tests.world.harness import Sim, node_claim

NAME = "ws3f2a91c0d"


async def ready(sim: Sim, name: str = NAME, within_seconds: float = 900.0) -> str:
    """A claim of that name, applied and Ready; returns its UID."""
    await sim.apply(node_claim(name))
    await sim.until(lambda: sim.condition(name, "Ready") == "True", within_seconds, f"{name} is Ready")
    claim = sim.claim(name)
    assert claim is not None
    return claim["metadata"]["uid"]


async def gone(sim: Sim, name: str = NAME, within_seconds: float = 1200.0) -> None:
    """Wait until no claim of that name exists."""
    await sim.until(lambda: sim.claim(name) is None, within_seconds, f"{name} is gone")


async def create_and_delete(sim: Sim) -> None:
    """The reference story of other tests."""
    await sim.start_controller()
    uid = await ready(sim)
    await sim.delete_claim(NAME)
    await gone(sim)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert not sim.pools_of(uid)
    assert not sim.nodes_of(NAME)
    await sim.settled()
