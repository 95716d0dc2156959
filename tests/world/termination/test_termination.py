"""Termination: the instance is deleted first, then the Node, then the claim; at every moment: test_removal_matrix.py.

All invariants are checked throughout; most tests end in `went`, which checks the order of deletion in the audit log.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import agentpool, errors, faults
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim, simulate, simulated
from tests.world.main_job import NAME, create_and_delete, gone
from tests.world.transcript import (
    BUDGETS,
    CLAIMS,
    FAST,
    MINUTE,
    claim_condition,
    deleting,
    events,
    finalizers,
    gaps,
    node_name,
    node_of,
    pool_calls,
    refuse,
    run_pod,
)

from .common import ELSEWHERE, NO_NODE, WHOLE, applied, being_created, failed, guard, up, went


@simulated(azure=FAST)
async def test_deleted_while_its_failed_pool_is_being_removed(sim: Sim) -> None:
    """It goes with that pool, and no other is created."""
    uid = await applied(sim)
    await failed(sim)
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Deleting", 60, "the failed pool is being removed")
    await sim.delete_claim(NAME)
    await went(sim, uid, NO_NODE)
    assert [call.status for call in pool_calls(sim, "PUT")] == [201]


@simulated(azure=FAST)
async def test_deleted_before_its_put(sim: Sim) -> None:
    """A claim that waits for a stopped cluster is removed without a PUT, once the pool's absence is confirmed."""
    sim.cloud.cluster_power = "Stopped"
    uid = await applied(sim)
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "ClusterNotRunning", 30, "it waits for the cluster")
    await sim.delete_claim(NAME)
    await went(sim, uid, ["claim"], within_seconds=75)
    assert not pool_calls(sim, "PUT")
    assert sim.audit_log.changes(kind="claim", uid=uid)[-1].at >= MINUTE


@simulated(azure=FAST)
async def test_deleted_while_the_pools_cannot_be_listed(sim: Sim) -> None:
    """Before the first successful list of pools a deleted claim keeps its finalizer; afterwards it is removed."""
    outage = Fault(verb="LIST", times=ALWAYS, answer=errors.html(503))
    sim.cloud.faults.append(outage)
    uid = await applied(sim)
    await asyncio.sleep(5)
    await sim.delete_claim(NAME)
    await asyncio.sleep(5 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER]
    sim.cloud.faults.remove(outage)
    await went(sim, uid, ["claim"])
    assert not pool_calls(sim, "PUT")


@pytest.mark.parametrize("seconds", [6.0, 20.0], ids=["answered late", "answered never, and applied after all"])
@simulated(azure=FAST)
async def test_deleted_while_its_put_is_in_flight(sim: Sim, seconds: float) -> None:
    """A PUT that is in flight when the claim is deleted leaves no pool behind, answered or not."""
    sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=seconds))
    uid = await applied(sim)
    await sim.until(lambda: pool_calls(sim, "PUT"), 5, "the PUT is on its way")
    await asyncio.sleep(2)
    assert not sim.pools_of(uid)
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    assert len(pool_calls(sim, "PUT")) == 1


@simulated(azure=FAST)
async def test_deleted_during_its_put(sim: Sim) -> None:
    """The finalizer is set before the PUT: a claim deleted while its PUT arrives is removed after its pool."""

    async def overtake(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.verb == "PUT" and not deleting(sim.claim(NAME)):
            sim.store.delete(CLAIMS, NAME)
        return None

    sim.world.before.append(overtake)
    uid = await applied(sim)
    await sim.until(lambda: not sim.claim(NAME), 400, "the claim is gone")
    assert sim.audit_log.deletion_order(uid) == WHOLE
    await sim.settled(quiet_seconds=70.0)


@simulated(azure=AzureSettings(create_seconds=(200.0, 200.0), delete_seconds=(30.0, 60.0)))
async def test_a_refused_delete_of_a_pool_being_created_is_sent_again(sim: Sim) -> None:
    """AKS refuses the DELETE during creation: retries after 5 s, doubling to 30 s, and the claim states the cause."""
    uid = await applied(sim)
    await being_created(sim)
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: claim_condition(sim, "InstanceTerminating")[1] == "OperationInProgress",
        10,
        "the claim states the cause",
    )
    status, _, message = claim_condition(sim, "InstanceTerminating")
    assert status == "Unknown"
    assert "in progress" in message
    await went(sim, uid, WHOLE)
    tries = pool_calls(sim, "DELETE")
    assert [call.status for call in tries] == [409] * (len(tries) - 1) + [202]
    assert gaps(tries)[:5] == [5, 10, 20, 30, 30]


