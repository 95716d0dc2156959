"""K19: drift beside KAITO in karpenter mode, which opens the budget of one Workspace of an InferenceSet at a time.

AKS releases a node image, or a user edits a node class: no Workspace has fewer ready machines for it at any moment, and
each machine is replaced once.

Source: docs/references/kaito.md#karpenter-mode, docs/references/kaito.md#contract (K19).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from provisioner.simulator.azure import faults
from tests.world import kaito_nodepools, kaito_predicates
from tests.world.claims import word
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.kaito_actor import at_work
from tests.world.kaito_karpenter import DriftController, PoolWorkspace
from tests.world.kaito_nodepools import PoolOwner
from tests.world.kaito_stage import (
    CLASSES,
    NODE_POOLS,
    QUICK,
    Poised,
    pool_api_of,
    pool_claims_of,
    pool_of,
    serves,
    started,
)

pytestmark = pytest.mark.matrix(quick=0)

Json = dict[str, Any]

HOUR_SECONDS = 3600.0
# The newest image is read every six hours.
SEEN_SECONDS = 7 * HOUR_SECONDS
RELEASE = "202609.07.0"


def owner_of(name: str, count: int = 1, inference_set: str = "phi") -> PoolOwner:
    return PoolOwner(name=name, size=SIZE, count=count, inference_set=inference_set, labels={"apps": "phi"})


def drifted(sim: Sim, owner: PoolOwner) -> list[str]:
    return [c["metadata"]["name"] for c in pool_claims_of(sim, owner) if kaito_nodepools.is_drifted([c])]


def uids(sim: Sim, owner: PoolOwner) -> set[str]:
    return {claim["metadata"]["uid"] for claim in pool_claims_of(sim, owner)}


def budget(sim: Sim, owner: PoolOwner) -> str:
    pool = pool_of(sim, owner)
    assert pool is not None
    found = kaito_nodepools.drift_budget(pool)
    assert found is not None
    return found["nodes"]


async def at_rest(sim: Sim, seconds: float) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some time passes")


async def all_drifted(sim: Sim, owners: Iterable[PoolOwner], within_seconds: float) -> None:
    await sim.until(
        lambda: all(len(drifted(sim, owner)) == owner.count for owner in owners), within_seconds, "all are Drifted"
    )


async def outdated(sim: Sim, *owners: PoolOwner) -> None:
    """A user edits the node class, and every machine of these Workspaces is Drifted."""
    path = f"{CLASSES.path}/{CLASSES.default}"
    await sim.request("PATCH", path, {"spec": {"osDiskSizeGB": 2048}}, content_type="application/merge-patch+json")
    await all_drifted(sim, owners, 60.0)


class BornDrifted:
    """The claims created from now on that were Drifted in one of their versions."""

    def __init__(self, sim: Sim) -> None:
        self.names: set[str] = set()
        self._new: set[str] = set()
        sim.store.subscribe(self._note)

    def _note(self, event: str, resource: str, obj: Json, _: Json | None) -> None:
        if resource != "nodeclaims.karpenter.sh":
            return
        if event == "ADDED":
            self._new.add(obj["metadata"]["uid"])
        if obj["metadata"]["uid"] in self._new and kaito_nodepools.is_drifted([obj]):
            self.names.add(obj["metadata"]["name"])


class OneByOne:
    """The most NodePools with the budget 1 at the same time."""

    def __init__(self, sim: Sim, owners: list[PoolOwner]) -> None:
        self.most = 0
        self._sim = sim
        self._owners = owners
        sim.store.subscribe(self._note)

    def _note(self, _: str, resource: str, __: Json, ___: Json | None) -> None:
        if resource == NODE_POOLS:
            self.most = max(self.most, sum(budget(self._sim, one) == "1" for one in self._owners))


@simulated(**QUICK)
async def test_k19_budget_0_shows_drift_and_keeps_the_machines(sim: Sim) -> None:
    """For hours every claim is Drifted, and nothing of the NodePool changes."""
    await started(sim, controller=True)
    owner = owner_of("a", 2)
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        before = uids(sim, owner)
        poised = Poised(sim, owner)
        await outdated(sim, owner)
        await at_rest(sim, 2 * HOUR_SECONDS)
        assert uids(sim, owner) == before
        assert (poised.least_ready, poised.most_going, poised.most) == (2, 0, 2)
        assert len(drifted(sim, owner)) == 2
        assert workspace.state == "ready"
        assert {word(claim, "Drifted") for claim in pool_claims_of(sim, owner)} == {("True", "NodeClassDrift")}
        assert not any(taints(sim, claim) for claim in pool_claims_of(sim, owner))


def taints(sim: Sim, claim: Json) -> list[str]:
    """The taints that keep pods from the Node because it is going."""
    node = sim.store.get("nodes", claim["status"]["nodeName"])
    assert node is not None
    return [taint["key"] for taint in node["spec"].get("taints") or () if taint["key"].startswith("karpenter.sh/")]


@simulated(**QUICK)
async def test_k19_kaito_rolls_three_workspaces_one_after_the_other(sim: Sim) -> None:
    """One image change: budget 0, 1 and 0 again for each Workspace, each machine replaced once, none missing."""
    await started(sim, controller=True)
    owners = [owner_of("a"), owner_of("b", 2), owner_of("c")]
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in owners]
    async with at_work(*actors):
        for actor in actors:
            await serves(sim, actor)
        before = {owner.name: uids(sim, owner) for owner in owners}
        sim.cloud.release_node_image(RELEASE)
        await sim.apply(node_claim("newest1"))  # the first agent pool with this image
        await all_drifted(sim, owners, SEEN_SECONDS)
        poised = [Poised(sim, owner) for owner in owners]
        born, turns = BornDrifted(sim), OneByOne(sim, owners)
        drift = DriftController(pool_api_of(sim), actors)
        async with at_work(drift):
            await sim.until(lambda: len(drift.reported) == 6, HOUR_SECONDS, "three Workspaces were rolled")
            await at_rest(sim, 2 * HOUR_SECONDS)
        assert drift.reported == [
            (reason, owner.pool) for owner in owners for reason in ("DriftStarted", "DriftComplete")
        ]
        assert turns.most == 1
        assert born.names == set()
        for owner, actor, seen in zip(owners, actors, poised, strict=True):
            assert budget(sim, owner) == "0"
            assert not uids(sim, owner) & before[owner.name]
            assert len(uids(sim, owner)) == owner.count
            assert seen.least_ready == owner.count
            assert (seen.most_going, seen.most) == (1, owner.count + 1)
            assert actor.state == "ready"
    assert len({put.pool for put in sim.cloud.put_log if put.created}) == 9
    await sim.settled()


@simulated(**QUICK)
async def test_k19_a_workspace_of_its_own_is_rolled_without_kaito(sim: Sim) -> None:
    """Its budget is 1: one machine at a time, with no process of KAITO running."""
    await started(sim, controller=True)
    owner = owner_of("alone", 3, inference_set="")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
    before, seen, born = uids(sim, owner), Poised(sim, owner), BornDrifted(sim)
    await outdated(sim, owner)
    await sim.until(lambda: len(uids(sim, owner)) == 3 and not uids(sim, owner) & before, HOUR_SECONDS, "all are new")
    await at_rest(sim, HOUR_SECONDS)
    assert (seen.least_ready, seen.most_going, seen.most) == (3, 1, 4)
    assert (born.names, drifted(sim, owner)) == (set(), [])


@simulated(**QUICK)
async def test_k19_writes_of_kaito_are_no_drift(sim: Sim) -> None:
    """Raised replicas and a flipped budget change the NodePool, and none of its machines is Drifted."""
    await started(sim, controller=True)
    owner = owner_of("a")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        before = uids(sim, owner)
        workspace.scale(2)
        for nodes in ("1", "0", "1"):
            await pool_api_of(sim).set_drift_budget(owner.pool, nodes)
            await at_rest(sim, 600.0)
        await serves(sim, workspace)
        assert before < uids(sim, owner)
        assert len(uids(sim, owner)) == 2
        assert drifted(sim, owner) == []


def replacing(sim: Sim, owner: PoolOwner) -> bool:
    return len(pool_claims_of(sim, owner)) == owner.count + 1


def removing(sim: Sim, owner: PoolOwner) -> bool:
    return any(kaito_predicates.is_deleting(claim) for claim in pool_claims_of(sim, owner))


MOMENTS = pytest.mark.parametrize("moment", [replacing, removing], ids=lambda moment: moment.__name__)


@pytest.mark.parametrize("who", ["controller", "KAITO", "both"])
@MOMENTS
@simulated(**QUICK)
async def test_k19_a_restart_continues_the_roll(sim: Sim, moment: Callable[[Sim, PoolOwner], bool], who: str) -> None:
    """Of the controller, of KAITO or of both while a machine is replaced: each machine is replaced once."""
    await started(sim, controller=True)
    owners = [owner_of("a", 2), owner_of("b")]
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in owners]
    async with at_work(*actors):
        for actor in actors:
            await serves(sim, actor)
        await outdated(sim, *owners)
        before = set().union(*(uids(sim, owner) for owner in owners))
        poised = [Poised(sim, owner) for owner in owners]
        async with at_work(DriftController(pool_api_of(sim), actors)):
            await sim.until(lambda: any(moment(sim, owner) for owner in owners), HOUR_SECONDS, moment.__name__)
            if who == "controller":
                sim.replace_controller()
                await at_rest(sim, 60.0)
    if who == "both":
        sim.replace_controller()
    await started(sim)
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in owners]
    async with at_work(*actors, DriftController(pool_api_of(sim), actors)):

        def rolled() -> bool:
            found = [uids(sim, owner) for owner in owners]
            return not set().union(*found) & before and [len(one) for one in found] == [2, 1]

        await sim.until(rolled, 2 * HOUR_SECONDS, "all are new")
        await at_rest(sim, HOUR_SECONDS)
        assert all(budget(sim, owner) == "0" for owner in owners)
    assert [seen.least_ready for seen in poised] == [2, 1]
    assert [seen.most for seen in poised] == [3, 2]
    assert len({put.pool for put in sim.cloud.put_log if put.created}) == 6
    await sim.settled()


@simulated(**QUICK)
async def test_k19_a_budget_that_is_closed_meanwhile_leaves_no_surplus(sim: Sim) -> None:
    """KAITO's budget returns to 0 while a replacement starts: that one ends, and no other one begins."""
    await started(sim, controller=True)
    owner = owner_of("a", 2)
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        await outdated(sim, owner)
        before, seen = uids(sim, owner), Poised(sim, owner)
        await pool_api_of(sim).set_drift_budget(owner.pool, "1")
        await sim.until(lambda: replacing(sim, owner), 60.0, "a replacement starts")
        await pool_api_of(sim).set_drift_budget(owner.pool, "0")
        await sim.until(lambda: len(uids(sim, owner)) == 2, HOUR_SECONDS, "two machines")
        await at_rest(sim, HOUR_SECONDS)
        assert len(uids(sim, owner)) == 2
        assert len(uids(sim, owner) & before) >= 1
        assert (seen.least_ready, seen.most) == (2, 3)
        assert not any(taints(sim, claim) for claim in pool_claims_of(sim, owner))
        assert workspace.state == "ready"


