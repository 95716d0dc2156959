"""Draining: which pods are evicted, which are deleted, which block the removal, and what is reported.

Each case of docs/references/karpenter.md#drain; tiers, one budget, pods that stay and dead machines are in
`tests/unit/controllers/planner/test_plan.py`.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import versions
from tests.world.harness import EPOCH, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import (
    BUDGETS,
    CLAIMS,
    FAST,
    MINUTE,
    claim_condition,
    deleting,
    finalizers,
    gaps,
    node_name,
    node_of,
    pool_calls,
    refuse,
    run_pod,
)

from .common import WHOLE, budget, counted, events_on, evictions, slow, up, up_with, went


def moment(sim: Sim, seconds: float = 0.0) -> str:
    """The time that many seconds from now, in the format of Kubernetes."""
    return (EPOCH + timedelta(seconds=sim.now + seconds)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def started(sim: Sim, name: str) -> None:
    """Set the pod's start time to now, as the kubelet does."""
    sim.store.patch("pods", name, {"status": {"startTime": moment(sim)}}, "default", subresource="status")


def deletes(sim: Sim, name: str) -> list[Call]:
    """The DELETE requests of the controller for that pod."""
    return sim.audit_log.calls(who="ctl0", verb="DELETE", kind="pods", name=name)


# What refuses


@simulated(azure=FAST)
async def test_two_budgets_on_one_pod_are_named_and_waited_for(sim: Sim) -> None:
    """The API server answers 500 if two budgets select a pod: recognized by the message, and retried."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))
    budget(sim, "one", "app")
    budget(sim, "two", "app")
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: "more than one PodDisruptionBudget" in claim_condition(sim, "Drained")[2], 10, "Drained is set"
    )
    assert "default/app" in claim_condition(sim, "Drained")[2]
    await asyncio.sleep(5 * MINUTE)
    assert [call.status for call in evictions(sim, "app")] == [500] * len(evictions(sim, "app"))
    assert len(evictions(sim, "app")) <= 5 * MINUTE / 5 + 2
    assert not pool_calls(sim, "DELETE")
    sim.store.delete(BUDGETS, "one", "default")
    sim.store.delete(BUDGETS, "two", "default")
    await went(sim, uid, WHOLE)
    assert events_on(sim, "FailedDraining")[0][0] == "Node"


@simulated(azure=FAST)
async def test_a_failing_eviction_is_reported_and_repeated_with_backoff(sim: Sim) -> None:
    """Any other 500 is reported on the claim and retried with backoff, and does not block other pods."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))
    run_pod(sim, "other", node_name(sim))

    def of_app(call: Call) -> bool:
        return call.target.subresource == "eviction" and call.target.name == "app"

    mend = refuse(sim, of_app, 500, "InternalError", "Internal error occurred: no webhook")
    await sim.delete_claim(NAME)
    await sim.until(lambda: "no webhook" in claim_condition(sim, "Drained")[2], 10, "Drained states the cause")
    await sim.until(lambda: sim.store.get("pods", "other", "default") is None, 10, "the other pod has left")
    await asyncio.sleep(5 * MINUTE)
    waits = gaps(evictions(sim, "app"))
    assert waits[:4] == sorted(waits[:4])
    assert max(waits) <= 70
    assert len(waits) < 12
    mend()
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_pod_that_must_not_be_disrupted_for_a_while(sim: Sim) -> None:
    """do-not-disrupt as a duration blocks eviction until the pod has run that long; the claim states the end."""
    uid = await up(sim)
    run_pod(sim, "training", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "10m"})
    started(sim, "training")
    since = sim.now
    await sim.delete_claim(NAME)
    await sim.until(lambda: "do-not-disrupt until" in claim_condition(sim, "Drained")[2], 10, "Drained states the end")
    await sim.until(lambda: evictions(sim, "training"), 11 * MINUTE, "its time is over")
    assert 10 * MINUTE - 1 <= sim.now - since <= 10 * MINUTE + 7
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_an_invalid_do_not_disrupt_is_ignored_and_reported_on_the_pod(sim: Sim) -> None:
    """A value that is neither true nor a duration is ignored, and an Event on the pod reports it."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "1day"})
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    assert events_on(sim, "InvalidDoNotDisruptAnnotation") == [("Pod", "app")]
    assert events_on(sim, "Evicted") == [("Pod", "app")]


@simulated(azure=FAST)
async def test_a_pod_made_anew_under_the_same_name_is_not_evicted_by_mistake(sim: Sim) -> None:
    """An eviction states the pod's UID: a new pod of the same name is evicted only by its own request."""
    uid = await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)

    async def replace(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.target.subresource == "eviction":
            sim.world.before.remove(replace)
            sim.store.delete("pods", "app", "default", grace=0)
            run_pod(sim, "app", node)
        return None

    sim.world.before.append(replace)
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    assert [call.status for call in evictions(sim, "app")] == [409, 201]


@simulated(azure=FAST)
async def test_a_pod_bound_just_after_the_taint_is_evicted_too(sim: Sim) -> None:
    """A pod that is bound by a scheduler with a stale cache is evicted before the machine is deleted."""
    uid = await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)
    await sim.delete_claim(NAME)
    await sim.until(lambda: evictions(sim, "app"), 5, "the first pod is evicted")
    began = sim.now
    await sim.until(lambda: sim.store.get("pods", "app", "default") is None, 5, "it has left")
    assert not pool_calls(sim, "DELETE")
    run_pod(sim, "late", node)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 30, "the machine goes")
    assert len(evictions(sim, "late")) == 1
    assert sim.now - began >= 4
    await went(sim, uid, WHOLE)


