"""The removal matrix on the real API server: every trigger while creating, when Ready and while draining.

All cells of one controller state run at once, each with its own claim: first all reach their phase, then the controller
is killed or not, then every command is sent, and then each cell is checked. The complete matrix runs in the simulator
(`tests/world/termination/test_removal_matrix.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.world.claims import ready, wait_for_condition
from tests.world.harness import node_claim
from tests.world.transcript import BUDGETS, deleting, run_pod

from . import assets
from .controlplane import CONTROLLERS, ControlPlane
from .kaito_beside import WATCHES_DIFFER_SECONDS
from .realworld import RealWorld
from .stories import WHOLE

pytestmark = pytest.mark.cluster

LOOPS = (*CONTROLLERS, "node-lifecycle-controller")
FATES = ("alive", "restarted")
ENTRIES = ("claim", "node", "pool", "all")
MOMENTS = ("creating", "ready", "draining")
# Azure's seconds, of which sixty pass in one: the creation lasts longer than the preparation of its four cells.
LONG_CREATION = (1800.0, 1800.0)
# The longest waits are real: a Lease that expires, a 404 that settles, a pool that stays missing.
STAGE_SECONDS = 150.0
STAYS_SECONDS = 10.0
# A Node that registers for a deleting claim is never ours: the node manager deletes it with its machine.
BORN_LATE = [["pool", "claim"], WHOLE, ["node", "pool", "claim"]]


class Cell(NamedTuple):
    moment: str
    entry: str

    @property
    def name(self) -> str:
        """The name of its claim, pool, pod and PodDisruptionBudget."""
        return f"rm{self.moment[:2]}{self.entry}"

    @property
    def comes_up(self) -> bool:
        """Whether there is nothing to delete: no Node exists while its pool is being created."""
        return (self.moment, self.entry) == ("creating", "node")


CELLS = [Cell(moment, entry) for moment in MOMENTS for entry in ENTRIES]


async def brought(world: RealWorld, cell: Cell) -> str:
    """Bring a claim to that phase; returns its UID."""
    uid: str = (await world.apply(node_claim(cell.name)))["metadata"]["uid"]
    if cell.moment == "creating":
        await wait_for_condition(world, cell.name, "Launched", "Unknown", "Creating", within_seconds=30)
        return uid
    await ready(world, cell.name)
    if cell.moment == "draining":
        (node,) = world.nodes_of(cell.name)
        run_pod(world, cell.name, node["metadata"]["name"])
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": cell.name}}}
        world.store.create(BUDGETS, {"metadata": {"name": cell.name}, "spec": spec}, "default")
        await world.delete_claim(cell.name)
        await wait_for_condition(world, cell.name, "Drained", "Unknown", "Draining", within_seconds=30)
    return uid


async def command(world: RealWorld, cell: Cell) -> None:
    """Send the user's command, whether its object exists or not."""
    if cell.entry in ("claim", "all"):
        await world.delete_claim(cell.name)
    if cell.entry in ("node", "all"):
        nodes = world.nodes_of(cell.name)
        if nodes:
            await world.delete_node(nodes[0]["metadata"]["name"])
        else:
            with pytest.raises(AssertionError, match="404"):
                await world.delete_node(f"aks-{cell.name}-00000000-vmss000000")
    # The controller may have handled the first command of "all" before the last is sent.
    if cell.entry in ("pool", "all") and cell.name in world.cloud.pools:
        world.cloud.delete_pool_by_hand(cell.name)


