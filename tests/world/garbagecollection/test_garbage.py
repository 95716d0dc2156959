"""Garbage collection: orphaned pools and Nodes are removed within minutes; what only appears orphaned is kept.

All invariants are checked throughout, in particular I7 (nothing of a healthy claim is deleted). A test that keeps a
pool without a claim for longer than the bound of I1 sets `NO_BOUND`.
"""

import asyncio
from dataclasses import replace
from typing import Any, Literal

import pytest
from aiohttp import web

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.commands import command
from tests.world.harness import SIZE, Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME
from tests.world.transcript import (
    CLAIMS,
    FAST,
    MINUTE,
    claim_condition,
    deleting,
    events,
    finalizers,
    node_name,
    node_of,
    pool_calls,
    run_pod,
    strip,
)

from .common import FOREIGN, LEGACY, NO_BOUND, deletes, fleet, heal, one, upgrade, upgraded


async def collected(sim: Sim, uid: str, within_seconds: float = 5 * MINUTE) -> None:
    """Wait until the pool of a removed claim, and then its Node, are gone."""
    await sim.until(lambda: not sim.pools_of(uid) and not sim.nodes_of(NAME), within_seconds, "the orphan is collected")
    assert sim.audit_log.deletion_order(uid) == ["claim", "pool", "node"]
    assert sorted(sim.cloud.pools) == FOREIGN
    await sim.settled(quiet_seconds=70)


# Orphans


@simulated(azure=FAST)
async def test_a_pool_whose_claim_was_stripped_is_collected_with_its_node(sim: Sim) -> None:
    """After the finalizer is removed by hand, pool and Node are collected within minutes, with an Event."""
    uid = await one(sim)
    strip(sim, NAME)
    await collected(sim, uid)
    (reported,) = events(sim, "LeakedPoolDeleted")
    assert reported["involvedObject"]["name"] == NAME
    assert reported["involvedObject"]["uid"] == uid


@simulated(azure=FAST)
async def test_a_pool_whose_claim_vanished_while_nobody_looked(sim: Sim) -> None:
    """A controller that finds an owned pool without a claim at its start collects it."""
    uid = await one(sim)
    await sim.stop_controller()
    strip(sim, NAME)
    await asyncio.sleep(10 * MINUTE)
    await sim.start_controller("ctl1")
    await collected(sim, uid)


@simulated(azure=FAST)
async def test_a_claim_made_anew_under_the_name_of_an_orphan(sim: Sim) -> None:
    """The claim waits, with a message, until the pool of the earlier claim is collected; then it gets its own."""
    uid = await one(sim)
    strip(sim, NAME)
    await sim.apply(node_claim(NAME))
    await sim.until(
        lambda: claim_condition(sim, "Launched")[1] == "PreviousPoolLeft", 30, "the claim states what it waits for"
    )
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15 * MINUTE, "it gets its own machine")
    claim = sim.claim(NAME)
    assert claim is not None
    assert claim["metadata"]["uid"] != uid
    assert not sim.pools_of(uid)
    assert len(pool_calls(sim, "PUT")) == 2
    await sim.settled(quiet_seconds=70)


@pytest.mark.parametrize("what", ["collect", "report"])
@simulated(azure=FAST)
async def test_a_pool_left_by_the_predecessor(sim: Sim, what: Literal["collect", "report"]) -> None:
    """A pool of Azure/gpu-provisioner without a claim is collected or kept, as configured."""
    sim.cloud.seed_pool("old", vmSize=SIZE, nodeLabels=LEGACY)
    await sim.start_controller(policy=Policy(legacy_pools=what))
    await asyncio.sleep(15 * MINUTE)
    kept = what == "report"
    assert ("old" in sim.cloud.pools) is kept
    assert bool(sim.nodes_of("old")) is kept
    assert deletes(sim) == ([] if kept else ["old"])


STRANGERS = [
    ("a user pool of theirs", {"mode": "User"}),
    ("a pool with KAITO's workspace label only", {"nodeLabels": {labels.KAITO_WORKSPACE: "w"}}),
    ("a pool with some of the predecessor's labels", {"nodeLabels": {labels.NODEPOOL: "kaito"}}),
    ("a system pool with all of them", {"mode": "System", "nodeLabels": LEGACY}),
    ("a pool with somebody else's tags", {"tags": {"nodeclaim": NAME, "owner": "gpu-provisioner"}}),
]