@pytest.mark.parametrize(("get", "listing"), [(30.0, 0.0), (0.0, 30.0), (10.0, 25.0), (30.0, 30.0)])
def test_a_404_that_lags_behind_the_put_is_no_proof(get: float, listing: float) -> None:
    """GET and LIST lag behind a PUT independently: no finalizer is removed until one of them has caught up."""

    async def story(sim: Sim) -> None:
        uid = await applied(sim)
        await sim.until(lambda: sim.pools_of(uid), 5, "the pool is being created")
        await sim.delete_claim(NAME)
        await gone(sim)
        assert sim.audit_log.deletion_order(uid) in (WHOLE, NO_NODE)
        await sim.settled(quiet_seconds=70.0)

    azure = replace(FAST, create_seconds=(15.0, 20.0), get_lag_seconds=get, list_lag_seconds=listing)
    simulate(story, azure=azure)


@simulated(azure=AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0), delete_preempts=True))
async def test_a_pool_being_created_can_be_preempted(sim: Sim) -> None:
    """If AKS lets a DELETE preempt the creation, one DELETE is sent."""
    uid = await applied(sim)
    await being_created(sim)
    await sim.delete_claim(NAME)
    await went(sim, uid, NO_NODE, within_seconds=90)
    assert [call.status for call in pool_calls(sim, "DELETE")] == [202]


# Draining


@simulated(azure=FAST)
async def test_a_disruption_budget_holds_the_machine_and_is_named(sim: Sim) -> None:
    """A 429 of a budget is retried: Drained names pod and budget, and the pool is kept until the budget allows."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))
    guard(sim, "app")
    await sim.delete_claim(NAME)
    await sim.until(lambda: "default/app" in claim_condition(sim, "Drained")[2], 10, "Drained names the pod")
    status, reason, message = claim_condition(sim, "Drained")
    assert (status, reason) == ("Unknown", "Draining")
    assert "disruption budget guard" in message
    await asyncio.sleep(10 * MINUTE)
    assert not pool_calls(sim, "DELETE")
    assert deleting(node_of(sim))
    evicted = len(sim.audit_log.calls(verb="POST", kind="pods", name="app"))
    assert evicted <= 10 * MINUTE / 5 + 2
    sim.store.delete(BUDGETS, "guard", "default")
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_pods_leave_in_tiers(sim: Sim) -> None:
    """Pods are evicted in order: ordinary pods, DaemonSet pods, critical pods, critical DaemonSet pods; each once."""
    uid = await up(sim)
    node = node_name(sim)
    run_pod(sim, "critical-daemon", node, daemon=True, critical=True)
    run_pod(sim, "critical", node, critical=True)
    run_pod(sim, "daemon", node, daemon=True)
    run_pod(sim, "first", node)
    run_pod(sim, "second", node)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 60, "the Node is empty")
    assert not sim.store.list("pods", "default")
    evicted = [call.target.name for call in sim.audit_log.calls(verb="POST", kind="pods")]
    assert sorted(evicted[:2]) == ["first", "second"]
    assert evicted[2:] == ["daemon", "critical", "critical-daemon"]
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_pod_that_must_not_be_disrupted_holds_the_machine(sim: Sim) -> None:
    """A do-not-disrupt pod is not evicted; the machine is kept, and the passed deadline is reported once."""
    uid = await up(sim)
    run_pod(sim, "training", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"})
    await sim.delete_claim(NAME)
    await sim.until(lambda: "overdue" in claim_condition(sim, "Drained")[2], 16 * MINUTE, "the drain is overdue")
    assert "default/training" in claim_condition(sim, "Drained")[2]
    assert not pool_calls(sim, "DELETE")
    assert not sim.audit_log.calls(verb="POST", kind="pods")
    sim.store.delete("pods", "training", "default")
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_pods_that_stay_by_nature_hold_nothing_up(sim: Sim) -> None:
    """Pods that tolerate every taint and mirror pods are neither evicted nor waited for."""
    uid = await up(sim)
    node = node_of(sim)["metadata"]
    mirror = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}
    run_pod(sim, "agent", node["name"], tolerations=[{"operator": "Exists"}])
    run_pod(sim, "static", node["name"], ownerReferences=[mirror])
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 5, "the machine goes")
    assert not sim.audit_log.calls(verb="POST", kind="pods")
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_pods_of_a_dead_machine_do_not_hold_it_for_ever(sim: Sim) -> None:
    """On a dead machine, pods that are past their grace period by a minute no longer block the removal."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))
    sim.nodes.set_ready(node_name(sim), None)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 2 * MINUTE, "the machine goes all the same")
    assert sim.store.get("pods", "app", "default") is not None
    await went(sim, uid, WHOLE)