async def ends(world: RealWorld, cell: Cell, uid: str) -> None:
    """Check that all three are gone, in order, or that the claim became Ready and stays so."""
    calls = [call for call in world.cloud.requests if call.pool == cell.name]
    if cell.comes_up:
        await ready(world, cell.name)
        await asyncio.sleep(STAYS_SECONDS)
        assert world.condition(cell.name, "Ready") == "True"
        assert not deleting(world.claim(cell.name))
        assert len(world.pools_of(uid)) == len(world.nodes_of(cell.name)) == 1
        assert not world.audit_log.deletion_order(uid)
        return
    if cell.moment == "draining" and cell.entry in ("claim", "node"):
        assert not [call for call in calls if call.method == "DELETE"], "the budget holds the machine"
        world.store.delete(BUDGETS, cell.name, "default")
    if cell == Cell("creating", "pool"):
        await wait_for_condition(world, cell.name, "Launched", "Unknown", "PoolDeleted", within_seconds=STAGE_SECONDS)
    await world.until(lambda: going(world, cell), STAGE_SECONDS, f"{cell.name} is on its way out")
    # The watch event may follow the response, and that of Nodes that of claims.
    await world.until(lambda: "claim" in world.audit_log.deletion_order(uid), STAGE_SECONDS, f"{cell.name} is gone")
    await asyncio.sleep(WATCHES_DIFFER_SECONDS)
    order = world.audit_log.deletion_order(uid)
    assert order in (BORN_LATE if cell.moment == "creating" else [WHOLE]), world.describe()
    assert world.claim(cell.name) is None
    assert not world.nodes_of(cell.name)
    assert not world.pools_of(uid)
    taken = [
        call for call in world.cloud.requests if (call.method, call.pool, call.status) == ("DELETE", cell.name, 202)
    ]
    # With three commands, the controller may have handled the first before the last is sent.
    assert len(taken) in {"pool": (0,), "all": (0, 1)}.get(cell.entry, (1,)), world.describe()


def going(world: RealWorld, cell: Cell) -> bool:
    claim = world.claim(cell.name)
    return claim is None or deleting(claim)


async def keep_failure(cell: Cell, story: Awaitable[None], failures: dict[Cell, Exception]) -> None:
    """Run one cell; a failure is kept for its own test, and the others continue."""
    try:
        await story
    except Exception as failure:  # noqa: BLE001
        failures[cell] = failure


async def all_cells(workdir: Path, fate: str) -> dict[Cell, Exception]:
    """Run every cell of one controller state in a cluster of its own; returns the failures."""
    failures: dict[Cell, Exception] = {}
    async with ControlPlane.start(assets.find(), workdir, controller_manager=LOOPS) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac()
        async with RealWorld.open(cp, workdir) as world:
            await world.start_controller()
            uids: dict[Cell, str] = {}

            async def bring(cell: Cell) -> None:
                uids[cell] = await brought(world, cell)

            async with asyncio.TaskGroup() as tasks:
                for cell in CELLS:
                    if cell.moment != "creating":
                        tasks.create_task(bring(cell))
            world.cloud.configure(create_seconds=LONG_CREATION)
            async with asyncio.TaskGroup() as tasks:
                for cell in CELLS:
                    if cell.moment == "creating":
                        tasks.create_task(bring(cell))
            if fate == "restarted":
                world.crash()
            for cell in CELLS:
                await command(world, cell)
            if fate == "restarted":
                await world.start_controller("ctl1")
            async with asyncio.TaskGroup() as tasks:
                for cell in CELLS:
                    tasks.create_task(keep_failure(cell, ends(world, cell, uids[cell]), failures))
            await world.settled()
    return failures


async def run_all(folder: Callable[[str], Path]) -> dict[str, dict[Cell, Exception]]:
    """Run all cells, with a cluster for each controller state; returns the failures."""
    async with asyncio.TaskGroup() as tasks:
        runs = {fate: tasks.create_task(all_cells(folder(fate), fate)) for fate in FATES}
    return {fate: run.result() for fate, run in runs.items()}


@pytest.fixture(scope="module")
def failed(all_results: dict[str, Any]) -> dict[str, dict[Cell, Exception]]:
    """The failures by cell."""
    return all_results[__name__]


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.moment}-{cell.entry}")
def test_removal_on_the_real_server(failed: dict[str, dict[Cell, Exception]], cell: Cell, fate: str) -> None:
    """A deletion of any of the three objects deletes the other two, on etcd and kube-apiserver too."""
    if cell in failed[fate]:
        raise failed[fate][cell]
