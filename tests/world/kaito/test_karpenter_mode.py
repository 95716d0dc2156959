"""K19: beside KAITO in karpenter mode, NodePools become machines that it recognizes, and go when it deletes them.

Each object is KAITO's own (`kaito_nodepools`), with the node classes of the example for its chart. Drift is in
`test_karpenter_drift.py`.

Source: docs/references/kaito.md#karpenter-mode, docs/references/kaito.md#contract (K19).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from provisioner.simulator.azure import faults
from tests.world import kaito_predicates
from tests.world.claims import word
from tests.world.harness import SIZE, Sim, crash_points, node_claim, simulate, simulated
from tests.world.kaito_actor import at_work
from tests.world.kaito_karpenter import NotStarted, PoolWorkspace, start
from tests.world.kaito_nodepools import PoolOwner
from tests.world.kaito_stage import (
    CLASSES,
    QUICK,
    Poised,
    pool_api_of,
    pool_claims_of,
    pool_of,
    serves,
    started,
)

pytestmark = pytest.mark.matrix(quick=1)

Json = dict[str, Any]

PHI = PoolOwner(name="workspace-phi-4", size=SIZE, count=2, labels={"apps": "phi-4"})
HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS
NODE_CLASS = "agentpoolnodeclasses.gpu-provisioner.sh"


async def at_rest(sim: Sim, seconds: float = 120.0) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some time passes")


@simulated(**QUICK)
async def test_k19_the_node_classes_are_ready_when_kaito_looks(sim: Sim) -> None:
    """KAITO creates what its values list and needs one look; a second start finds them and changes nothing."""
    await sim.start_controller()
    assert await start(pool_api_of(sim), CLASSES) <= 5.5
    for obj in CLASSES.objects():
        found = sim.store.get(NODE_CLASS, obj["metadata"]["name"])
        assert found["spec"].items() >= obj["spec"].items()
        assert found["metadata"]["labels"] == obj["metadata"]["labels"]
        assert word(found, "Ready")[0] == "True"
    await at_rest(sim)
    before = sim.store.list(NODE_CLASS)
    assert await start(pool_api_of(sim), CLASSES) < 1.0
    assert sim.store.list(NODE_CLASS) == before


@simulated(**QUICK)
async def test_k19_kaito_does_not_start_without_the_controller(sim: Sim) -> None:
    """Nobody makes its node class Ready within two minutes; the controller that starts then does."""
    with pytest.raises(NotStarted, match="not ready"):
        await start(pool_api_of(sim), CLASSES)
    await sim.start_controller()
    await started(sim)


@simulated(**QUICK)
async def test_k19_replicas_become_machines_that_kaito_recognizes(sim: Sim) -> None:
    """Two replicas are two claims and two Nodes with all labels from the first version on; KAITO's object stays as it
    was written.
    """
    await started(sim, controller=True)
    first_labels: dict[str, Json] = {}

    def note(event: str, resource: str, obj: Json, _: Json | None) -> None:
        if event == "ADDED" and resource in ("nodes", "nodeclaims.karpenter.sh"):
            first_labels[obj["metadata"]["name"]] = obj["metadata"].get("labels", {})

    sim.store.subscribe(note)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        written = await sim.until(lambda: pool_of(sim, PHI), 10.0, "the NodePool")
        await serves(sim, workspace)
        claims = pool_claims_of(sim, PHI)
        assert len(claims) == 2
        wanted = {**PHI.marks, **PHI.labels, "karpenter.sh/nodepool": PHI.pool}
        for claim in claims:
            name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
            assert first_labels[name].items() >= wanted.items()
            assert first_labels[node].items() >= wanted.items()
            (owner,) = claim["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"]) == ("NodePool", PHI.pool, written["metadata"]["uid"])
            assert claim["spec"]["expireAfter"] == "Never"
            (agent_pool,) = sim.pools_of(claim["metadata"]["uid"])
            assert agent_pool.properties["nodeLabels"].items() >= wanted.items()
            assert agent_pool.properties["nodeTaints"] == ["sku=gpu:NoSchedule"]
            assert agent_pool.properties["osDiskSizeGB"] == 1024
        await at_rest(sim, 600.0)
        found = pool_of(sim, PHI)
        assert (found["spec"], found["metadata"]["generation"]) == (written["spec"], 1)
        assert found["metadata"]["labels"] == written["metadata"]["labels"]
        assert (found["status"]["nodes"], word(found, "Ready")[0]) == (2, "True")
        assert [one["metadata"]["uid"] for one in pool_claims_of(sim, PHI)] == [c["metadata"]["uid"] for c in claims]
    await sim.settled()


LONG = PoolOwner(name="w" * 60, namespace="a-namespace-of-some-team", size=SIZE, labels={"apps": "long"})


@simulated(**QUICK)
async def test_k19_long_names_are_served(sim: Sim) -> None:
    """A NodePool of 63 characters, with KAITO's digest, and another one that begins with the same 53."""
    await started(sim, controller=True)
    other = PoolOwner(name=f"{LONG.name}-2", namespace=LONG.namespace, size=SIZE, labels={"apps": "other"})
    assert len(LONG.pool) == len(other.pool) == 63
    assert LONG.pool[:53] == other.pool[:53]
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in (LONG, other)]
    async with at_work(*actors):
        for actor in actors:
            await serves(sim, actor)
            assert len(pool_claims_of(sim, actor.owner)) == 1


