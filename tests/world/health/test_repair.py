"""Node repair: dead Nodes are replaced; Nodes that may recover, or that fail together with others, are kept.

H1 to H8 are the rows of docs/references/karpenter.md#node-repair. All invariants are checked throughout.
"""

import asyncio
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import agentpool
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import ready
from tests.world.demand import node_class, node_pool
from tests.world.garbagecollection.common import fleet, one, upgrade, upgraded
from tests.world.harness import Sim, node_claim, simulated
from tests.world.kaito.common import OWNERS
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import replaced_once
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, claim_condition, events, node_name, pool_calls, refuse, run_pod

from .common import FIRST, annotations, deleted, node_of_first, replaced, report_to_node, uid_of, value

pytestmark = pytest.mark.matrix(quick=0)

NOT_READY = ("False", "NodeNotReady")


def repairs(metrics: Metrics) -> float:
    """How many claims were deleted to replace their Nodes."""
    name = "karpenter_nodeclaims_unhealthy_disrupted_total"
    return sum(s.value for family in metrics.registry.collect() for s in family.samples if s.name == name)


async def silent(sim: Sim, *names: str) -> None:
    """Make the Nodes of these claims NotReady and wait until the claims report it."""
    for name in names:
        sim.nodes.set_ready(node_name(sim, name), None)
    await sim.until(
        lambda: all(claim_condition(sim, "Initialized", name)[:2] == NOT_READY for name in names),
        10,
        "the conditions are set",
    )


# H1: just before, and just after


@simulated(azure=FAST)
async def test_h1_a_node_that_comes_back_in_time_stays(sim: Sim) -> None:
    """Not Ready for 9 min 50 s, then Ready: nothing is removed, and the claim is Ready again."""
    metrics = Metrics()
    await one(sim, metrics=metrics)
    node = node_name(sim)
    await silent(sim, NAME)
    await asyncio.sleep(9 * MINUTE + 45)
    sim.nodes.set_ready(node, True)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 30, "it is Ready again")
    await asyncio.sleep(30 * MINUTE)
    assert not deleted(sim)
    assert not annotations(sim)
    assert repairs(metrics) == 0
    await sim.settled(quiet_seconds=70)


@pytest.mark.parametrize("word", [False, None], ids=["False", "Unknown"])
@simulated(azure=FAST)
async def test_h1_a_node_that_stays_away_is_replaced(sim: Sim, word: bool | None) -> None:
    """After ten minutes the claim is deleted, with an Event and a metric; pool and Node are removed in order."""
    metrics = Metrics()
    uid = await one(sim, metrics=metrics)
    node = node_name(sim)
    sim.nodes.set_ready(node, word)
    await asyncio.sleep(10 * MINUTE - 2)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 10, "its claim is deleted")
    bound = annotations(sim)
    assert bound[labels.TERMINATION_TIMESTAMP] == bound[labels.REPAIR_DRAIN_UNTIL]
    await replaced(sim, uid)
    (reported,) = events(sim, "NodeRepair")
    assert (reported["involvedObject"]["uid"], reported["type"]) == (uid, "Warning")
    assert f"Node {node} has not been Ready" in reported["message"]
    assert "for 10 min" in reported["message"]
    assert repairs(metrics) == 1
    await sim.settled(quiet_seconds=70)