@pytest.mark.parametrize(("case", "wire"), STRANGERS, ids=[row[0] for row in STRANGERS])
@simulated(azure=FAST)
async def test_foreign_pools_are_never_touched(sim: Sim, case: str, wire: dict[str, Any]) -> None:
    """Pools without the controller's ownership tags are not collected, whatever else they have, nor are their Nodes."""
    sim.cloud.seed_pool("strange", **{"vmSize": SIZE, **wire})
    await one(sim)
    begun = len(sim.audit_log.writes(who="ctl0"))
    await asyncio.sleep(10 * MINUTE)
    assert len(sim.audit_log.writes(who="ctl0")) == begun, case
    assert sorted(sim.cloud.pools) == sorted(["strange", NAME, *FOREIGN])


@pytest.mark.parametrize("heedless", [False, True], ids=["AKS heeds preconditions", "AKS ignores preconditions"])
def test_a_foreign_pool_is_never_put(heedless: bool) -> None:
    """A claim with the name of a foreign pool gets no pool and states why; its deletion does not affect the pool."""

    async def story(sim: Sim) -> None:
        sim.cloud.seed_pool(NAME, vmSize=SIZE)
        await sim.start_controller()
        await sim.apply(node_claim(NAME))
        await sim.until(
            lambda: claim_condition(sim, "Launched")[:2] == ("False", "PoolNameTaken"), 30, "the condition is set"
        )
        await asyncio.sleep(20 * MINUTE)
        await sim.delete_claim(NAME)
        await sim.until(lambda: sim.claim(NAME) is None, 2 * MINUTE, "the claim is gone")
        assert sim.cloud.pools[NAME].state == "Succeeded"
        assert not pool_calls(sim, "PUT")
        assert not deletes(sim)

    simulate(story, azure=replace(FAST, ignore_preconditions=heedless))


@simulated(azure=FAST)
async def test_a_foreign_pool_that_came_unseen_is_never_put(sim: Sim) -> None:
    """A foreign pool created just before the PUT: the precondition fails, and the claim states why."""
    await sim.start_controller()
    await asyncio.sleep(10)

    async def overtake(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.verb == "PUT" and NAME not in sim.cloud.pools:
            sim.cloud.seed_pool(NAME, vmSize=SIZE)
        return None

    sim.world.before.append(overtake)
    await sim.apply(node_claim(NAME))
    await sim.until(
        lambda: claim_condition(sim, "Launched")[:2] == ("False", "PoolNameTaken"), 30, "the condition is set"
    )
    assert [call.status for call in pool_calls(sim, "PUT")] == [412]
    await asyncio.sleep(10 * MINUTE)
    assert len(pool_calls(sim, "PUT")) == 1


# The circuit breaker


def restricted(metrics: Metrics) -> float:
    """The metric that an alert on restricted removals uses."""
    return metrics.registry.get_sample_value("gpu_provisioner_removals_restricted") or 0.0


@simulated(azure=FAST, **NO_BOUND)
async def test_the_circuit_breaker_keeps_everything_when_too_much_would_go(sim: Sim) -> None:
    """Ten claims lose their finalizers at once: the circuit breaker opens and nothing is removed."""
    metrics = Metrics()
    names = await fleet(sim, 10, metrics=metrics)
    assert restricted(metrics) == 0
    for name in names:
        strip(sim, name)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert len(sim.nodes.machines) == 10 + len(FOREIGN)
    assert restricted(metrics) == 1
    assert metrics.registry.get_sample_value("gpu_provisioner_removal_candidates") == 10
    reported = events(sim, "RemovalRestricted")
    assert sorted({event["involvedObject"]["name"] for event in reported}) == names


@simulated(azure=FAST, **NO_BOUND)
async def test_a_removal_that_waits_for_a_user_costs_no_reads(sim: Sim) -> None:
    """Five agent pools are deleted by hand: while a user has not confirmed, agent pools are listed each minute."""
    names = await fleet(sim, 5)
    for name in names:
        sim.cloud.delete_pool_by_hand(name)
    await sim.until(lambda: events(sim, "RemovalRestricted"), 20 * MINUTE, "the circuit breaker opens")
    await asyncio.sleep(20 * MINUTE)
    before = len(sim.audit_log.calls(who="ctl0", verb="LIST", kind="pools"))
    await asyncio.sleep(60 * MINUTE)
    assert len(sim.audit_log.calls(who="ctl0", verb="LIST", kind="pools")) - before <= 62
    assert (await command(sim, "gc", "--confirm", "--yes")).code == 0
    await sim.until(lambda: all(sim.claim(name) is None for name in names), 15 * MINUTE, "the claims go")


@simulated(azure=FAST)
async def test_a_few_of_many_go(sim: Sim) -> None:
    """Two claims of ten lose their finalizers: their pools go, and no other."""
    names = await fleet(sim, 10)
    for name in names[:2]:
        strip(sim, name)
    await sim.until(lambda: len(sim.cloud.pools) == 8 + len(FOREIGN), 5 * MINUTE, "two pools are collected")
    await sim.settled(quiet_seconds=10 * MINUTE)
    assert sorted(deletes(sim)) == names[:2]
    assert all(sim.condition(name, "Ready") == "True" for name in names[2:])


@simulated(azure=FAST, **NO_BOUND)
async def test_the_circuit_breaker_does_not_trickle(sim: Sim) -> None:
    """Inferred removals within ten minutes are counted together: claims stripped one by one open it as well."""
    names = await fleet(sim, 8)
    for name in names:
        strip(sim, name)
        await asyncio.sleep(1.5 * MINUTE)
    assert len(deletes(sim)) <= 3
    await asyncio.sleep(20 * MINUTE)
    assert len(deletes(sim)) <= 3


@simulated(azure=FAST, **NO_BOUND)
async def test_requested_removals_are_never_restricted(sim: Sim) -> None:
    """Claims that are deleted by users are removed while the circuit breaker restricts inferred removals."""
    names = await fleet(sim, 9)
    for name in names[:4]:
        strip(sim, name)
    await asyncio.sleep(5 * MINUTE)
    assert not deletes(sim)
    for name in names[4:]:
        await sim.delete_claim(name)
    await sim.until(lambda: not sim.store.list(CLAIMS), 10 * MINUTE, "all claims are gone")
    assert sorted(sim.cloud.pools) == sorted([*names[:4], *FOREIGN])


# Inferred removals that have to wait


def fail_lists(sim: Sim) -> None:
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.html(503)))