# Deletions by users


@simulated(azure=FAST)
async def test_a_node_deleted_by_hand_takes_pool_and_claim_along_at_once(sim: Sim) -> None:
    """Deletion of a Node deletes its claim within seconds, and the pool with it."""
    uid = await up(sim)
    await sim.delete_node(node_name(sim))
    requested_at = sim.now
    await sim.until(lambda: deleting(sim.claim(NAME)), 10, "the claim is deleted")
    await sim.until(lambda: pool_calls(sim, "DELETE"), 5, "its pool is deleted")
    assert sim.now - requested_at < 10
    await went(sim, uid, WHOLE)
    (reported,) = events(sim, "NodeDeleted")
    assert reported["type"] == "Warning"


@simulated(azure=FAST)
async def test_a_foreign_finalizer_on_the_node_is_respected(sim: Sim) -> None:
    """The controller removes its finalizer once the pool is gone; the claim stays until the Node is gone."""
    uid = await up(sim)
    node = node_name(sim)
    kept = {"metadata": {"finalizers": [*finalizers(node_of(sim)), "example.com/hold"]}}
    sim.store.patch("nodes", node, kept)
    await sim.delete_claim(NAME)
    await sim.until(lambda: finalizers(node_of(sim)) == ["example.com/hold"], 200, "ours is off")
    assert not sim.pools_of(uid)
    await asyncio.sleep(10 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER]
    sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
    await went(sim, uid, WHOLE, within_seconds=10)


@simulated(azure=FAST)
async def test_the_answer_of_a_write_to_a_node_proves_nothing_about_another_one(sim: Sim) -> None:
    """The watch lags, so that the cache lacks a second Node: the claim stays until a list or the watch has shown it."""
    await up(sim)
    first = node_of(sim)
    sim.world.api.freeze_view(sim.store.revision, consistent_lists=True, kinds=["nodes"])
    name = first["metadata"]["name"].removesuffix("0") + "1"
    second = {"metadata": {"name": name, "labels": first["metadata"]["labels"]}, "spec": {}}
    sim.store.create("nodes", second)
    await sim.delete_claim(NAME)
    await sim.until(lambda: [one["metadata"]["name"] for one in sim.nodes_of(NAME)] == [name], 400, "one is gone")
    await asyncio.sleep(5 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER]
    sim.world.api.thaw()
    await gone(sim)
    assert not sim.nodes_of(NAME)


@simulated(azure=FAST)
async def test_a_foreign_finalizer_on_the_claim_is_respected(sim: Sim) -> None:
    """The claim stays while another finalizer is set, and the controller writes nothing meanwhile."""
    uid = await up(sim)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": ["example.com/hold", labels.FINALIZER]}})
    await sim.delete_claim(NAME)
    await sim.until(lambda: finalizers(sim.claim(NAME)) == ["example.com/hold"], 200, "ours is off")
    await sim.settled(quiet_seconds=10 * MINUTE)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": None}})
    await went(sim, uid, WHOLE)


# Responses of Azure


LAGGING = AzureSettings(
    create_seconds=(60.0, 90.0), delete_seconds=(60.0, 90.0), list_lag_seconds=30.0, get_lag_seconds=30.0
)


@pytest.mark.parametrize("azure", [FAST, LAGGING], ids=["reads that are current", "reads that lag by 30 s"])
def test_a_pool_being_deleted_is_not_deleted_again(azure: AzureSettings) -> None:
    """One DELETE is sent, even if lists still show the pool in its previous state."""

    async def story(sim: Sim) -> None:
        uid = await up(sim)
        await sim.delete_claim(NAME)
        await went(sim, uid, WHOLE)
        assert [call.status for call in pool_calls(sim, "DELETE")] == [202]

    simulate(story, azure=azure)


