"""The crash property: killed before or after any of its writes and started anew, it loses and doubles nothing.

Each point of a story's undisturbed run is tried: the write arrives and has no effect (before), or has taken effect and
is not answered (after), and the process's connections end by FIN or by RST. A successor starts with an empty memory and
waits for the dead one's lease. What must hold then is what holds without a crash: the claim gets its machine and goes
again within the bounds (I5), there is never a second pool (I3), the removal keeps its order (I2), nothing is left (I1).
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
# A restart, the dead one's lease (30 s, seen a round late, asked for in rounds), a minute until a 404 is believed.
RECOVERY_SECONDS = 2.0 + 43.0 + 60.0
READY_SECONDS = RECOVERY_SECONDS + 40.0
GONE_SECONDS = RECOVERY_SECONDS + 40.0
QUIET_SECONDS = 70.0
OTHER_SIZE = "Standard_NC48ads_A100_v4"
# An attempt that fails after 10 s, its cause told, its pool deleted, all within a round of the inventory each.
TRY_SECONDS = 10.0 + 15.0 + 3 * 5.0


async def applied(sim: Sim, name: str) -> str:
    return (await sim.apply(node_claim(name)))["metadata"]["uid"]


async def is_ready(sim: Sim, name: str) -> None:
    await sim.until(lambda: sim.condition(name, "Ready") == "True", READY_SECONDS, f"{name} is Ready")


async def is_gone(sim: Sim, name: str) -> None:
    await sim.until(lambda: sim.claim(name) is None, GONE_SECONDS, f"{name} is gone")


def went_in_order(sim: Sim, uid: str) -> None:
    """One pool there was; it went first, its Node before the claim, and the claim last."""
    order = sim.audit_log.deletion_order(uid)
    assert order in (["pool", "node", "claim"], ["pool", "claim"]), order
    states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
    assert states.count("Creating") == 1, states


async def create_and_delete(sim: Sim) -> None:
    """The main job."""
    await sim.start_controller()
    uid = await applied(sim, NAME)
    await is_ready(sim, NAME)
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    went_in_order(sim, uid)
    await sim.settled(QUIET_SECONDS)


async def delete_while_creating(sim: Sim) -> None:
    """The claim is deleted as soon as AKS has begun to make its pool."""
    await sim.start_controller()
    uid = await applied(sim, NAME)
    await sim.until(lambda: sim.pools_of(uid), READY_SECONDS, "the pool is being created")
    await sim.delete_claim(NAME)
    await is_gone(sim, NAME)
    went_in_order(sim, uid)
    await sim.settled(QUIET_SECONDS)


async def create_and_delete_beside_another(sim: Sim) -> None:
    """Two claims come; one goes, and the other must not notice."""
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
    """A claim whose first size is not to be had: its machine comes in the second, and goes again.

    A successor does not know of a try whose pool is gone and whose cause was not yet told: it may cost one more.
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
    """Azure accepts the first size and fails later."""
    await fall_back(sim, faults.quota(size=SIZE, after_seconds=10.0))


async def fall_back_from_a_refusal(sim: Sim) -> None:
    """AKS refuses the first size at once."""
    await fall_back(sim, faults.quota_preflight(size=SIZE))


async def make_anew(sim: Sim) -> None:
    """The first machine has a Node that never gets Ready, and its pool fails: both go before the next one comes."""
    failure = Failure(error=faults.nodes_not_ready(), after_seconds=4.0, machine=True)
    sim.cloud.faults.append(Fault(verb="PUT", failure=failure))
    await sim.start_controller()
    uid = await applied(sim, NAME)
    # A machine that did not come up is tried again after 5 min; a successor that was told nothing tries at once.
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
    """Tell the story once for each point; how many points there were. Raises what any of them violates."""
    tried = 0
    for point in points:
        killed = crash(story, point, settings)
        assert killed == 1, f"{point}: {killed} controllers were killed"
        tried += 1
    return tried


def crash(story: Story, point: CrashPoint, settings: Settings = QUICK) -> int:
    """How many controllers the crash has killed."""
    dead: list[str] = []

    async def told(sim: Sim) -> None:
        await story(sim)
        dead.extend(name for name, process in sim.controllers.items() if process.dead)

    try:
        simulate(told, crash=point, **settings)
    except Exception as error:
        error.add_note(f"killed at {point}")
        raise
    return len(dead)


def every_other(points: Iterable[CrashPoint]) -> list[CrashPoint]:
    """Each write, before and after; connections end by FIN and by RST in turn."""
    return [point for point in points if point.reset == bool(point.number % 2)]


def test_every_point_of_the_main_job(record_property: Callable[[str, object], None]) -> None:
    """Killed before and after every write of a claim's life, by FIN and by RST: the life ends well each time."""
    writes = simulate(create_and_delete, **QUICK).writes
    tried = survive(create_and_delete, crash_points(create_and_delete, **QUICK))
    record_property("points", tried)
    assert tried == 4 * writes
    assert writes >= 14


@pytest.mark.matrix(quick=0)
def test_every_write_of_a_claim_deleted_while_creating(record_property: Callable[[str, object], None]) -> None:
    """The same for a claim that is deleted while AKS makes its pool; connections end by FIN and by RST in turn."""
    writes = simulate(delete_while_creating, **QUICK).writes
    tried = survive(delete_while_creating, every_other(crash_points(delete_while_creating, **QUICK)))
    record_property("points", tried)
    assert tried == 2 * writes


@pytest.mark.matrix(quick=0)
def test_every_write_with_another_claim_beside(record_property: Callable[[str, object], None]) -> None:
    """The same with a second claim, whose machine must come and stay whatever happens to the first."""
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
    """The same while an offering turns out short, at once or later, and while a failed pool and its Node go."""
    writes = simulate(story, **settings).writes
    tried = survive(story, every_other(crash_points(story, **settings)), settings)
    record_property("points", tried)
    assert tried == 2 * writes


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_a_crash_is_a_function_of_its_point(reset: bool) -> None:
    """The same point gives the same course of events, so that whatever is found can be looked at again."""
    point = CrashPoint(2, "after", reset)
    digests = {simulate(create_and_delete, crash=point, **QUICK).digest for _ in range(2)}
    assert len(digests) == 1
