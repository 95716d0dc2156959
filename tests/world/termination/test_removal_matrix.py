"""Every kind of deletion at every moment of a claim's life, with a running, a restarted and an absent controller.

A case brings a simulated cluster to one moment (`moments.py`); the controller continues, restarts, or stays away for
an hour; then a user sends a command. Where its object does not exist the command is sent as well, and refused.
`TABLE` has the expected result of each case, and `limit_seconds` its time limit. The run ends with the table of the
cases that ran (`removal_table.py`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from cloudprovider.azure.client import API_VERSION
from provisioner.simulator.azure import bodies
from provisioner.simulator.world import ARM_HOST
from tests.world.claims import created
from tests.world.harness import RESTART_SECONDS, SHIPPED_LEASE, Sim, node_claim, simulate
from tests.world.main_job import NAME
from tests.world.moments import BUDGET, DRAINING, MOMENTS, Moment
from tests.world.removal_table import CELL, CONTROLLERS, OUTCOME, Cell
from tests.world.transcript import BUDGETS, MINUTE, deleting, pool_calls

HOUR = 60 * MINUTE
DRAINED_AFTER_SECONDS = 30.0
KINDS = {"P": "pool", "N": "node", "C": "claim"}

# What disappears, in this order and nothing else: Pool, Node, Claim; all that there ever was of them. "up": the claim
# gets its machine, is Ready and stays so. Each entry's three columns: controller alive, restarted, an hour away.
# The claim of a pool that failed is kept, and tries again after any removal of that pool: "P+up".
TABLE = """
moment                  claim          Node              pool              all three
before the PUT          C   C   C      up   up   up      up   up   up      C   C   C
PUT in flight           PNC PNC PNC    up   up   up      up   up   up      PNC PNC PNC
Creating                PNC PNC PNC    up   up   up      PC   PC   PC      PC  PC  PC
Succeeded without Node  PC  PNC PNC    up   up   up      PC   PC   PC      PC  PC  PC
Registered              PNC PNC PNC    PNC  PNC  PNC     PNC  PNC  PNC     PNC PNC PNC
Ready                   PNC PNC PNC    PNC  PNC  PNC     PNC  PNC  PNC     PNC PNC PNC
NotReady                PNC PNC PNC    PNC  PNC  PNC     PNC  PNC  PNC     PNC PNC PNC
draining                PNC PNC PNC    PNC  PNC  PNC     PNC  PNC  PNC     PNC PNC PNC
Deleting                PNC PNC PNC    PNC  PNC  PNC     PNC  PNC  PNC     PNC PNC PNC
Failed                  PC  PC  PC     P+up P+up P+up    P+up P+up P+up    PC  PC  PC
"""

# AKS takes 90 s for a pool and 60 for its end at most (`moments.AZURE`); the last two tries of a DELETE are 30 apart;
# a 404 is believed 60 after a PUT or after taking over, and a lost pool acted on 60 after that; the lease of a dead
# leader lasts 30, and its successor looks every 5; the rest is reading and writing.
CREATE_SECONDS, RETRY_SECONDS, DELETE_SECONDS = 90.0, 30.0, 60.0
SETTLE_SECONDS, MISSING_SECONDS, TAKEOVER_SECONDS, TALK_SECONDS = 60.0, 60.0, 35.0, 10.0
WHILE_CREATING_SECONDS = CREATE_SECONDS + RETRY_SECONDS + DELETE_SECONDS
GOES_WITHIN_SECONDS = {
    "before the PUT": SETTLE_SECONDS,
    "PUT in flight": WHILE_CREATING_SECONDS,
    "Creating": WHILE_CREATING_SECONDS,
    "Succeeded without Node": DELETE_SECONDS,
    "Registered": WHILE_CREATING_SECONDS,
    "Ready": DELETE_SECONDS,
    "NotReady": DELETE_SECONDS,
    "draining": DRAINED_AFTER_SECONDS + DELETE_SECONDS,
    "Deleting": DELETE_SECONDS,
    "Failed": DELETE_SECONDS,
}
# From the PUT, or from the failure before it, to Ready with its GPUs.
COMES_UP_WITHIN_SECONDS = 250.0


def limit_seconds(moment: Moment, entry: str, controller: str, *, up: bool) -> float:
    """The time limit, from the command on, or from the controller's return after an hour."""
    usual = COMES_UP_WITHIN_SECONDS if up else GOES_WITHIN_SECONDS[moment.name]
    if controller != "alive":
        usual = TAKEOVER_SECONDS + max(usual, SETTLE_SECONDS)
    return usual + (MISSING_SECONDS if entry == "pool" else 0.0) + TALK_SECONDS


# Entries: each returns whether it ended a pool by hand


async def delete_claim(sim: Sim) -> bool:
    """kubectl delete nodeclaim"""
    await sim.delete_claim(NAME)
    return False


async def delete_node(sim: Sim) -> bool:
    """kubectl delete node: NotFound where there is none."""
    expected = 200 if sim.nodes_of(NAME) else 404
    async with sim.person.delete(f"/api/v1/nodes/{bodies.node_name(sim.cloud.settings, NAME, 0)}") as response:
        assert response.status == expected, sim.describe()
    return False


async def delete_pool(sim: Sim) -> bool:
    """Delete in the portal, which preempts operations; ARM answers 204 without a pool, 409 if it is Deleting."""
    pool = sim.cloud.pools.get(NAME)
    if pool is not None and pool.state != "Deleting":
        sim.cloud.delete_pool_by_hand(NAME)
        return True
    url = f"https://{ARM_HOST}{sim.cloud.settings.cluster_id}/agentPools/{NAME}?api-version={API_VERSION}"
    async with sim.person.delete(url, headers={"Authorization": "Bearer person"}) as response:
        assert response.status == (204 if pool is None else 409), sim.describe()
    return False