@pytest.mark.matrix(quick=0)
@simulated(azure=FAST)
async def test_an_overdue_deletion_is_reported(sim: Sim) -> None:
    """A pool that is Deleting for more than 30 min is reported as overdue once; no finalizer is removed."""
    uid = await up(sim)
    sim.cloud.faults.append(Fault(verb="DELETE", operation_seconds=50 * MINUTE))
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await sim.until(lambda: "overdue" in claim_condition(sim, "InstanceTerminating")[2], 31 * MINUTE, "it is overdue")
    assert sim.now - requested_at == pytest.approx(30 * MINUTE, abs=2)
    await went(sim, uid, WHOLE, within_seconds=30 * MINUTE)
    assert len(pool_calls(sim, "DELETE")) == 1
    assert sum("overdue" in event["message"] for event in events(sim, "InstanceTerminating")) == 1


@pytest.mark.parametrize("back_to", ["Failed", "Succeeded"])
@simulated(azure=FAST)
async def test_an_accepted_delete_that_fails_is_repeated(sim: Sim, back_to: str) -> None:
    """After an accepted DELETE that fails, the DELETE is repeated; no finalizer is removed meanwhile."""
    uid = await up(sim)
    cause = faults.error("InternalOperationError", "the operation could not be completed")
    wait = ALWAYS if back_to == "Succeeded" else 40.0
    sim.cloud.faults.append(Fault(verb="DELETE", failure=Failure(error=cause, after_seconds=wait)))
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 10, "the DELETE was sent")
    await asyncio.sleep(39)
    if back_to == "Succeeded":
        pool = sim.cloud.pools[NAME]
        sim.cloud.pool_store.put("running", agentpool.settled(pool, "Succeeded", sim.cloud.lifecycle.guid()))
    await went(sim, uid, WHOLE)
    states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
    assert states[-4:] == ["Deleting", back_to, "Deleting", "gone"]
    assert [call.status for call in pool_calls(sim, "DELETE")] == [202, 202]


@pytest.mark.parametrize("drop", ["before", "after"])
@simulated(azure=FAST)
async def test_lost_answers_to_delete(sim: Sim, drop: str) -> None:
    """The pool and then the claim are removed, whether or not a DELETE took effect before its response was lost."""
    uid = await up(sim)
    sim.cloud.faults.append(Fault(verb="DELETE", times=3, drop=drop))
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_pool_that_changed_is_read_again_and_then_deleted(sim: Sim) -> None:
    """After a 412 the pool is read once and the DELETE is repeated with the new ETag."""
    uid = await up(sim)
    await asyncio.sleep(2 * MINUTE)
    sim.cloud.cluster_operation("Succeeded")
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    assert [call.status for call in pool_calls(sim, "DELETE")] == [412, 202]
    assert [call.status for call in pool_calls(sim, "GET")] == [200]


@simulated(azure=LAGGING)
async def test_a_pool_that_changed_but_reads_as_it_was(sim: Sim) -> None:
    """While reads lag behind the change, the DELETE is retried with backoff."""
    uid = await up(sim)
    await asyncio.sleep(2 * MINUTE)
    sim.cloud.cluster_operation("Succeeded")
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    tries = pool_calls(sim, "DELETE")
    assert [call.status for call in tries] == [412] * (len(tries) - 1) + [202]
    assert gaps(tries) == [5, 10, 20][: len(tries) - 1]