# The termination time


@simulated(azure=FAST, nodes=NodeSettings(pod_stop_seconds=600.0))
async def test_a_pods_grace_longer_than_the_claims_is_cut_short(sim: Sim) -> None:
    """A pod with a grace period of ten minutes and a claim of two: the pod is deleted at once with the time left."""
    uid = await up_with(sim, "2m")
    slow(sim, "app", node_name(sim), 600)
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await sim.until(lambda: deletes(sim, "app"), 5, "it is deleted")
    pod = sim.store.get("pods", "app", "default")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == pytest.approx(120, abs=2)
    annotation = sim.claim(NAME)["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP]
    assert annotation == moment(sim, 120 - (sim.now - requested_at))
    await sim.until(lambda: pool_calls(sim, "DELETE"), 130, "the machine goes")
    assert sim.now - requested_at == pytest.approx(120, abs=8)
    assert len(deletes(sim, "app")) == 1
    await went(sim, uid, WHOLE)
    assert events_on(sim, "Disrupted") == [("Pod", "app")]
    assert {kind for kind, _ in events_on(sim, "TerminationGracePeriodExpiring")} == {"Node", "NodeClaim"}


@pytest.mark.parametrize("kind", ["do-not-disrupt", "budget"])
@simulated(azure=FAST)
async def test_a_pod_that_may_stay_stays_until_the_claims_time_is_nearly_over(sim: Sim, kind: str) -> None:
    """Budgets and do-not-disrupt apply until the pod's grace period before the termination time; then it is deleted."""
    uid = await up_with(sim, "5m")
    annotations = {labels.DO_NOT_DISRUPT: "true"} if kind == "do-not-disrupt" else {}
    run_pod(sim, "app", node_name(sim), annotations=annotations)
    if kind == "budget":
        budget(sim, "guard", "app")
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await sim.until(lambda: deletes(sim, "app"), 6 * MINUTE, "it is deleted")
    assert sim.now - requested_at == pytest.approx(5 * MINUTE - 10, abs=2)
    await went(sim, uid, WHOLE)
    assert [call.status for call in deletes(sim, "app")] == [200]


@simulated(azure=FAST, nodes=NodeSettings(pod_stop_seconds=600.0))
async def test_a_termination_time_that_is_over_leaves_a_second(sim: Sim) -> None:
    """A termination timestamp set by a user is kept, even in the past: pods are deleted with a grace of one second."""
    uid = await up_with(sim, "1h")
    slow(sim, "app", node_name(sim), 600, annotations={labels.DO_NOT_DISRUPT: "true"})
    past = moment(sim, -600)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: past}}})
    await sim.delete_claim(NAME)
    await sim.until(lambda: deletes(sim, "app"), 5, "it is deleted")
    pod = sim.store.get("pods", "app", "default")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
    assert sim.claim(NAME)["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP] == past
    await went(sim, uid, WHOLE)
    assert len(deletes(sim, "app")) == 1


@simulated(azure=FAST)
async def test_an_invalid_termination_timestamp_is_reported_and_ignored(sim: Sim) -> None:
    """An invalid timestamp is ignored; the claim's terminationGracePeriod applies."""
    uid = await up_with(sim, "3m")
    run_pod(sim, "app", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"})
    sim.store.patch(CLAIMS, NAME, {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: "soon"}}})
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await sim.until(lambda: events_on(sim, "InvalidTerminationTimestamp"), 10, "it is reported")
    await sim.until(lambda: deletes(sim, "app"), 4 * MINUTE, "it is deleted")
    assert sim.now - requested_at == pytest.approx(3 * MINUTE - 10, abs=2)
    assert sim.claim(NAME)["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP] == "soon"
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_restart_forgets_no_termination_time(sim: Sim) -> None:
    """The termination time is an annotation of the claim: a new leader deletes the pod at the same time."""
    uid = await up_with(sim, "5m")
    run_pod(sim, "app", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"})
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await asyncio.sleep(MINUTE)
    await sim.stop_controller()
    await sim.start_controller("ctl1")
    await sim.until(lambda: deleting(sim.store.get("pods", "app", "default")), 6 * MINUTE, "it is deleted")
    assert sim.now - requested_at == pytest.approx(5 * MINUTE - 10, abs=2)
    await went(sim, uid, WHOLE)


# What is reported


@simulated(azure=FAST)
async def test_an_event_of_each_pod_states_why_it_ended(sim: Sim) -> None:
    """Evicted, or deleted because the time of the claim was nearly over."""
    uid = await up_with(sim, "5m")
    run_pod(sim, "app", node_name(sim))
    run_pod(sim, "kept", node_name(sim), annotations={"karpenter.sh/do-not-disrupt": "true"})
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    found = sim.store.list("events", fields="involvedObject.kind=Pod")
    stated = {
        (one["involvedObject"]["name"], one["reason"]) for one in found if one["reason"] in {"Evicted", "Disrupted"}
    }
    assert stated == {("app", "Evicted"), ("kept", "Disrupted")}


@pytest.mark.parametrize("entry", ["claim", "node"])
@simulated(azure=FAST)
async def test_a_removal_reports_its_progress(sim: Sim, entry: str) -> None:
    """Drained becomes Unknown and True, VolumesDetached and InstanceTerminating True, wherever the removal began."""
    seen = versions(sim, NAME)
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))
    await (sim.delete_claim(NAME) if entry == "claim" else sim.delete_node(node_name(sim)))
    await went(sim, uid, WHOLE)
    course: dict[str, list[str]] = {}
    for version in seen:
        status = (version.obj or {}).get("status") or {}
        for found in status.get("conditions") or ():
            stood = course.setdefault(found["type"], [])
            if not stood or stood[-1] != found["status"]:
                stood.append(found["status"])
    assert course["Drained"] == ["Unknown", "True"]
    assert course["VolumesDetached"] == ["True"]
    assert course["InstanceTerminating"] == ["True"]
    writes = sim.audit_log.writes(who="ctl0")
    of_status = [call.at for call in writes if call.target.subresource == "status" and call.target.name == NAME]
    assert len([at for at in of_status if at >= pool_calls(sim, "DELETE")[0].at]) <= 3


