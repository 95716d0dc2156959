"""Webhooks that deny what a command needs, with a code of their choice: commands end, loops do not, users read why."""

from typing import Any

import pytest

from provisioner.simulator.audit_log import Call
from tests.world.demand import node_class, node_pool, workload
from tests.world.harness import Sim, simulate, simulated
from tests.world.transcript import refuse

from .common import (
    CLAIMS,
    SIZES,
    budget,
    created,
    deletes,
    deletions,
    drift,
    dynamic,
    marks,
    passes,
    ready,
    refuse_deletion,
    static,
    tainted,
)

pytestmark = pytest.mark.matrix(quick=0)

HOUR = 3600.0
NO_DRY_RUN = 'admission webhook "audit.example.com" does not support dry run'
POLICY = "admission webhook kyverno denied the request: label cost-center is required"


@pytest.mark.parametrize(("status", "most"), [(403, 100), (409, 100), (500, 350)])
def test_a_command_whose_deletion_is_denied_ends(status: int, most: int) -> None:
    """No dry run tells. The machine takes pods again, and another one of the NodePool is replaced meanwhile."""

    async def story(sim: Sim) -> None:
        await static(sim, 2)
        refuse(sim, lambda call: deletes(call, "gpu-1") and call.dry_run, 400, "BadRequest", NO_DRY_RUN)
        refuse(sim, lambda call: deletes(call, "gpu-1") and not call.dry_run, status, "", "denied by audit.example.com")
        drift(sim, "gpu-1")
        await sim.until(lambda: tainted(sim), 120.0, "the command begins")
        drift(sim, "gpu-2")
        await passes(sim, 12 * HOUR)
        assert deletions(sim, "gpu-1", dry_run=False) <= most
        assert not [one for one in marks(sim) if one.startswith("gpu-1 ")] + tainted(sim)
        assert "gpu-2" not in ready(sim)

    simulate(story)


@pytest.mark.parametrize("status", [403, 409])
def test_an_expired_machine_whose_deletion_is_denied(status: int) -> None:
    """It is tried again each ten minutes."""

    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        pool = node_pool(requirements=SIZES, disruption={**budget("1"), "consolidateAfter": "Never"})
        pool["spec"]["template"]["spec"]["expireAfter"] = "1h"
        await sim.apply(pool)
        await sim.start_controller()
        workload(sim, "ReplicaSet", "web")
        await sim.until(lambda: ready(sim) == ["gpu-1"], 1800.0, "the machine")
        refuse_deletion(sim, "gpu-1", status)
        await passes(sim, 3 * HOUR)
        assert deletions(sim, "gpu-1", dry_run=False) <= 30

    simulate(story)


def creates(call: Call) -> bool:
    return call.verb == "POST" and call.target.kind == "nodeclaims"


@simulated()
async def test_a_replacement_that_is_denied(sim: Sim) -> None:
    """An Event quotes the policy, and the machine takes pods."""
    await static(sim, 1)
    refuse(sim, creates, 403, "Forbidden", POLICY)
    drift(sim, "gpu-1")
    await passes(sim, HOUR)
    assert any("cost-center" in one["message"] for one in sim.store.list("events"))
    assert not any("waiting for  to be" in one["message"] for one in sim.store.list("events"))
    assert not marks(sim)


@pytest.mark.parametrize("status", [403, 409])
def test_a_static_nodepool_that_must_not_grow(status: int) -> None:
    """It does not send a request each second."""

    async def story(sim: Sim) -> None:
        await static(sim, 1)
        refuse(sim, creates, status, "", POLICY)
        before = created(sim)
        sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"replicas": 2}})
        await passes(sim, HOUR)
        assert created(sim) - before <= 100
        assert any("cost-center" in one["message"] for one in sim.store.list("events", fields="reason=LaunchFailed"))

    simulate(story)


@simulated()
async def test_a_command_without_an_id_buys_nothing(sim: Sim) -> None:
    """A mutating policy drops the annotation, without which no command could be found."""
    await dynamic(sim, "serving")
    before, original = created(sim), sim.store.patch

    def without_id(resource: str, name: str, patch: Any, *args: Any, **options: Any) -> Any:
        if resource == CLAIMS and isinstance(patch, dict):
            ((patch.get("metadata") or {}).get("annotations") or {}).pop("gpu-provisioner.sh/disruption-command", None)
        return original(resource, name, patch, *args, **options)

    sim.store.patch = without_id  # type: ignore[method-assign]
    drift(sim, "gpu-1")
    await passes(sim, 12 * HOUR)
    assert created(sim) == before