@simulated(**QUICK)
async def test_k19_a_replacement_without_capacity_leaves_the_workspace_ready(sim: Sim) -> None:
    """KAITO sees enough ready claims and no error at any time; the roll continues when there is capacity."""
    await started(sim, controller=True)
    owner = owner_of("a")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        await outdated(sim, owner)
        before, seen = uids(sim, owner), Poised(sim, owner)
        fault = faults.capacity()
        sim.cloud.faults.append(fault)
        drift = DriftController(pool_api_of(sim), [workspace])
        async with at_work(drift):
            await sim.until(lambda: replacing(sim, owner), 60.0, "a replacement starts")
            await at_rest(sim, 2 * HOUR_SECONDS)
            assert before <= uids(sim, owner)
            assert (seen.least_ready, workspace.shown) == (1, "")
            assert workspace.state == "ready"
            sim.cloud.faults.remove(fault)
            await sim.until(lambda: len(drift.reported) == 2, 4 * HOUR_SECONDS, "the roll is complete")
        assert (seen.least_ready, seen.most) == (1, 2)
        assert not uids(sim, owner) & before
    await sim.settled()


@MOMENTS
@simulated(**QUICK)
async def test_k19_a_workspace_is_deleted_while_it_is_rolled(
    sim: Sim, moment: Callable[[Sim, PoolOwner], bool]
) -> None:
    """Old machine and replacement go with the NodePool."""
    await started(sim, controller=True)
    owner = owner_of("a")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        await outdated(sim, owner)
        await pool_api_of(sim).set_drift_budget(owner.pool, "1")
        await sim.until(lambda: moment(sim, owner), HOUR_SECONDS, moment.__name__)
        await workspace.delete()
    await sim.until(lambda: not pool_claims_of(sim, owner), 300.0, "its claims are gone")
    await sim.settled()
    assert sorted(sim.cloud.pools) == ["system", "theirs"]
    assert len({put.pool for put in sim.cloud.put_log if put.created}) == 2