@pytest.mark.parametrize("late", [False, True], ids=["never", "late"])
@simulated(azure=FAST, nodes=NodeSettings(ready_seconds=(1e6, 1e6)))
async def test_a_node_that_is_never_ready(sim: Sim, late: bool) -> None:
    """The initialization deadline of 20 min reports it; ten minutes later it is replaced, unless it is Ready."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.nodes_of(NAME), 5 * MINUTE, "its Node is here")
    uid = uid_of(sim, NAME)
    await asyncio.sleep(29 * MINUTE)
    assert not deleted(sim)
    assert "overdue" in claim_condition(sim, "Initialized")[2]
    if late:
        sim.nodes.set_ready(node_name(sim), True)
        await asyncio.sleep(60 * MINUTE)
        assert not deleted(sim)
        return
    await replaced(sim, uid, within_seconds=8 * MINUTE)
    (stated,) = events(sim, "NodeRepair")
    assert "has not been Ready" in stated["message"]


# H2: what takes turns


@simulated(azure=FAST)
async def test_h2_alternation_of_false_and_unknown_is_one_failure(sim: Sim) -> None:
    """Ready alternates between False and Unknown every 30 s: the ten minutes are not restarted."""
    uid = await one(sim)
    node = node_name(sim)
    for turn in range(19):
        sim.nodes.set_ready(node, None if turn % 2 else False)
        await asyncio.sleep(30)
    assert not deleted(sim)
    sim.nodes.set_ready(node, None)
    await asyncio.sleep(20)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 15, "its claim is deleted in time")
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_h2_a_ready_node_restarts_the_time(sim: Sim) -> None:
    """A Node that is Ready for a moment every nine minutes is not replaced."""
    await one(sim)
    node = node_name(sim)
    for _ in range(4):
        sim.nodes.set_ready(node, False)
        await asyncio.sleep(9 * MINUTE)
        sim.nodes.set_ready(node, True)
        await asyncio.sleep(5)
    assert not deleted(sim)


# Restarts


@pytest.mark.parametrize("minute", [1, 9])
@simulated(azure=FAST)
async def test_a_restart_continues_the_time(sim: Sim, minute: int) -> None:
    """A new leader continues from the claim's condition, and watches for half of the ten minutes itself."""
    uid = await one(sim)
    begun = sim.now
    await silent(sim, NAME)
    await asyncio.sleep(minute * MINUTE)
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(begun + 10 * MINUTE - sim.now - 2)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 2 * MINUTE + max(0, minute - 5) * MINUTE, "its claim is deleted")
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_a_restart_after_long_absence_starts_the_time(sim: Sim) -> None:
    """If the Node failed while no controller ran, the ten minutes begin with the first observation."""
    uid = await one(sim)
    await sim.stop_controller()
    sim.nodes.set_ready(node_name(sim), None)
    await asyncio.sleep(60 * MINUTE)
    await sim.start_controller("ctl1")
    await asyncio.sleep(9 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=5 * MINUTE)


@pytest.mark.parametrize("back", [False, True], ids=["still away", "back by then"])
@simulated(azure=FAST)
async def test_a_crash_between_bound_and_deletion(sim: Sim, back: bool) -> None:
    """A new leader continues or, if the Node is Ready, removes the termination timestamp: it shortens drains."""
    uid = await one(sim)
    node = node_name(sim)

    async def die(call: Call, _: Any) -> None:
        if call.verb == "PATCH" and call.target.name == NAME and labels.REPAIR_DRAIN_UNTIL in annotations(sim):
            sim.world.after.remove(die)
            sim.crash()

    sim.world.after.append(die)
    await silent(sim, NAME)
    await sim.until(lambda: labels.REPAIR_DRAIN_UNTIL in annotations(sim), 11 * MINUTE, "the drain is bounded")
    if back:
        sim.nodes.set_ready(node, True)
    await sim.start_controller("ctl1")
    if back:
        await sim.until(lambda: not annotations(sim), 2 * MINUTE, "the bound is taken off")
        await sim.settled()
        assert not deleted(sim)
    else:
        await replaced(sim, uid, within_seconds=5 * MINUTE)


# H3, H7: the circuit breaker


