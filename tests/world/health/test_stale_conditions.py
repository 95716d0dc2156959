"""A condition that AKS's node problem detector no longer refreshes, because it crashed or was removed, is no signal.

Here the kubelet and the agents refresh the heartbeats of their conditions every 5 minutes, as by default.
"""

import asyncio

import pytest

from controllers.model.policy import Policy
from provisioner.api.repair_policy import RepairPolicy
from tests.world.garbagecollection.common import one
from tests.world.harness import Sim, simulated
from tests.world.transcript import FAST, MINUTE, claim_condition, node_name

from .common import deleted, other, set_condition, unschedulable

pytestmark = pytest.mark.matrix(quick=0)

HEALTHY = "kubernetes.azure.com/NodeHealthy"
ROWS = (("KernelDeadlock", "True"), (HEALTHY, "False"))
LATE = Policy(
    repair_policies=tuple(
        RepairPolicy(condition=condition, status=status, seconds=240 * MINUTE, action="Replace")
        for condition, status in ROWS
    )
)


async def refresh(sim: Sim, minutes: int, condition: str = "", status: str = "") -> None:
    """The kubelet runs for so long, and so does the agent that sets this condition; no longer than the machine."""
    for _ in range(minutes // 5):
        if deleted(sim):
            return
        sim.nodes.set_ready(node_name(sim), True)
        if condition:
            set_condition(sim, condition, status)
        await asyncio.sleep(5 * MINUTE)


@pytest.mark.parametrize(
    ("condition", "status", "refreshed", "replaced"),
    [
        ("KernelDeadlock", "True", 300, True),
        ("KernelDeadlock", "True", 30, False),
        # What was never refreshed may be of an agent that writes changes only.
        ("KernelDeadlock", "True", 5, True),
        # Of another agent, whose period is not known.
        (HEALTHY, "False", 30, True),
    ],
)
@simulated(azure=FAST)
async def test_a_stale_condition_replaces_no_machine(
    sim: Sim, condition: str, status: str, refreshed: int, replaced: bool
) -> None:
    """After four hours, as a user wants it."""
    await one(sim, policy=LATE)
    await refresh(sim, refreshed, condition, status)
    await refresh(sim, 300 - refreshed)
    assert deleted(sim) is replaced


@pytest.mark.parametrize("restarts", [False, True])
@simulated(azure=FAST)
async def test_a_stale_condition_is_no_cause_of_a_cordon(sim: Sim, *, restarts: bool) -> None:
    """The Node takes pods again an hour after the detector ended, and no new process cordons it; a living one does."""
    await one(sim)
    await refresh(sim, 30, "KernelDeadlock", "True")
    assert unschedulable(sim)
    await refresh(sim, 45)
    assert unschedulable(sim)
    await refresh(sim, 25)
    assert not unschedulable(sim)
    assert claim_condition(sim, "NodeHealthy")[:2] == ("True", "NodeHealthy")
    if restarts:
        sim.crash()
        await sim.start_controller("ctl1")
    await refresh(sim, 60)
    assert not unschedulable(sim)
    await refresh(sim, 10, "KernelDeadlock", "True")
    assert unschedulable(sim)
    set_condition(sim, "KernelDeadlock", other("True"))
    await sim.until(lambda: not unschedulable(sim), MINUTE, "it takes pods")