@simulated(azure=FAST, nodes=NodeSettings(pod_stop_seconds=600.0))
async def test_pods_that_merely_leave_cost_no_status_writes(sim: Sim) -> None:
    """Thirty pods that terminate one after the other cause one status write."""
    uid = await up(sim)
    for number in range(30):
        slow(sim, f"app{number}", node_name(sim), 5 + number)
    before = len(sim.audit_log.writes(who="ctl0"))
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 120, "the machine goes")
    later = list(sim.audit_log.writes(who="ctl0"))[before:]
    assert len([call for call in later if call.target.subresource == "status"]) == 1
    assert len([call for call in later if call.target.subresource == "eviction"]) == 30
    await went(sim, uid, WHOLE)


@simulated(azure=FAST, nodes=NodeSettings(pod_stop_seconds=3600.0))
async def test_a_late_drain_names_the_pods_that_merely_leave(sim: Sim) -> None:
    """After the drain deadline, terminating pods are named too, with the time by which they terminate."""
    metrics = Metrics()
    await sim.start_controller(metrics=metrics)
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    uid = sim.claim(NAME)["metadata"]["uid"]
    slow(sim, "app", node_name(sim), 20 * 60)
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await sim.until(lambda: "overdue" in claim_condition(sim, "Drained")[2], 16 * MINUTE, "the drain is overdue")
    assert sim.now - requested_at == pytest.approx(15 * MINUTE, abs=7)
    assert "default/app: terminates by" in claim_condition(sim, "Drained")[2]
    await went(sim, uid, WHOLE, within_seconds=20 * MINUTE)
    assert counted(metrics, "draining") == 1


@simulated(azure=FAST)
async def test_a_node_kept_by_another_finalizer_is_reported(sim: Sim) -> None:
    """If another finalizer keeps the Node after its machine is gone, the claim names it and is overdue later."""
    metrics = Metrics()
    await sim.start_controller(metrics=metrics)
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    uid = sim.claim(NAME)["metadata"]["uid"]
    node = node_name(sim)
    sim.store.patch("nodes", node, {"metadata": {"finalizers": [*finalizers(node_of(sim)), "example.com/hold"]}})
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: claim_condition(sim, "InstanceTerminating")[1] == "InstanceTerminated", 200, "the condition is set"
    )
    reported_at, (status, _, message) = sim.now, claim_condition(sim, "InstanceTerminating")
    assert status == "False"
    assert "example.com/hold" in message
    assert node in message
    await sim.until(lambda: "overdue" in claim_condition(sim, "InstanceTerminating")[2], 11 * MINUTE, "it is overdue")
    assert sim.now - reported_at == pytest.approx(10 * MINUTE, abs=2)
    await asyncio.sleep(1)  # the deadline is recorded after the condition
    sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
    await went(sim, uid, WHOLE)
    assert counted(metrics, "releasing") == 1