@simulated(azure=FAST)
async def test_h3_two_of_five_go_one_after_the_other(sim: Sim) -> None:
    """The second claim is deleted when the first one is gone; until then it states what it waits for."""
    metrics = Metrics()
    names = await fleet(sim, 5, metrics=metrics)
    first, second = names[1], names[3]
    await silent(sim, first)
    await silent(sim, second)
    await sim.until(lambda: deleted(sim, first) or deleted(sim, second), 11 * MINUTE, "one of them is deleted")
    if deleted(sim, second):  # both became due at the same time
        first, second = second, first
    uids = uid_of(sim, first), uid_of(sim, second)
    # The first one no longer counts as soon as it is deleted.
    waits = "of 5 Nodes are unhealthy, repaired 1 at a time"
    await sim.until(
        lambda: waits in claim_condition(sim, "Initialized", second)[2], MINUTE, "the second claim states the cause"
    )
    assert value(metrics, "repairs_blocked") == 1
    (reported,) = events(sim, "NodeRepairBlocked")
    assert (reported["involvedObject"]["uid"], reported["type"]) == (uids[1], "Warning")
    await sim.until(lambda: deleted(sim, second) or sim.claim(first) is None, 5 * MINUTE, "one of the two goes on")
    assert sim.claim(first) is None
    assert not deleted(sim, second)
    await replaced(sim, uids[1], second)
    assert sorted(c["metadata"]["name"] for c in sim.store.list(CLAIMS)) == sorted({*names} - {first, second})
    assert repairs(metrics) == 2
    assert value(metrics, "repairs_blocked") == 0
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_h3_one_machine_of_an_owner_at_a_time(sim: Sim) -> None:
    """Of ten machines two may go at once: those of two owners, while the second one of an owner waits for the first."""
    await sim.start_controller()
    owners = {"kept0": "a", "kept1": "a", "other": "b"}
    names = [*owners, *(f"gpu{number}" for number in range(7))]
    for name in names:
        await sim.apply(node_claim(name, labels={labels.KAITO_WORKSPACE: owners.get(name, name)}))
    for name in names:
        await ready(sim, name)
    # Machines of an hour are not young: their repairs are not counted as failures of their image.
    await asyncio.sleep(61 * MINUTE)
    uids = {name: uid_of(sim, name) for name in owners}
    for name in owners:
        await silent(sim, name)
        await asyncio.sleep(5.0)
    await sim.until(lambda: deleted(sim, "kept0") and deleted(sim, "other"), 12 * MINUTE, "two are deleted")
    waits = "another machine of Workspace default/a is being replaced"
    await sim.until(
        lambda: waits in claim_condition(sim, "Initialized", "kept1")[2], MINUTE, "the third states the cause"
    )
    assert not deleted(sim, "kept1")
    await sim.until(lambda: deleted(sim, "kept1"), 15 * MINUTE, "the third is deleted")
    assert sim.claim("kept0") is None
    await replaced(sim, uids["kept1"], "kept1")
    await sim.settled(quiet_seconds=70)


@pytest.mark.matrix(quick=0)
@simulated(azure=FAST)
async def test_h3_four_of_five_within_ten_minutes_are_left_alone_until_most_are_back(sim: Sim) -> None:
    """Most Nodes fail together: none is replaced, each claim states why; if most recover, the rest is replaced."""
    metrics = Metrics()
    names = await fleet(sim, 5, metrics=metrics)
    nodes = {name: node_name(sim, name) for name in names}
    for name in names[:4]:
        await silent(sim, name)
        await asyncio.sleep(2 * MINUTE)
    uid = uid_of(sim, names[0])
    await asyncio.sleep(40 * MINUTE)
    assert not any(deleted(sim, name) for name in names)
    for name in names[:4]:
        assert claim_condition(sim, "Initialized", name)[2].endswith(
            "; repair delayed: 4 of 5 Nodes became unhealthy within 10 min; look for a common cause"
        )
    assert len(events(sim, "NodeRepairBlocked")) == 4
    assert value(metrics, "repairs_blocked") == 4
    for name in names[1:4]:
        sim.nodes.set_ready(nodes[name], True)
    await replaced(sim, uid, names[0])
    await sim.settled(quiet_seconds=70)
    assert {sim.condition(name, "Ready") for name in names[1:]} == {"True"}
    assert value(metrics, "repairs_blocked") == 0


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarted meanwhile"])
@pytest.mark.parametrize("count", [2, 6])
@simulated(azure=FAST)
async def test_h7_all_nodes_at_once_are_a_false_alarm(sim: Sim, count: int, restarts: bool) -> None:
    """All Nodes are NotReady at once: no claim is deleted, and all recover."""
    names = await fleet(sim, count)
    nodes = [node_name(sim, name) for name in names]
    await silent(sim, *names)
    if restarts:
        await asyncio.sleep(15 * MINUTE)
        sim.crash()
        await sim.start_controller("ctl1")
    await asyncio.sleep(90 * MINUTE)
    for node in nodes:
        sim.nodes.set_ready(node, True)
    await sim.until(lambda: all(sim.condition(n, "Ready") == "True" for n in names), 60, "all are Ready again")
    assert not any(deleted(sim, name) for name in names)
    await sim.settled(quiet_seconds=70)