def lose_cluster(sim: Sim) -> None:
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.cluster_not_found("rg", "aks")))


HELD_BACK = [
    ("while the cluster is stopped", lambda sim: sim.cloud.stop_cluster(), lambda sim: sim.cloud.start_cluster()),
    ("while AKS upgrades the pool", upgrade, upgraded),
    ("while the pools cannot be listed", fail_lists, heal),
    ("while the list is answered with a 404", lose_cluster, heal),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(("case", "begin", "end"), HELD_BACK, ids=[row[0] for row in HELD_BACK])
@simulated(azure=FAST, **NO_BOUND)
async def test_an_orphan_waits(sim: Sim, case: str, begin: Any, end: Any) -> None:
    """An orphan is kept while its absence cannot be confirmed, and collected afterwards."""
    uid = await one(sim)
    begin(sim)
    await asyncio.sleep(MINUTE)
    strip(sim, NAME)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim), case
    assert sim.pools_of(uid)
    end(sim)
    await sim.until(lambda: not sim.pools_of(uid), 20 * MINUTE, "the orphan is collected")
    await sim.until(lambda: not sim.nodes_of(NAME), 5 * MINUTE, "its Node is gone")
    await sim.settled(quiet_seconds=70)


MISLED = [
    ("empty", errors.Answer(200, {"value": []})),
    ("failing", errors.html(502)),
    ("404", errors.parent_not_found("read", FAST.cluster_id)),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(("case", "answer"), MISLED, ids=[row[0] for row in MISLED])
@pytest.mark.parametrize("count", [1, 5])
@simulated(azure=FAST)
async def test_lists_of_pools_that_do_not_show_ours(sim: Sim, case: str, answer: errors.Answer, count: int) -> None:
    """A list without the owned pools proves nothing: no claim, Node or pool is deleted, and all claims stay Ready."""
    names = await fleet(sim, count)
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=answer))
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim), case
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    assert all(sim.condition(name, "Ready") == "True" for name in names)
    assert len(pool_calls(sim, "PUT", None)) == count
    heal(sim)
    await sim.settled(quiet_seconds=3 * MINUTE)
    assert len(sim.cloud.pools) == count + len(FOREIGN)


# Stale responses of the API server