@simulated(azure=FAST)
async def test_a_finalizer_that_cannot_be_removed_is_reported(sim: Sim) -> None:
    """The API server refuses the write: the claim states its message, retries back off, and the removal completes."""
    uid = await up(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 10, "the machine goes")
    tries: list[float] = []
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}

    async def forbid(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.target.kind == "nodes" and call.verb == "PATCH" and b"finalizers" in await request.read():
            tries.append(call.at)
            return web.json_response({**body, "message": "nodes is forbidden: says a policy"}, status=403)
        return None

    sim.world.before.append(forbid)
    await sim.until(
        lambda: "says a policy" in claim_condition(sim, "InstanceTerminating")[2], 200, "the claim states the cause"
    )
    await asyncio.sleep(10 * MINUTE)
    assert len(tries) <= 16
    sim.world.before.remove(forbid)
    await went(sim, uid, WHOLE)


@pytest.mark.parametrize("status", [403, 500, 503])
@pytest.mark.parametrize("verb", ["PATCH", "DELETE"])
@pytest.mark.parametrize("period", ["", "10m"], ids=["no deadline", "a deadline"])
@simulated(azure=FAST)
async def test_a_node_that_cannot_be_written_does_not_hold_a_drain(
    sim: Sim, status: int, verb: str, period: str
) -> None:
    """Its pods are evicted without the taint, the cause is on the claim, and the machine goes by the deadline."""
    uid = await (up_with(sim, period) if period else up(sim))
    run_pod(sim, "app", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"} if period else {})

    def of_node(call: Call) -> bool:
        return call.verb == verb and call.target.kind == "nodes" and not pool_calls(sim, "DELETE")

    refuse(sim, of_node, status, "Forbidden" if status == 403 else "InternalError", "says a policy")
    if not period:
        refuse(sim, lambda call: call.target.subresource == "eviction", 429, "TooManyRequests", "a budget")
    await sim.delete_claim(NAME)
    await sim.until(lambda: "says a policy" in claim_condition(sim, "Drained")[2], 2 * MINUTE, "the claim states it")
    assert ("app" in claim_condition(sim, "Drained")[2]) or not period
    if not period:
        sim.world.before.pop()
    await sim.until(lambda: pool_calls(sim, "DELETE"), 12 * MINUTE, "the machine goes")
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_unreadable_pods_hold_the_machine_and_are_reported(sim: Sim) -> None:
    """Without permission to list pods the Node does not count as drained; the claim names the permission."""
    uid = await up(sim)
    run_pod(sim, "app", node_name(sim))

    def of_pods(call: Call) -> bool:
        return call.verb in ("GET", "LIST") and call.target.kind == "pods"

    allow = refuse(sim, of_pods, 403, "Forbidden", "pods is forbidden: no rule")
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: "no rule" in claim_condition(sim, "Drained")[2], 10, "the claim names the missing permission"
    )
    await asyncio.sleep(5 * MINUTE)
    assert not pool_calls(sim, "DELETE")
    allow()
    await went(sim, uid, WHOLE)
    assert [call.status for call in evictions(sim, "app")] == [201]


@simulated()
async def test_the_clock_of_these_stories_is_the_worlds(sim: Sim) -> None:
    """`moment` uses the controller's clock."""
    await asyncio.sleep(90)
    assert moment(sim) == datetime(2026, 3, 1, 12, 1, 30, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Evictions that are answered by others than the API server


ANSWERS: dict[str, Callable[[], web.Response]] = {
    "404 of a proxy": lambda: web.Response(status=404, text="404 page not found", content_type="text/plain"),
    "409 of a webhook": lambda: web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Conflict",
            "code": 409,
            "message": 'admission webhook "x" denied the request: try again',
        },
        status=409,
    ),
    "accepted without effect": lambda: web.json_response(
        {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}, status=201
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
@simulated(azure=FAST)
async def test_a_pod_that_does_not_terminate_is_evicted_again(sim: Sim, what: str) -> None:
    """Whatever the answer to its eviction: only NotFound of that pod, or a list without it, proves that it is gone."""
    await up(sim)
    run_pod(sim, "app", node_name(sim))
    answers = [ANSWERS[what]]

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        evicts = call.target.subresource == "eviction" and call.who.startswith("ctl")
        return answers.pop()() if evicts and answers else None

    sim.world.before.append(answer)
    await sim.delete_claim(NAME)
    await sim.until(lambda: sim.claim(NAME) is None, 600, "the claim is gone")
    assert len(evictions(sim, "app")) == 2