# H5: AKS's own auto-repair


@simulated(azure=FAST)
async def test_h5_aks_repairs_the_node_itself(sim: Sim) -> None:
    """AKS reboots the Node from minute five to twelve: the controller does not replace it, and it recovers."""
    await one(sim)
    node = node_name(sim)
    await silent(sim, NAME)
    await asyncio.sleep(5 * MINUTE)
    report_to_node(sim, node, "NodeRebootStart")
    await asyncio.sleep(7 * MINUTE)
    report_to_node(sim, node, "NodeRebootEnd")
    await asyncio.sleep(MINUTE)
    assert not deleted(sim)
    sim.nodes.set_ready(node, True)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
    assert sim.condition(NAME, "Ready") == "True"


@simulated(azure=FAST)
async def test_h5_a_reboot_without_an_end_delays_repair_to_25_minutes(sim: Sim) -> None:
    """AKS reports the start of a reboot only: the Node is replaced after 25 minutes."""
    uid = await one(sim)
    await silent(sim, NAME)
    await asyncio.sleep(5 * MINUTE - 5)
    report_to_node(sim, node_name(sim), "NodeRebootStart")
    await asyncio.sleep(19 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=4 * MINUTE)


@simulated(azure=FAST)
async def test_h5_a_failed_repair_by_aks_ends_the_delay(sim: Sim) -> None:
    """AKS reports a failed repair: the ten minutes apply again."""
    uid = await one(sim)
    node = node_name(sim)
    await silent(sim, NAME)
    await asyncio.sleep(5 * MINUTE)
    report_to_node(sim, node, "NodeRebootStart")
    await asyncio.sleep(9 * MINUTE)
    assert not deleted(sim)
    report_to_node(sim, node, "NodeRebootError")
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_h5_repairs_by_aks_delay_for_an_hour_at_most(sim: Sim) -> None:
    """AKS starts one repair after the other: the Node is replaced after sixty minutes."""
    uid = await one(sim)
    node = node_name(sim)
    await silent(sim, NAME)
    for minutes, remedy in ((5, "Reboot"), (19, "Reimage"), (19, "Redeploy")):
        await asyncio.sleep(minutes * MINUTE)
        assert not deleted(sim)
        report_to_node(sim, node, f"Node{remedy}Start")
    await asyncio.sleep(16 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=4 * MINUTE)


@simulated(azure=FAST)
async def test_unreadable_events_delay_repair_by_15_minutes(sim: Sim) -> None:
    """Without permission to read Events a repair by AKS is assumed: the Node is replaced after 25 minutes."""
    uid = await one(sim)
    refuse(sim, lambda call: (call.verb, call.target.kind) == ("LIST", "events"), 403, "Forbidden")
    await silent(sim, NAME)
    await asyncio.sleep(24 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=4 * MINUTE)


# H6: KAITO


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "the controller restarts"])
@OWNERS
@simulated(azure=FAST)
async def test_h6_kaito_replaces_a_dead_machine_once(sim: Sim, owner: Owner, restarted: bool) -> None:
    """The claim of the dead machine is deleted, and KAITO creates one other; two machines never exist at a time."""
    await sim.start_controller(elect=False)
    async with replaced_once(sim, owner) as claim:
        sim.nodes.set_ready(node_name(sim, claim["metadata"]["name"]), None)
        if restarted:
            await asyncio.sleep(9 * MINUTE)
            sim.crash()
            await sim.start_controller("ctl1", elect=False)


# H8: pods; and annotations by users


