"""A pass that fails again and again is reported on the NodeClaim, whatever its cause."""

import asyncio

from provisioner.simulator.audit_log import Call
from tests.world.claims import events, ready
from tests.world.harness import Sim, node_claim, simulated
from tests.world.nodeclaim.test_main_job import NAME
from tests.world.transcript import FAST, refuse

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