OUTAGES = [
    ("drops every connection", Fault(times=ALWAYS, drop="before")),
    ("answers 503", Fault(times=ALWAYS, answer=errors.html(503))),
]


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize(("case", "outage"), OUTAGES, ids=[row[0] for row in OUTAGES])
@pytest.mark.parametrize("begun", [False, True], ids=["before the DELETE", "while the pool is being deleted"])
@simulated(azure=FAST)
async def test_azure_is_away_for_half_an_hour(sim: Sim, case: str, outage: Fault, begun: bool) -> None:
    """While ARM does not respond no finalizer is removed and the claim states the cause; then removal completes."""
    uid = await up(sim)
    if begun:
        await sim.delete_claim(NAME)
        await sim.until(lambda: pool_calls(sim, "DELETE"), 10, "the DELETE was sent")
        await asyncio.sleep(1)
    sim.cloud.faults.append(outage)
    if not begun:
        await sim.delete_claim(NAME)
    await asyncio.sleep(31 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER], case
    assert [finalizers(node) for node in sim.nodes_of(NAME)] == [[labels.FINALIZER]]
    status, reason, message = claim_condition(sim, "InstanceTerminating")
    if begun:
        assert (status, reason) == ("True", "InstanceTerminating")
    else:
        assert (status, reason != "") == ("Unknown", True)
    assert "overdue" in message
    sim.cloud.faults.remove(outage)
    await went(sim, uid, WHOLE, within_seconds=10 * MINUTE)


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(("what", "answer"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
@simulated(azure=FAST)
async def test_a_404_of_something_else_never_means_gone(sim: Sim, what: str, answer: errors.Answer) -> None:
    """A 404 of the cluster, resource group or subscription does not prove that the pool is absent: all is kept."""
    uid = await up(sim)
    lost = Fault(times=ALWAYS, answer=answer)
    sim.cloud.faults.append(lost)
    await sim.delete_claim(NAME)
    await asyncio.sleep(45 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER], what
    assert labels.FINALIZER in finalizers(node_of(sim))
    assert claim_condition(sim, "InstanceTerminating")[0] == "Unknown"
    assert sim.pools_of(uid)
    sim.cloud.faults.remove(lost)
    await went(sim, uid, WHOLE, within_seconds=10 * MINUTE)


# Responses of the API server, and restarts


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (413, "RequestEntityTooLarge"), (422, "Invalid"), (500, "InternalError")]
)
@simulated(azure=FAST)
async def test_refused_status_writes_do_not_hold_a_removal(sim: Sim, status: int, reason: str) -> None:
    """A claim whose status cannot be written is removed, and the refused write is retried with backoff."""
    uid = await up(sim)
    refuse(sim, lambda call: call.target.subresource == "status" and call.verb == "PATCH", status, reason)
    begun = len(sim.audit_log.entries)
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    later = list(sim.audit_log.entries)[begun:]
    tries = [call for call in later if call in sim.audit_log.writes() and call.target.subresource == "status"]
    assert len(tries) <= (5 if status < 500 else 20)


@simulated(azure=FAST)
async def test_a_restart_with_an_empty_memory_waits_a_minute_before_it_believes_a_404(sim: Sim) -> None:
    """A PUT of the previous leader may be in flight: a new leader accepts an absence 60 s after it starts leading."""
    uid = await up(sim)
    await asyncio.sleep(5)
    await sim.stop_controller()
    sim.cloud.delete_pool_by_hand(NAME)
    await sim.delete_claim(NAME)
    await asyncio.sleep(5 * MINUTE)
    started = sim.now
    await sim.start_controller("ctl1")
    await went(sim, uid, WHOLE, within_seconds=90)
    released = [call for call in sim.audit_log.writes(who="ctl1") if call.target.kind == "nodeclaims"][-1]
    assert MINUTE <= released.at - started <= 75


@simulated(azure=FAST)
async def test_a_restart_in_the_middle_of_a_removal_goes_on_where_it_was(sim: Sim) -> None:
    """A new leader that finds the pool Deleting sends no second DELETE and completes the removal in order."""
    uid = await up(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 10, "the DELETE was sent")
    await asyncio.sleep(1)
    await sim.stop_controller()
    await sim.start_controller("ctl1")
    await went(sim, uid, WHOLE)
    assert len(pool_calls(sim, "DELETE")) == 1


# Figures


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("node_share", [(0.9, 0.95), (1.05, 1.1)], ids=["Node first", "pool first"])
def test_a_life_costs_few_calls(seed: int, node_share: tuple[float, float]) -> None:
    """PUT and DELETE besides the shared LIST; twelve or thirteen writes, three reads and three Events."""
    ledger = simulate(create_and_delete, seed=seed, azure=AzureSettings(node_share=node_share)).world.audit_log
    about_pools = [call.verb for call in ledger.calls(who="ctl0", system="arm", kind="pools") if call.verb != "LIST"]
    assert about_pools == ["PUT", "DELETE"]
    writes = [call for call in ledger.writes(who="ctl0") if call.system == "kube"]
    pool_first = node_share[0] > 1  # Launched is True before the Node exists
    assert len(writes) <= 12 + pool_first
    assert len(ledger.calls(who="ctl0", system="kube", verb="POST", kind="events")) == 3
    reads = Counter(call.target.kind for call in ledger.calls(who="ctl0", system="kube", verb="LIST"))
    caches = Counter({"agentpoolnodeclasses", "nodeclaims", "nodeoverlays", "nodepools", "nodes"})
    caches["customresourcedefinitions"] = 4  # each is read by its name
    assert reads - caches == Counter({"pods", "volumeattachments"})
    assert len(ledger.calls(who="ctl0", system="kube", verb="GET", kind="customresourcedefinitions")) == 1