@simulated(azure=FAST)
async def test_h8_do_not_disrupt_does_not_keep_a_dead_node(sim: Sim) -> None:
    """KAITO sets do-not-disrupt on every claim: the Node is repaired nevertheless."""
    uid = await one(sim)
    await sim.request(
        "PATCH",
        f"/apis/karpenter.sh/v1/nodeclaims/{NAME}",
        {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}},
        content_type="application/merge-patch+json",
    )
    await silent(sim, NAME)
    await asyncio.sleep(9 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid)


@pytest.mark.parametrize("word", [False, None], ids=["its kubelet answers", "its kubelet is silent"])
@simulated(azure=FAST)
async def test_h8_a_protected_pod_holds_a_dead_node_until_the_bound(sim: Sim, word: bool | None) -> None:
    """A pod with do-not-disrupt delays the drain by five minutes at most."""
    uid = await one(sim)
    run_pod(sim, "kept", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"})
    sim.nodes.set_ready(node_name(sim), word)
    await sim.until(lambda: deleted(sim), 11 * MINUTE, "its claim is deleted")
    begun = sim.now
    await sim.until(lambda: bool(pool_calls(sim, "DELETE")), 8 * MINUTE, "its pool is deleted")
    assert 4 * MINUTE < sim.now - begun < 7 * MINUTE
    await replaced(sim, uid)
    await sim.until(lambda: sim.store.get("pods", "kept", "default") is None, 10 * MINUTE, "the pod is gone too")


@simulated(azure=FAST)
async def test_repair_disabled_by_annotation(sim: Sim) -> None:
    """A dead Node with the annotation is kept; once the annotation is removed, it is replaced."""
    uid = await one(sim)
    path = f"/apis/karpenter.sh/v1/nodeclaims/{NAME}"
    merge = "application/merge-patch+json"
    await sim.request("PATCH", path, {"metadata": {"annotations": {labels.REPAIR: "disabled"}}}, content_type=merge)
    await silent(sim, NAME)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
    await sim.request("PATCH", path, {"metadata": {"annotations": {labels.REPAIR: None}}}, content_type=merge)
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_repair_disabled_by_its_gate(sim: Sim) -> None:
    """FEATURE_GATES without NodeRepair: a dead Node keeps its claim and machine, and the claim reports the Node."""
    await one(sim, policy=Policy(node_repair=False))
    await silent(sim, NAME)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
    assert claim_condition(sim, "Initialized")[:2] == NOT_READY


# Bad weather


@simulated(azure=FAST)
async def test_a_cluster_that_is_stopped_meanwhile(sim: Sim) -> None:
    """A Node fails, then the cluster is stopped for an hour: the machine is kept and has time to recover."""
    await one(sim)
    await silent(sim, NAME)
    await asyncio.sleep(8 * MINUTE)
    sim.cloud.stop_cluster()
    await asyncio.sleep(60 * MINUTE)
    sim.cloud.start_cluster()
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15 * MINUTE, "it is Ready again")
    assert not deleted(sim)
    assert len(pool_calls(sim, "PUT")) == 1


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("back", [False, True], ids=["stays away", "comes back"])
@simulated(azure=FAST)
async def test_a_pool_that_aks_works_on_meanwhile(sim: Sim, back: bool) -> None:
    """During an upgrade of an hour the Node is not replaced; its ten minutes begin when the operation ends."""
    uid = await one(sim)
    node = node_name(sim)
    await silent(sim, NAME)
    await asyncio.sleep(8 * MINUTE)
    upgrade(sim)
    await asyncio.sleep(60 * MINUTE)
    upgraded(sim)
    await asyncio.sleep(9 * MINUTE + 30)
    assert not deleted(sim)
    if not back:
        await replaced(sim, uid, within_seconds=4 * MINUTE)
        return
    sim.nodes.set_ready(node, True)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", MINUTE, "it is Ready again")
    await sim.settled()
    assert not deleted(sim)