def hide_claims(sim: Sim, who: str) -> None:
    """Answer lists of claims with an empty list, like a server with a stale cache."""

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        if (call.who, call.verb, call.target.kind) != (who, "LIST", "nodeclaims"):
            return None
        meta = {"resourceVersion": str(sim.store.revision)}
        return web.json_response(
            {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList", "metadata": meta, "items": []}
        )

    sim.world.before.append(answer)


@pytest.mark.parametrize("readable", [True, False], ids=["a GET shows it", "nothing can be read"])
@simulated(azure=FAST)
async def test_a_stale_list_of_claims_deletes_nothing(sim: Sim, readable: bool) -> None:
    """A pool whose claim is missing from a stale list is kept: a GET of the claim finds it, or fails."""
    await one(sim)
    await sim.stop_controller()
    hide_claims(sim, "ctl1")
    if not readable:
        break_reads(sim)
    await sim.start_controller("ctl1")
    await asyncio.sleep(20 * MINUTE)
    assert not sim.audit_log.writes(who="ctl1")
    assert sim.audit_log.calls(who="ctl1", verb="GET", kind="nodeclaims", name=NAME)


def break_reads(sim: Sim) -> None:
    """Fail every GET of a claim."""

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        if (call.verb, call.target.kind) != ("GET", "nodeclaims") or not call.who.startswith("ctl"):
            return None
        return web.json_response({"kind": "Status", "code": 500, "reason": "InternalError"}, status=500)

    sim.world.before.append(answer)


# Many Nodes that disappear at once


@pytest.mark.matrix(quick=0)
@simulated(azure=FAST, **NO_BOUND)
async def test_claims_restored_under_new_uids_lose_no_machine(sim: Sim) -> None:
    """A restored backup gives every claim a new UID, and Kubernetes deletes the owned Nodes: all machines are kept.

    The circuit breaker is open: a user has to adopt the pools.
    """
    names = await fleet(sim, 6)
    before = {name: sim.claim(name) for name in names}
    for name in names:
        strip(sim, name)
        old = before[name]
        assert old is not None
        sim.store.create(CLAIMS, {**old, "metadata": {"name": name, "labels": old["metadata"]["labels"]}})
    await sim.until(lambda: all(deleting(node_of(sim, name)) for name in names), 60, "Kubernetes deletes all Nodes")
    puts = len(pool_calls(sim, "PUT", None))
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT", None)) == puts
    assert all(finalizers(node_of(sim, name)) == [labels.FINALIZER] for name in names)
    assert len(sim.nodes.machines) == len(names) + len(FOREIGN)
    assert {claim_condition(sim, "Launched", name)[1] for name in names} == {"PreviousPoolLeft"}
    assert events(sim, "RemovalRestricted")


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("count", [1, 2, 6])
@simulated(azure=FAST)
async def test_nodes_deleted_in_bulk_while_the_cluster_is_stopped(sim: Sim, count: int) -> None:
    """The node manager deletes the Nodes of a stopped cluster: pools and claims are kept and recover."""
    names = await fleet(sim, count)
    uids = [(sim.claim(name) or {})["metadata"]["uid"] for name in names]
    sim.cloud.stop_cluster()
    await sim.until(lambda: not any(sim.nodes_of(name) for name in names), 10 * MINUTE, "the Nodes are let go")
    lost = ("False", "NodeLost")
    await sim.until(
        lambda: all(claim_condition(sim, "Initialized", n)[:2] == lost for n in names), 60, "the conditions are set"
    )
    assert {sim.condition(name, "Ready") for name in names} == {"False"}
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert len(sim.store.list(CLAIMS)) == count
    sim.cloud.start_cluster()
    await sim.until(
        lambda: all(sim.condition(name, "Ready") == "True" for name in names), 15 * MINUTE, "all are Ready again"
    )
    assert [(sim.claim(name) or {})["metadata"]["uid"] for name in names] == uids
    assert len(pool_calls(sim, "PUT", None)) == count
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_all_nodes_deleted_by_hand_trip_the_circuit_breaker(sim: Sim) -> None:
    """`kubectl delete nodes --all` in a running cluster opens the circuit breaker, and no machine is removed."""
    names = await fleet(sim, 6)
    for name in names:
        await sim.delete_node(node_name(sim, name))
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    assert all(finalizers(node_of(sim, name)) == [labels.FINALIZER] for name in names)
    assert {claim_condition(sim, "Initialized", name)[:2] for name in names} == {("False", "NodeLost")}


@simulated(azure=FAST)
async def test_pools_deleted_in_the_portal_by_the_dozen_keep_their_claims(sim: Sim) -> None:
    """All pools disappear at once: the claims are kept, not Ready, until a user confirms the removals."""
    names = await fleet(sim, 6)
    for name in names:
        sim.cloud.delete_pool_by_hand(name)
    await asyncio.sleep(20 * MINUTE)
    assert len(sim.store.list(CLAIMS)) == len(names)
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    assert {sim.condition(name, "Ready") for name in names} == {"False"}
    assert len(pool_calls(sim, "PUT", None)) == len(names)
    for name in names:
        await sim.delete_claim(name)
    await sim.until(lambda: not sim.store.list(CLAIMS), 5 * MINUTE, "all claims are removed")
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST, **NO_BOUND)
async def test_an_orphan_is_not_held_by_its_pods_for_good(sim: Sim) -> None:
    """After the drain timeout even protected pods of an orphaned Node are deleted."""
    await one(sim)
    is_do_not_disrupt_active: dict[str, Any] = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    run_pod(sim, "app", node_name(sim, NAME), **is_do_not_disrupt_active)
    strip(sim, NAME)
    await asyncio.sleep(10 * MINUTE)
    assert deletes(sim) == [], "its pod has the time that any drain has"
    await sim.until(lambda: NAME not in sim.cloud.pools, 20 * MINUTE, "the pool is gone")
    await sim.settled()
