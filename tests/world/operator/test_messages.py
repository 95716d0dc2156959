"""The check of messages can fail: a reason that no page explains is planted and must be a violation."""

import pytest

from controllers.model.conditions import ConditionUpdate
from controllers.nodeclaim.lifecycle import launch
from provisioner.simulator.invariants import InvariantError
from tests.world.claims import ready
from tests.world.harness import node_claim, simulate
from tests.world.messages import explained, explained_event


async def one_life(sim) -> None:
    """A claim becomes Ready."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_reason_that_no_page_explains_is_seen(monkeypatch, status) -> None:
    """A condition with an undocumented reason fails the simulation."""
    condition = launch.condition

    def mutant(f, claim):
        updates = condition(f, claim)
        if updates is None or updates.reason != "Creating":
            return updates
        return ConditionUpdate(status=status, reason="Cooking", message="the machine is in the oven")

    monkeypatch.setattr(launch, "condition", mutant)
    with pytest.raises((InvariantError, BaseExceptionGroup)) as failure:
        simulate(one_life)
    text = "\n".join([str(failure.value), *getattr(failure.value, "__notes__", [])])
    assert f"gpu1 says what no page explains: Launched={status} Cooking" in text


def test_a_status_that_no_page_has_for_a_reason_is_seen() -> None:
    """The same reason with another status, or on another condition, is undocumented too."""
    assert explained("Initialized", "False", "NodeLost", "")
    assert not explained("Initialized", "Unknown", "NodeLost", "")
    assert not explained("Registered", "False", "NodeLost", "")


def test_azures_own_code_is_explained_where_it_begins_the_message() -> None:
    """ARM's codes are an open set: one is permitted on Launched if the message begins with it."""
    words = "ErrCode_SubnetIsFull: no addresses are left; Free addresses in the subnet or use a larger one"
    assert explained("Launched", "False", "SubnetIsFull", words)
    assert not explained("Launched", "False", "SubnetIsFull", "no addresses are left")
    assert not explained("Initialized", "False", "SubnetIsFull", words)


def test_an_event_is_explained_for_the_kinds_it_is_recorded_on() -> None:
    """Events of draining are about Nodes, Events of repair about claims."""
    assert explained_event("Node", "FailedDraining", "")
    assert not explained_event("NodeClaim", "FailedDraining", "")
    assert explained_event("NodeClaim", "NodeRepair", "")
    assert not explained_event("Node", "NodeRepair", "")