@simulated(azure=FAST)
async def test_a_node_that_comes_back_at_the_last_moment_stays(sim: Sim) -> None:
    """The read before the removal finds the Node Ready: nothing is removed."""
    await one(sim)
    node = node_name(sim)

    async def come_back(call: Call, _: Any) -> None:
        if (call.who, call.verb, call.target.kind) == ("ctl0", "LIST", "nodes"):
            sim.world.before.remove(come_back)
            sim.nodes.set_ready(node, True)

    await silent(sim, NAME)
    sim.world.before.append(come_back)
    await asyncio.sleep(9 * MINUTE)
    assert claim_condition(sim, "Initialized")[:2] == NOT_READY
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 2 * MINUTE, "it is Ready again")
    await asyncio.sleep(20 * MINUTE)
    assert come_back not in sim.world.before
    assert not deleted(sim)
    assert not annotations(sim)


# A Node that is gone


@simulated(azure=FAST, gc_bound_seconds=1e9)
async def test_restarts_do_not_delay_the_replacement_of_a_machine_without_its_node(sim: Sim) -> None:
    """A controller that restarts each 8 minutes states the same time, and deletes the claim then."""
    await one(sim)
    node = node_name(sim)
    sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
    sim.store.delete("nodes", node)
    await sim.until(lambda: claim_condition(sim, "Initialized")[1] == "NodeLost", MINUTE, "it is reported")
    await asyncio.sleep(10)
    lost, reported = sim.now, claim_condition(sim, "Initialized")
    for number in range(1, 4):
        await asyncio.sleep(8 * MINUTE)
        sim.crash()
        await sim.start_controller(f"ctl{number}")
        await asyncio.sleep(30)
        assert not deleted(sim)
        assert claim_condition(sim, "Initialized") == reported
    await sim.until(lambda: deleted(sim), lost + 31 * MINUTE - sim.now, "its claim is deleted")


@pytest.mark.parametrize(
    "how",
    [
        "deleted while AKS updated its pool",
        "deleted by an update that failed",
        "stripped of its finalizer and deleted",
    ],
)
@simulated(azure=FAST, gc_bound_seconds=1e9)
async def test_a_machine_without_its_node_is_replaced(sim: Sim, how: str) -> None:
    """The condition says by when; the claim is deleted half an hour after its pool is at rest without the Node."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    node = node_name(sim)

    def change(state: str) -> None:
        pool = agentpool.settled(sim.cloud.pools[NAME], state, sim.cloud.lifecycle.guid())
        sim.cloud.pool_store.put("running", pool)

    if how.startswith("stripped"):
        sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
        sim.store.delete("nodes", node)
    else:
        change("Updating")
        await asyncio.sleep(70)
        await sim.delete_node(node)
        await asyncio.sleep(60)
        change("Failed" if how.endswith("failed") else "Succeeded")
    await asyncio.sleep(2 * MINUTE)
    reported = claim_condition(sim, "Initialized")
    assert reported[:2] == ("False", "NodeLost")
    assert "the claim is deleted at 1" in reported[2], reported
    await asyncio.sleep(25 * MINUTE)
    assert not deleted(sim)
    assert claim_condition(sim, "Initialized") == reported
    await sim.until(lambda: sim.claim(NAME) is None, 15 * MINUTE, "the claim is gone")
    assert deleted(sim)
    assert pool_calls(sim, "DELETE")


@simulated(azure=FAST)
async def test_budgets_do_not_delay_a_repair(sim: Sim) -> None:
    """The NodePool allows no disruption at all: its dead machine is replaced after ten minutes all the same."""
    await sim.apply(node_class())
    never = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    await sim.apply(node_pool(replicas=1, disruption=never))
    await sim.start_controller()
    await sim.until(lambda: sim.condition(FIRST, "Ready") == "True", 1800, "the machine")
    sim.nodes.set_ready(node_of_first(sim), None)
    await asyncio.sleep(10 * MINUTE - 5)
    assert "deletionTimestamp" not in (sim.claim(FIRST) or {})["metadata"]
    await sim.until(lambda: "deletionTimestamp" in (sim.claim(FIRST) or {})["metadata"], 20, "its claim is deleted")
    await sim.until(lambda: sim.claim(FIRST) is None, 1800, "the machine is gone")
    await sim.until(lambda: sim.condition("gpu-2", "Ready") == "True", 1800, "another machine")