@pytest.mark.parametrize("nodes", ["1", "0"])
@simulated(**QUICK, horizon_seconds=40 * 24 * HOUR_SECONDS)
async def test_k19_the_default_of_30_days_replaces_machines_first(sim: Sim, nodes: str) -> None:
    """A NodePool without `expireAfter` gets the default of the CRD: its machines are replaced as if they were Drifted,
    one at a time, and stay while the budget is 0.
    """
    await started(sim, controller=True)
    owner = owner_of("a", 2)
    body = kaito_nodepools.node_pool(owner, CLASSES, 2)
    del body["spec"]["template"]["spec"]["expireAfter"]
    body["spec"]["disruption"]["budgets"][0]["nodes"] = nodes
    await sim.apply(body)
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
    before = pool_claims_of(sim, owner)
    assert {claim["spec"]["expireAfter"] for claim in before} == {"720h"}
    await sim.stop_controller()
    await asyncio.sleep(30 * 24 * HOUR_SECONDS - HOUR_SECONDS)
    seen = Poised(sim, owner)
    await sim.start_controller("ctl1")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await at_rest(sim, HOUR_SECONDS / 2)
        assert uids(sim, owner) == {claim["metadata"]["uid"] for claim in before}
        await at_rest(sim, 4 * HOUR_SECONDS)
        assert workspace.state == "ready"
        old = {claim["metadata"]["uid"] for claim in before} & uids(sim, owner)
    assert len(uids(sim, owner)) == 2
    assert seen.least_ready == 2
    assert (len(old), seen.most) == ((0, 3) if nodes == "1" else (2, 2))