@simulated(**QUICK)
async def test_k19_the_annotated_node_class_is_used(sim: Sim) -> None:
    """One that KAITO did not create keeps the Workspace waiting, and creates nothing."""
    await started(sim, controller=True)
    linux = PoolOwner(name="linux", size=SIZE, labels={"apps": "l"}, node_class="image-family-azure-linux")
    missing = PoolOwner(name="missing", size=SIZE, labels={"apps": "m"}, node_class="nobody")
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in (linux, missing)]
    async with at_work(*actors):
        await serves(sim, actors[0])
        (claim,) = pool_claims_of(sim, linux)
        assert sim.pools_of(claim["metadata"]["uid"])[0].properties["osSKU"] == "AzureLinux"
        assert actors[1].state == "node class nobody is not Ready"
        assert pool_of(sim, missing) is None


@simulated(**QUICK)
async def test_k19_replicas_are_raised_and_never_lowered(sim: Sim) -> None:
    """A PUT of the whole NodePool adds machines beside those that serve; a smaller Workspace changes nothing."""
    await started(sim, controller=True)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        before = {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
        poised = Poised(sim, PHI)
        workspace.scale(4)
        await sim.until(lambda: len(pool_claims_of(sim, PHI)) == 4, 15.0, "four claims")
        await serves(sim, workspace)
        assert before < {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
        workspace.scale(1)
        await at_rest(sim, HOUR_SECONDS)
        assert pool_of(sim, PHI)["spec"]["replicas"] == 4
        assert len(pool_claims_of(sim, PHI)) == 4
        assert poised.least_ready == 2


def no_claim(_: Sim, claims: list[Json]) -> bool:
    return not claims


def before_its_pool(sim: Sim, claims: list[Json]) -> bool:
    return len(claims) == 2 and not any(sim.pools_of(claim["metadata"]["uid"]) for claim in claims)


def creating(sim: Sim, claims: list[Json]) -> bool:
    return len(claims) == 2 and all(sim.pools_of(claim["metadata"]["uid"]) for claim in claims)


def registered(_: Sim, claims: list[Json]) -> bool:
    return any(word(claim, "Registered")[0] == "True" for claim in claims)


def one_ready(_: Sim, claims: list[Json]) -> bool:
    return any(kaito_predicates.is_ready(claim) for claim in claims)


def all_ready(_: Sim, claims: list[Json]) -> bool:
    return len(claims) == 2 and all(kaito_predicates.is_ready(claim) for claim in claims)


def one_deleting(_: Sim, claims: list[Json]) -> bool:
    return any(kaito_predicates.is_deleting(claim) for claim in claims)


PHASES = [no_claim, before_its_pool, creating, registered, one_ready, all_ready, one_deleting]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "with a restart"])
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
@simulated(**QUICK)
async def test_k19_the_deletion_of_the_nodepool_takes_its_machines_in_each_phase(
    sim: Sim, phase: Callable[[Sim, list[Json]], bool], restarted: bool
) -> None:
    """The NodePool is gone at once, its claims and machines follow, and none is created meanwhile; also when the
    controller is killed at that moment.
    """
    await started(sim, controller=True)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        if phase is one_deleting:
            await serves(sim, workspace)
            await sim.delete_claim(pool_claims_of(sim, PHI)[0]["metadata"]["name"])
        await sim.until(
            lambda: pool_of(sim, PHI) is not None and phase(sim, pool_claims_of(sim, PHI)), 900.0, phase.__name__
        )
    if restarted:
        sim.replace_controller()
    assert await workspace.delete() < 5.0
    existing = {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
    await sim.until(lambda: not pool_claims_of(sim, PHI), 300.0, "its claims are gone within five minutes")
    await sim.settled()
    made = {put.pool for put in sim.cloud.put_log}
    assert len(made) <= max(2, len(existing))
    assert sorted(sim.cloud.pools) == ["system", "theirs"]
    assert {node["metadata"]["labels"].get("agentpool") for node in sim.store.list("nodes")} == {"system", "theirs"}


@simulated(**QUICK)
async def test_k19_two_workspaces_do_not_disturb_each_other(sim: Sim) -> None:
    """They share the user's labels; each one counts its own machines, and keeps them while the other one goes."""
    await started(sim, controller=True)
    owners = [PoolOwner(name=name, size=SIZE, count=2, labels={"apps": "shared"}) for name in ("a", "b")]
    actors = [PoolWorkspace(pool_api_of(sim), owner, CLASSES) for owner in owners]
    async with at_work(actors[1]):
        async with at_work(actors[0]):
            for actor in actors:
                await serves(sim, actor)
        found = [{claim["metadata"]["uid"] for claim in pool_claims_of(sim, owner)} for owner in owners]
        assert [len(one) for one in found] == [2, 2]
        assert not found[0] & found[1]
        poised = Poised(sim, owners[1])
        await actors[0].delete()
        await sim.until(lambda: not pool_claims_of(sim, owners[0]), 300.0, "the first one is gone")
        await at_rest(sim)
        assert {claim["metadata"]["uid"] for claim in pool_claims_of(sim, owners[1])} == found[1]
        assert poised.least_ready == 2
        assert actors[1].state == "ready"


@pytest.mark.parametrize("moment", [before_its_pool, creating, one_ready], ids=lambda moment: moment.__name__)
@simulated(**QUICK)
async def test_k19_kaito_restarts_in_between(sim: Sim, moment: Callable[[Sim, list[Json]], bool]) -> None:
    """The next process finds its objects, writes none, and is served."""
    await started(sim, controller=True)
    async with at_work(PoolWorkspace(pool_api_of(sim), PHI, CLASSES)):
        await sim.until(lambda: moment(sim, pool_claims_of(sim, PHI)), 900.0, moment.__name__)
    await at_rest(sim, 20.0)
    await started(sim)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
    assert pool_of(sim, PHI)["metadata"]["generation"] == 1
    assert len(sim.cloud.put_log) == 2


@simulated(**QUICK)
async def test_k19_machines_that_exist_are_not_bought(sim: Sim) -> None:
    """A Node that the user brought and a claim of the direct mode lower the replicas; a machine of ours never counts
    as brought.
    """
    await started(sim, controller=True)
    owner = PoolOwner(name="w", size=SIZE, count=3, labels={"apps": "phi-4"})
    sim.cloud.seed_pool("brought", mode="User", vmSize=SIZE, nodeLabels=dict(owner.labels))
    await sim.apply(node_claim("ws1", labels={"kaito.sh/workspace": "w", **owner.labels}))
    await sim.until(lambda: len(sim.nodes_of("brought")) == 1, 120.0, "the Node that the user brought")
    await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 900.0, "the claim of the direct mode")
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        await at_rest(sim)
        assert pool_of(sim, owner)["spec"]["replicas"] == 1
        assert pool_of(sim, owner)["metadata"]["generation"] == 1
        assert len(pool_claims_of(sim, owner)) == 1


