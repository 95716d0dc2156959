"""Crash property: a controller that is killed before or after any of its writes loses and duplicates nothing.

Each write of a scenario is a crash point: the write has no effect (before), or has taken effect without a response
(after), and the process's connections end by FIN or by RST. A successor starts with empty memory and waits for the
lease to expire. The same invariants hold as without a crash: the claim gets its machine and is removed within bounds
(I5), there is never a second pool (I3), the removal keeps its order (I2), and nothing is left (I1).
"""

from collections.abc import Callable, Iterable

import pytest

from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Failure, Fault
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import created
from tests.world.harness import SIZE, CrashPoint, Sim, Story, crash_points, node_claim, simulate
from tests.world.main_job import NAME

from .crash import (
    QUICK,
    QUIET_SECONDS,
    READY_SECONDS,
    RECOVERY_SECONDS,
    Settings,
    applied,
    create_and_delete,
    delete_while_creating,
    is_gone,
    is_ready,
    survive,
    went_in_order,
)

BESIDE = "beside"
NEVER_READY: Settings = {**QUICK, "nodes": NodeSettings(ready_seconds=(3600.0, 3600.0), gpu_seconds=(2.0, 4.0))}
OTHER_SIZE = "Standard_NC48ads_A100_v4"
# An attempt that fails after 10 s, its cause read and its pool deleted, each within one inventory interval.
TRY_SECONDS = 10.0 + 15.0 + 3 * 5.0


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