async def delete_all_three(sim: Sim) -> bool:
    """All three deletions at once."""
    async with asyncio.TaskGroup() as people:
        tasks = [people.create_task(one(sim)) for one in (delete_claim, delete_node, delete_pool)]
    return any(task.result() for task in tasks)


ENTRIES: dict[str, Callable[[Sim], Awaitable[bool]]] = {
    "claim": delete_claim,
    "Node": delete_node,
    "pool": delete_pool,
    "all three": delete_all_three,
}


def expectations() -> dict[tuple[str, str, str], str]:
    """`TABLE` by moment, entry and controller."""
    found = {}
    for line in TABLE.strip().splitlines()[1:]:
        moment, rest = re.split(r"\s{2,}", line, maxsplit=1)
        places = [(entry, fate) for entry in ENTRIES for fate in CONTROLLERS]
        for (entry, fate), expected in zip(places, rest.split(), strict=True):
            found[moment, entry, fate] = expected
    return found


EXPECTED = expectations()
CELLS = [(entry, moment, fate) for entry in ENTRIES for moment in MOMENTS for fate in CONTROLLERS]


# A cell


async def commanded(sim: Sim, moment: Moment, entry: str, controller: str) -> tuple[str, int, float]:
    """Send the command at that moment; the claim's UID, the pools deleted by hand, and the start of the time limit."""
    await sim.start_controller()
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    go_on = await moment.reach(sim)
    assert moment.proof(sim), sim.describe()
    if controller != "alive":
        sim.crash("ctl0")
    began = sim.now
    by_hand = await ENTRIES[entry](sim)
    go_on()
    if controller != "alive":
        await asyncio.sleep(RESTART_SECONDS if controller == "restarted" else HOUR)
        began = began if controller == "restarted" else sim.now
        await sim.start_controller("ctl1")
    return uid, int(by_hand), began


async def drained(sim: Sim, entry: str) -> None:
    """A drain ends with the pool; otherwise it goes on until the budget is removed."""
    if entry in ("claim", "Node"):
        await asyncio.sleep(DRAINED_AFTER_SECONDS)
        assert not pool_calls(sim, "DELETE"), sim.describe()
        sim.store.delete(BUDGETS, BUDGET, "default")


async def went(sim: Sim, uid: str, within_seconds: float) -> None:
    """Whether claim, Node and pool are gone."""
    await sim.until(lambda: sim.claim(NAME) is None, within_seconds, "all is gone")
    assert not sim.nodes_of(NAME), sim.describe()
    assert not sim.pools_of(uid), sim.describe()
    assert sorted(sim.cloud.pools) == ["system", "theirs"]


def is_well(sim: Sim, uid: str) -> bool:
    """Whether the claim is Ready on one machine and no object is deleting."""
    (pool,), (node,), claim = sim.pools_of(uid), sim.nodes_of(NAME), sim.claim(NAME)
    calm = pool.state != "Deleting" and not deleting(node) and not deleting(claim)
    return calm and sim.condition(NAME, "Ready") == "True"


@pytest.mark.matrix(quick=12)
@pytest.mark.parametrize(("entry", "moment", "controller"), CELLS, ids=[f"{e}-{m.name}-{c}" for e, m, c in CELLS])
def test_removal(entry: str, moment: Moment, controller: str, request: pytest.FixtureRequest) -> None:
    """The deletion of one object removes the others in order, or none, as `TABLE` states."""
    row = list(ENTRIES).index(entry) * len(MOMENTS) + MOMENTS.index(moment)
    notes = request.node.user_properties
    notes.append((CELL, tuple(Cell(row, entry, moment.name, controller))))  # plain, for other processes
    expected = EXPECTED[moment.name, entry, controller]
    goes, up = expected.removesuffix("+up").removesuffix("up"), expected.endswith("up")

    async def story(sim: Sim) -> None:
        uid, by_hand, began = await commanded(sim, moment, entry, controller)
        if moment is DRAINING:
            await drained(sim, entry)
        left_seconds = began + limit_seconds(moment, entry, controller, up=up) - sim.now
        if up:
            await sim.until(lambda: sim.condition(NAME, "Ready") == "True", left_seconds, "the claim is Ready")
        else:
            await went(sim, uid, left_seconds)
        notes.append((OUTCOME, f"{'up' if up else 'gone'} {sim.now - began:.0f}"))
        await sim.settled(quiet_seconds=10 * MINUTE if up else 70.0)
        assert not up or is_well(sim, uid), sim.describe()

        assert sim.audit_log.deletion_order(uid) == [KINDS[letter] for letter in goes], sim.describe()
        assert created(sim, NAME) == goes.count("P") + up
        accepted = [call for call in pool_calls(sim, "DELETE") if call.status == 202]
        assert len(accepted) + by_hand == goes.count("P"), "one DELETE for a pool, and none for one that goes already"
        assert not sim.audit_log.calls(system="arm", verb="POST"), "no operation is ever aborted"

    simulate(story, lease=SHIPPED_LEASE, azure=moment.azure)


def test_no_cell_is_left_out() -> None:
    """The table has every combination of four entries, ten moments and three controllers."""
    assert list(EXPECTED) == [
        (moment.name, entry, fate) for moment in MOMENTS for entry in ENTRIES for fate in CONTROLLERS
    ]
    assert len(EXPECTED) == len(CELLS) == 120
    assert set(GOES_WITHIN_SECONDS) == {moment.name for moment in MOMENTS}
