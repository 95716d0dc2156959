"""A mutating policy drops the annotation that records a failure: nothing is written or recorded without end."""

import asyncio
from typing import Any

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import events
from tests.world.harness import Sim, node_claim, simulated
from tests.world.nodeclaim.test_main_job import NAME
from tests.world.transcript import CLAIMS

MINUTE = 60.0


def drop_annotation(sim: Sim, key: str) -> None:
    """Patches of NodeClaims lack this annotation, as a policy of the cluster has it."""
    original = sim.store.patch

    def without(resource: str, name: str, patch: Any, *args: Any, **options: Any) -> Any:
        if resource == CLAIMS and isinstance(patch, dict):
            ((patch.get("metadata") or {}).get("annotations") or {}).pop(key, None)
        return original(resource, name, patch, *args, **options)

    sim.store.patch = without  # type: ignore[method-assign]


def patches_claim(call: Call) -> bool:
    return call.verb == "PATCH" and call.target.kind == "nodeclaims" and call.who == "ctl0"


@simulated(azure=AzureSettings(create_seconds=(6200.0, 6300.0), node_share=(1.0, 1.05)))
async def test_a_policy_that_drops_the_annotation(sim: Sim) -> None:
    """A pool hangs in Creating: its deadline is reported a few times at most, and the API server has peace."""
    drop_annotation(sim, labels.REPORTED)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await asyncio.sleep(44 * MINUTE)
    before = sum(map(patches_claim, sim.audit_log.writes()))
    await asyncio.sleep(10 * MINUTE)
    assert sum(map(patches_claim, sim.audit_log.writes())) - before <= 20
    late = [one for one in events(sim, NAME) if "overdue" in one["message"]]
    assert sum(one["count"] for one in late) <= 5
