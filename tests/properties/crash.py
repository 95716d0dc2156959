"""Stories that survive a crash of the controller at any write."""

from collections.abc import Iterable
from typing import Any

from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.harness import SHIPPED_LEASE, CrashPoint, Sim, Story, node_claim, simulate
from tests.world.main_job import NAME

Settings = dict[str, Any]
QUICK: Settings = {
    "lease": SHIPPED_LEASE,
    "azure": AzureSettings(create_seconds=(15.0, 20.0), delete_seconds=(10.0, 15.0)),
    "nodes": NodeSettings(ready_seconds=(2.0, 4.0), gpu_seconds=(2.0, 4.0)),
}
# A restart, the expiry of the lease (30 s, polled), and one minute until a 404 is trusted.
RECOVERY_SECONDS = 2.0 + 43.0 + 60.0
READY_SECONDS = RECOVERY_SECONDS + 40.0
GONE_SECONDS = RECOVERY_SECONDS + 40.0
# While AKS creates a pool it refuses three DELETEs, which are sent again after 5, 10 and 20 s.
REFUSED_SECONDS = 5.0 + 10.0 + 20.0
QUIET_SECONDS = 70.0


async def applied(sim: Sim, name: str) -> str:
    return (await sim.apply(node_claim(name)))["metadata"]["uid"]


async def is_ready(sim: Sim, name: str) -> None:
    await sim.until(lambda: sim.condition(name, "Ready") == "True", READY_SECONDS, f"{name} is Ready")


async def is_gone(sim: Sim, name: str, within_seconds: float = GONE_SECONDS) -> None:
    await sim.until(lambda: sim.claim(name) is None, within_seconds, f"{name} is gone")


def went_in_order(sim: Sim, uid: str) -> None:
    """Check that one pool existed, that it was deleted first, then its Node, then the claim."""
    order = sim.audit_log.deletion_order(uid)
    assert order in (["pool", "node", "claim"], ["pool", "claim"]), order
    states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
    assert states.count("Creating") == 1, states


async def create_and_delete(sim: Sim) -> None:
    """Create a claim, wait until it is Ready, and delete it."""
    await sim.start_controller()
    uid = await applied(sim, NAME)
    await is_ready(sim, NAME)
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    went_in_order(sim, uid)
    await sim.settled(QUIET_SECONDS)


async def delete_while_creating(sim: Sim) -> None:
    """Delete a claim while AKS creates its pool."""
    await sim.start_controller()
    uid = await applied(sim, NAME)
    await sim.until(lambda: sim.pools_of(uid), READY_SECONDS, "the pool is being created")
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME, GONE_SECONDS + REFUSED_SECONDS)
    went_in_order(sim, uid)
    await sim.settled(QUIET_SECONDS)


def survive(story: Story, points: Iterable[CrashPoint], settings: Settings = QUICK) -> int:
    """Run the scenario once for each crash point; returns the number of points. Raises on any violation."""
    tried = 0
    for point in points:
        killed = crash(story, point, settings)
        assert killed == 1, f"{point}: {killed} controllers were killed"
        tried += 1
    return tried


def crash(story: Story, point: CrashPoint, settings: Settings = QUICK) -> int:
    """Run one crash point; returns how many controllers the crash has killed."""
    dead: list[str] = []

    async def run(sim: Sim) -> None:
        await story(sim)
        dead.extend(name for name, process in sim.controllers.items() if process.dead)

    try:
        simulate(run, crash=point, **settings)
    except Exception as error:
        error.add_note(f"killed at {point}")
        raise
    return len(dead)