@simulated(**QUICK)
async def test_k19_a_workspace_that_is_created_again_gets_new_machines(sim: Sim) -> None:
    """While those of the NodePool with the same name, which are no longer counted, are drained and removed."""
    await started(sim, controller=True)
    old = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(old):
        await serves(sim, old)
    before = {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
    await old.delete()
    new = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(new):
        await serves(sim, new)
        await at_rest(sim, 300.0)
        after = {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
    assert (len(after), after & before) == (2, set())
    assert len(sim.cloud.put_log) == 4
    await sim.settled()


@simulated(**QUICK)
async def test_k19_a_machine_that_fails_is_shown_and_returns(sim: Sim) -> None:
    """KAITO shows the stage and the cause for the one machine, not for the healthy one, and neither is replaced."""
    await started(sim, controller=True)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        before = {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)}
        node = pool_claims_of(sim, PHI)[0]["status"]["nodeName"]
        sim.nodes.set_ready(node, False)
        await sim.until(lambda: workspace.shown.startswith("NodeNotReady: "), 10.0, "KAITO shows the cause")
        assert workspace.state == "claims are not ready"
        sim.nodes.set_ready(node, True)
        await serves(sim, workspace)
        assert workspace.shown == ""
        assert {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)} == before


async def pooled_life(sim: Sim) -> None:
    """A Workspace with one machine in karpenter mode, from its NodePool to the end of its machine."""
    await started(sim, controller=True)
    owner = PoolOwner(name="w", size=SIZE, labels={"apps": "w"})
    workspace = PoolWorkspace(pool_api_of(sim), owner, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
        assert len(pool_claims_of(sim, owner)) == 1
        await workspace.delete()
    await sim.until(lambda: not pool_claims_of(sim, owner), 300.0, "its claim is gone")
    await sim.settled()
    assert len({put.pool for put in sim.cloud.put_log if put.created}) == 1


@simulated(**QUICK, horizon_seconds=40 * DAY_SECONDS)
async def test_k19_machines_of_kaito_never_expire(sim: Sim) -> None:
    """Its client writes `Never` where Go has no value, so the default of 30 days does not apply."""
    await started(sim, controller=True)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        await serves(sim, workspace)
    before = pool_claims_of(sim, PHI)
    await sim.stop_controller()
    await asyncio.sleep(31 * DAY_SECONDS)
    await sim.start_controller("ctl1")
    await at_rest(sim, 2 * HOUR_SECONDS)
    assert [one["metadata"]["uid"] for one in pool_claims_of(sim, PHI)] == [one["metadata"]["uid"] for one in before]


@pytest.mark.matrix(quick=0)
def test_k19_a_crash_at_any_write_buys_one_machine_and_leaves_none() -> None:
    points = [point for point in crash_points(pooled_life, **QUICK) if point.reset]
    assert len(points) >= 30
    for point in points:
        simulate(pooled_life, crash=point, **QUICK)


@simulated(**QUICK)
async def test_k19_a_refused_quota_is_one_claim_for_each_replica_with_its_cause(sim: Sim) -> None:
    """For an hour the claims are the same, KAITO shows the cause, and the requests become rarer; then they launch."""
    sim.cloud.faults.append(faults.quota())
    await started(sim, controller=True)
    created: set[str] = set()

    def note(event: str, resource: str, obj: Json, _: Json | None) -> None:
        if event == "ADDED" and resource == "nodeclaims.karpenter.sh":
            created.add(obj["metadata"]["uid"])

    sim.store.subscribe(note)
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    async with at_work(workspace):
        await sim.until(lambda: "quota" in workspace.shown.lower(), 120.0, "KAITO shows the cause")
        await at_rest(sim, HOUR_SECONDS)
        assert len(created) == 2
        assert {word(claim, "Launched")[0] for claim in pool_claims_of(sim, PHI)} == {"False"}
        assert len(sim.audit_log.calls(verb="PUT", kind="pools")) <= 30
        sim.cloud.faults.clear()
        await serves(sim, workspace)
        assert workspace.shown == ""
        assert {claim["metadata"]["uid"] for claim in pool_claims_of(sim, PHI)} == created
