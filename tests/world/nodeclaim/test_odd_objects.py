"""Objects that the API server accepts and that do not decode: they cost themselves only, and are reported."""

import asyncio
from typing import Any

import pytest

from tests.world.claims import CLAIMS, Json, events, puts, ready, removed
from tests.world.harness import SHIPPED_LEASE, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.termination.common import up
from tests.world.transcript import FAST, pool_calls

HOUR = 3600.0
ODD_TIMES = ["2024-01-01T00:00:00+99:99", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00,5Z"]
ODD_CONDITION = {"type": "Mine", "status": "True", "lastTransitionTime": ODD_TIMES[0], "reason": "Mine", "message": ""}


def tainted(name: str, time: str) -> Json:
    return node_claim(name, taints=[{"key": "sku", "value": "gpu", "effect": "NoSchedule", "timeAdded": time}])


async def others_are_served(sim: Sim) -> None:
    """Within an hour a new claim has its pool, and the pool of a deleted one is deleted."""
    await sim.apply(node_claim("good"))
    await sim.delete_claim(NAME)
    await asyncio.sleep(HOUR)
    assert puts(sim, "good")
    assert pool_calls(sim, "DELETE")
    assert sim.claim(NAME) is None


@pytest.mark.parametrize("time", ODD_TIMES)
@simulated(azure=FAST)
async def test_a_taint_with_any_time_is_served_as_any_other(sim: Sim, time: str) -> None:
    """The time of a taint is not copied to the Node, whose taints accept fewer times."""
    await up(sim)
    await sim.apply(tainted("odd", time))
    await ready(sim, "odd")
    [taint] = [one for one in sim.nodes_of("odd")[0]["spec"]["taints"] if one["key"] == "sku"]
    assert "timeAdded" not in taint
    await others_are_served(sim)
    assert sim.condition("odd", "Ready") == "True"
    await removed(sim, "odd")


@pytest.mark.parametrize("restarted", [False, True])
@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_claim_that_cannot_be_decoded_costs_itself_only(sim: Sim, restarted: bool) -> None:
    """A condition that another client wrote is kept, reported, and no reason to remove the claim or its machine."""
    await up(sim)
    await sim.apply(node_claim("odd"))
    await ready(sim, "odd")
    claim = sim.claim("odd")
    assert claim is not None
    conditions = [*claim["status"]["conditions"], ODD_CONDITION]
    sim.store.patch(CLAIMS, "odd", {"status": {"conditions": conditions}}, subresource="status")
    if restarted:
        sim.replace_controller("ctl0")
    await asyncio.sleep(60)
    [event] = events(sim, "odd", "FieldUnreadable")
    assert "status.conditions[4].lastTransitionTime: Invalid RFC3339 encoded datetime" in event["message"]
    await others_are_served(sim)
    kept: Any = sim.claim("odd")
    assert ODD_CONDITION in kept["status"]["conditions"]
    assert "deletionTimestamp" not in kept["metadata"]
    assert sim.cloud.pools["odd"].state == "Succeeded"
    await removed(sim, "odd")
