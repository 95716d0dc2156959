"""Crash property: a controller that is killed before or after any of its writes loses and duplicates nothing.

Each write of a scenario is a crash point: the write has no effect (before), or has taken effect without a response
(after), and the process's connections end by FIN or by RST. A successor starts with empty memory and waits for the
lease to expire. The same invariants hold as without a crash: the claim gets its machine and is removed within bounds
(I5), there is never a second pool (I3), the removal keeps its order (I2), and nothing is left (I1).
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import created
from tests.world.harness import SIZE, CrashPoint, Sim, Story, crash_points, node_claim, simulate
from tests.world.nodeclaim.test_main_job import NAME

BESIDE = "beside"
Settings = dict[str, Any]
QUICK: Settings = {
    "azure": AzureSettings(create_seconds=(15.0, 20.0), delete_seconds=(10.0, 15.0)),
    "nodes": NodeSettings(ready_seconds=(2.0, 4.0), gpu_seconds=(2.0, 4.0)),
}
NEVER_READY: Settings = {**QUICK, "nodes": NodeSettings(ready_seconds=(3600.0, 3600.0), gpu_seconds=(2.0, 4.0))}
# A restart, the expiry of the lease (30 s, polled), and one minute until a 404 is trusted.
RECOVERY_SECONDS = 2.0 + 43.0 + 60.0
READY_SECONDS = RECOVERY_SECONDS + 40.0
GONE_SECONDS = RECOVERY_SECONDS + 40.0
# While AKS creates a pool it refuses three DELETEs, which are sent again after 5, 10 and 20 s.
REFUSED_SECONDS = 5.0 + 10.0 + 20.0
QUIET_SECONDS = 70.0
OTHER_SIZE = "Standard_NC48ads_A100_v4"
# An attempt that fails after 10 s, its cause read and its pool deleted, each within one inventory interval.
TRY_SECONDS = 10.0 + 15.0 + 3 * 5.0


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


async def create_and_delete_beside_another(sim: Sim) -> None:
    """Create two claims and delete one; the other stays Ready."""
    await sim.start_controller()
    uid, other = await applied(sim, NAME), await applied(sim, BESIDE)
    await is_ready(sim, NAME)
    await is_ready(sim, BESIDE)
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    went_in_order(sim, uid)
    await sim.settled(QUIET_SECONDS)
    assert sim.condition(BESIDE, "Ready") == "True"
    assert not sim.audit_log.deletion_order(other)
    assert [pool.state for pool in sim.pools_of(other)] == ["Succeeded"]


async def fall_back(sim: Sim, *faults_first: Fault) -> None:
    """A claim whose first size is unavailable: its machine has the second size; then it is deleted.

    A successor does not know of an attempt whose pool is gone and whose cause was not yet recorded: it may cost one
    more.
    """
    sim.cloud.faults.extend(faults_first)
    await sim.start_controller()
    claim = node_claim(NAME)
    claim["spec"]["requirements"][0]["values"] = [SIZE, OTHER_SIZE]
    uid = (await sim.apply(claim))["metadata"]["uid"]
    within = READY_SECONDS + 2 * TRY_SECONDS
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", within, f"{NAME} is Ready")
    assert [pool.size for pool in sim.pools_of(uid)] == [OTHER_SIZE]
    made = [put.properties["vmSize"] for put in sim.cloud.put_log if put.created]
    assert made.count(OTHER_SIZE) == 1, made
    assert made.count(SIZE) <= 2, made
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    assert sim.audit_log.deletion_order(uid)[-3:] == ["pool", "node", "claim"]
    await sim.settled(QUIET_SECONDS)


async def fall_back_from_a_failed_pool(sim: Sim) -> None:
    """Azure accepts the first size, and the creation fails afterwards."""
    await fall_back(sim, faults.quota(size=SIZE, after_seconds=10.0))


async def fall_back_from_a_refusal(sim: Sim) -> None:
    """AKS refuses the first size with an error response."""
    await fall_back(sim, faults.quota_preflight(size=SIZE))


async def make_anew(sim: Sim) -> None:
    """The first machine has a Node that is never Ready, and its pool fails: both are deleted before the next pool is
    created.
    """
    failure = Failure(error=faults.nodes_not_ready(), after_seconds=4.0, machine=True)
    sim.cloud.faults.append(Fault(verb="PUT", failure=failure))
    await sim.start_controller()
    uid = await applied(sim, NAME)
    # A machine that did not start is retried after 5 min; a successor without that memory retries immediately.
    await sim.until(lambda: created(sim, NAME) == 2, RECOVERY_SECONDS + 400.0, "the pool is made anew")
    ((node, *_),) = [await sim.until(lambda: sim.nodes_of(NAME), READY_SECONDS, "it has a Node")]
    sim.nodes.set_ready(node["metadata"]["name"], True)
    sim.nodes.set_gpus(node["metadata"]["name"], 1)
    await is_ready(sim, NAME)
    assert created(sim, NAME) == 2
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    assert sim.audit_log.deletion_order(uid)[-3:] == ["pool", "node", "claim"]
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


def every_other(points: Iterable[CrashPoint]) -> list[CrashPoint]:
    """Each write, before and after; connections end by FIN and by RST alternately."""
    return [point for point in points if point.reset == bool(point.number % 2)]


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("part", range(4))
def test_every_point_of_the_main_job(part: int, record_property: Callable[[str, object], None]) -> None:
    """A claim's lifecycle completes when the controller is killed before or after any write, by FIN or by RST.

    Each part tries every write in one of the four ways, and consecutive writes in different ways.
    """
    points = list(crash_points(create_and_delete, **QUICK))
    writes = len(points) // 4
    tried = survive(create_and_delete, [points[4 * n + (n + part) % 4] for n in range(writes)])
    record_property("points", tried)
    assert tried == writes >= 14


@pytest.mark.matrix(quick=0)
def test_every_write_of_a_claim_deleted_while_creating(record_property: Callable[[str, object], None]) -> None:
    """A claim that is deleted while AKS creates its pool is removed, whichever write the controller is killed at."""
    writes = simulate(delete_while_creating, **QUICK).writes
    tried = survive(delete_while_creating, every_other(crash_points(delete_while_creating, **QUICK)))
    record_property("points", tried)
    assert tried == 2 * writes


@pytest.mark.matrix(quick=0)
def test_every_write_with_another_claim_beside(record_property: Callable[[str, object], None]) -> None:
    """A second claim gets its machine and keeps it, whichever write of the first claim the controller is killed at."""
    writes = simulate(create_and_delete_beside_another, **QUICK).writes
    points = every_other(crash_points(create_and_delete_beside_another, **QUICK))
    tried = survive(create_and_delete_beside_another, points)
    record_property("points", tried)
    assert tried == 2 * writes


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize(
    ("story", "settings"),
    [(fall_back_from_a_failed_pool, QUICK), (fall_back_from_a_refusal, QUICK), (make_anew, NEVER_READY)],
)
def test_every_write_of_an_attempt_that_fails(
    story: Story, settings: Settings, record_property: Callable[[str, object], None]
) -> None:
    """An attempt that fails, at once or later, is followed by the next offering, whichever write the controller is
    killed at.
    """
    writes = simulate(story, **settings).writes
    tried = survive(story, every_other(crash_points(story, **settings)), settings)
    record_property("points", tried)
    assert tried == 2 * writes


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_a_crash_point_is_reproducible(reset: bool) -> None:
    """The same crash point gives the same sequence of events, so that a failure can be reproduced."""
    point = CrashPoint(2, "after", reset)
    digests = {simulate(create_and_delete, crash=point, **QUICK).digest for _ in range(2)}
    assert len(digests) == 1
