"""A policy drops or denies the annotation that records a deadline: it is reported once, and nothing without end."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import events
from tests.world.harness import Sim, node_claim, simulate
from tests.world.main_job import NAME
from tests.world.metric_samples import start
from tests.world.transcript import CLAIMS, refuse

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


def annotates(call: Call) -> bool:
    return patches_claim(call) and not call.target.subresource


POLICIES: dict[str, Callable[[Sim], object]] = {
    "mutating": partial(drop_annotation, key=labels.REPORTED),
    "validating": partial(refuse, fits=annotates, status=422, reason="Invalid"),
    "webhook": partial(refuse, fits=annotates, status=403, reason="Forbidden"),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_deadline_whose_record_is_lost(policy: str) -> None:
    """A pool hangs in Creating: its deadline is reported once, and the API server has peace."""

    async def story(sim: Sim) -> None:
        numbers = await start(sim)
        await sim.apply(node_claim(NAME))
        await asyncio.sleep(10 * MINUTE)
        POLICIES[policy](sim)
        await asyncio.sleep(34 * MINUTE)
        before = sum(map(patches_claim, sim.audit_log.writes()))
        await asyncio.sleep(30 * MINUTE)
        assert sum(map(patches_claim, sim.audit_log.writes())) - before <= 20
        late = [one for one in events(sim, NAME) if "overdue" in one["message"]]
        assert sum(one["count"] for one in late) == 1
        assert numbers.total("gpu_provisioner_deadlines_exceeded_total", deadline="creating") == 1

    simulate(story, azure=AzureSettings(create_seconds=(6200.0, 6300.0), node_share=(1.0, 1.05)))
