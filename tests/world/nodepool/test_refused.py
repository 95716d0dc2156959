"""An admission policy denies every write to NodePools and node classes: the requests become rare."""

import asyncio

import pytest

from provisioner.simulator.audit_log import Call
from tests.world.harness import Sim, simulate
from tests.world.transcript import refuse

from .common import CLASSES, POOLS, node_class, node_pool, until_shown


# 422 is the default of a ValidatingAdmissionPolicy; a webhook chooses its code.
@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (422, "Invalid")]
)
def test_a_denied_write_is_repeated_with_growing_delays(status: int, reason: str) -> None:
    """Both objects get their conditions within two minutes once the policy is gone."""

    async def story(sim: Sim) -> None:
        requested = list[Call]()

        def fits(call: Call) -> bool:
            denied = call.verb == "PATCH" and call.target.kind in ("nodepools", "agentpoolnodeclasses")
            requested.extend([call] if denied else [])
            return denied

        ends = refuse(sim, fits, status, reason)
        await sim.start_controller()
        await sim.apply(node_class())
        await sim.apply(node_pool())
        await asyncio.sleep(1200)
        assert 2 <= len(requested) <= 80
        ends()
        for kind, name in ((CLASSES, "default"), (POOLS, "gpu")):
            await until_shown(sim, "Ready", (kind, name), "True", "Ready")

    simulate(story)
