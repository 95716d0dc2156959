"""A pass that fails again and again is reported on the NodeClaim, whatever its cause."""

import asyncio

from controllers.planner.plan import OWN_WRITE_SECONDS
from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from tests.world.claims import condition, events, ready
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.nodeclaim.test_main_job import NAME
from tests.world.transcript import CLAIMS, FAST, refuse

MINUTE = 60.0


def _changes_node(call: Call) -> bool:
    return call.verb == "PATCH" and call.target.kind == "nodes"


@simulated(azure=FAST)
async def test_a_pass_that_keeps_failing_is_reported_until_one_succeeds(sim: Sim) -> None:
    """Condition and Event state the error once; both the condition and the cause are gone after the recovery."""
    mend = refuse(sim, _changes_node, 500, "InternalError", "no webhook answers")
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Stalled") == "True", 10 * MINUTE, "the failure is reported")
    await asyncio.sleep(30 * MINUTE)
    claim = sim.claim(NAME)
    assert claim is not None
    (stalled,) = [one for one in claim["status"]["conditions"] if one["type"] == "Stalled"]
    assert stalled["reason"] == "ReconcileFailed"
    assert "no webhook answers" in stalled["message"]
    assert len([one for one in events(sim, NAME) if one["reason"] == "ReconcileFailed"]) == 1
    mend()
    await ready(sim, NAME)
    await sim.until(lambda: not sim.condition(NAME, "Stalled"), MINUTE, "the condition is removed")


@simulated(azure=FAST)
async def test_no_pass_is_planned_while_the_cache_does_not_show_the_report(sim: Sim) -> None:
    """The report is an own write: while a watch lags behind it, nothing is written before the claim is read again."""
    mend = refuse(sim, _changes_node, 500, "InternalError", "no webhook answers")

    def lag(_: str, resource: str, claim: Json, __: Json | None) -> None:
        if resource == CLAIMS and condition(claim, "Stalled"):
            before = int(claim["metadata"]["resourceVersion"]) - 1
            sim.world.api.freeze_view(before, consistent_lists=True, kinds=[CLAIMS])

    sim.store.subscribe(lag)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Stalled") == "True", 10 * MINUTE, "the failure is reported")
    mend()
    before = sum(not call.is_bookkeeping for call in sim.audit_log.writes(who="ctl0"))
    await asyncio.sleep(OWN_WRITE_SECONDS - 2.0)
    assert sum(not call.is_bookkeeping for call in sim.audit_log.writes(who="ctl0")) == before
    sim.world.api.thaw()
    await ready(sim, NAME)


@simulated(azure=FAST)
async def test_a_report_does_not_end_the_wait_for_another_own_write(sim: Sim) -> None:
    """The cache does not show a write to the Node, which cannot be read: the Node is not written to again."""
    frozen = list[int]()

    def lag(_: str, resource: str, node: Json, __: Json | None) -> None:
        if resource == "nodes" and labels.REGISTERED in node["metadata"].get("labels", {}) and not frozen:
            frozen.append(int(node["metadata"]["resourceVersion"]) - 1)
            sim.world.api.freeze_view(frozen[0], consistent_lists=True, kinds=["nodes"])

    def reads_node(call: Call) -> bool:
        return call.verb == "GET" and call.target.kind == "nodes" and bool(frozen)

    sim.store.subscribe(lag)
    refuse(sim, reads_node, 500, "InternalError", "etcd is slow")
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Stalled") == "True", 20 * MINUTE, "the failure is reported")
    await asyncio.sleep(10 * MINUTE)
    assert sum(_changes_node(call) and call.who == "ctl0" for call in sim.audit_log.writes()) == 1


@simulated(azure=FAST)
async def test_few_failures_are_not_reported(sim: Sim) -> None:
    """A short outage of the API server leaves no condition."""
    mend = refuse(sim, _changes_node, 500, "InternalError", "no webhook answers")
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(
        lambda: any(_changes_node(call) for call in sim.audit_log.calls(kind="nodes")), 10 * MINUTE, "a refusal"
    )
    mend()
    await ready(sim, NAME)
    assert not sim.condition(NAME, "Stalled")
    assert not [one for one in events(sim, NAME) if one["reason"] == "ReconcileFailed"]
