"""A pass that fails again and again is reported on the NodeClaim, whatever its cause."""

import asyncio

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from tests.world.claims import condition, events, ready
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.main_job import NAME
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
async def test_a_watch_that_lags_behind_own_writes_delays_nothing(sim: Sim) -> None:
    """No watch shows what is written from the report on: the answers do, and no write is refused or repeated."""
    mend = refuse(sim, _changes_node, 500, "InternalError", "no webhook answers")
    frozen = list[int]()

    def lag(_: str, resource: str, claim: Json, __: Json | None) -> None:
        if resource == CLAIMS and condition(claim, "Stalled") and not frozen:
            frozen.append(int(claim["metadata"]["resourceVersion"]) - 1)
            sim.world.api.freeze_view(frozen[0], consistent_lists=True, kinds=[CLAIMS])

    sim.store.subscribe(lag)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Stalled") == "True", 10 * MINUTE, "the failure is reported")
    mend()
    await ready(sim, NAME)
    await sim.until(lambda: not sim.condition(NAME, "Stalled"), MINUTE, "the condition is removed")
    assert not [call for call in sim.audit_log.writes(who="ctl0") if call.status == 409]


@simulated(azure=FAST)
async def test_a_node_that_the_watch_does_not_show_is_written_to_once(sim: Sim) -> None:
    """The cache shows the answer; nothing is read for it."""
    frozen = list[int]()

    def lag(_: str, resource: str, node: Json, __: Json | None) -> None:
        if resource == "nodes" and labels.REGISTERED in node["metadata"].get("labels", {}) and not frozen:
            frozen.append(int(node["metadata"]["resourceVersion"]) - 1)
            sim.world.api.freeze_view(frozen[0], consistent_lists=True, kinds=["nodes"])

    sim.store.subscribe(lag)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: bool(frozen), 20 * MINUTE, "the Node is registered")
    await asyncio.sleep(10 * MINUTE)
    assert sum(_changes_node(call) and call.who == "ctl0" for call in sim.audit_log.writes()) == 1
    assert not [call for call in sim.audit_log.calls(kind="nodes") if call.verb == "GET"]


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
