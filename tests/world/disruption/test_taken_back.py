"""A user takes back what caused a command, corrects it, or what protected a machine has passed."""

from typing import Any

import pytest

from provisioner.simulator.azure import faults
from tests.world.demand import T4, claims_of, pod
from tests.world.harness import Sim, simulate, simulated

from .common import T4_64, allow, annotate_claim, drift, dynamic, fleet, live, marks, passes, ready, running, static

pytestmark = pytest.mark.matrix(quick=0)

POOLS, CLAIMS = "nodepools.karpenter.sh", "nodeclaims.karpenter.sh"
HOUR = 3600.0


def template_label(sim: Sim, value: str) -> None:
    sim.store.patch(POOLS, "gpu", {"spec": {"template": {"metadata": {"labels": {"team": value}}}}})


@simulated()
async def test_a_drift_that_is_reverted(sim: Sim) -> None:
    """Its replacement starts already: the machine that is as its NodePool stays, with its pod."""
    await dynamic(sim, "serving")
    template_label(sim, "wrong")
    await sim.until(lambda: len(claims_of(sim)) == 2, 120.0, "a replacement is bought")
    template_label(sim, "ml")
    await sim.until(lambda: not sim.condition("gpu-1", "Drifted"), 60.0, "it has not drifted any more")
    assert ready(sim) != ["gpu-1", "gpu-2"]
    await passes(sim, HOUR)
    assert "gpu-1" in live(sim)
    assert running(sim) == 1
    assert not marks(sim)


@simulated()
async def test_a_command_of_a_newer_version(sim: Sim) -> None:
    """This one does not know its reason: it undoes the command, and an Event names the reason."""
    await dynamic(sim, "serving")
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 120.0, "a replacement is bought")
    found = sim.store.get(CLAIMS, "gpu-1")["status"]["conditions"]
    stated = [{**one, "reason": "Outdated"} if one["type"] == "DisruptionReason" else one for one in found]
    sim.store.patch(CLAIMS, "gpu-1", {"status": {"conditions": stated}}, subresource="status")
    await sim.until(lambda: not marks(sim), 120.0, "the command is undone")
    assert "gpu-1" in live(sim)

    def reported() -> bool:
        about = sim.store.list("events", fields="involvedObject.name=gpu-1")
        return any("does not know the reason Outdated of its condition DisruptionReason" in e["message"] for e in about)

    await sim.until(reported, 5.0, "an Event states the reason")


@simulated()
async def test_a_consolidation_that_is_switched_off(sim: Sim) -> None:
    """While the cheaper machine starts."""
    await fleet(sim, T4_64, web=1)
    allow(sim, T4_64, T4)
    await sim.until(lambda: len(claims_of(sim)) == 2, 600.0, "a cheaper machine is bought")
    sim.store.patch(POOLS, "gpu", {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty"}}})
    await passes(sim, HOUR)
    assert "gpu-1" in live(sim)
    assert not marks(sim)


@simulated()
async def test_a_replacement_that_stays_where_empty_machines_are_kept(sim: Sim) -> None:
    """`consolidateAfter: Never`: nothing removes it, and an Event tells the user."""
    await dynamic(sim, "serving")
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 120.0, "a replacement is bought")
    await passes(sim, 60.0)
    annotate_claim(sim, "")
    await passes(sim, HOUR)
    about = sim.store.list("events", fields="involvedObject.name=gpu-2")
    assert any("does not replace gpu-1 after all" in one["message"] for one in about)


def owned(name: str, **annotations: str) -> Any:
    """A pod of a ReplicaSet that does not create it again."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    body = pod(name)
    return {**body, "metadata": {**body["metadata"], "annotations": annotations, "ownerReferences": [owner]}}


@pytest.mark.parametrize("pool", ["dynamic", "static"])
@pytest.mark.parametrize("value", ["1h", "yes"])
def test_a_protection_that_has_passed(value: str, pool: str) -> None:
    """`1h` has passed since the pod started, and `yes` is ignored, as its Event says."""

    async def story(sim: Sim) -> None:
        await (dynamic(sim) if pool == "dynamic" else static(sim, 1))
        sim.store.create("pods", owned("warm", **{"karpenter.sh/do-not-disrupt": value}), "default")
        await sim.until(lambda: sim.condition("gpu-1", "Ready") == "True", 1800.0, "the machine")
        drift(sim, "gpu-1")
        await passes(sim, 6 * HOUR)
        assert "gpu-1" not in live(sim)

    simulate(story)


@simulated()
async def test_a_replacement_that_has_lost_its_machine(sim: Sim) -> None:
    """Its size is sold out, and the old machine is deleted by a user: it is corrected like any other NodeClaim."""
    await static(sim, 1)
    sim.cloud.faults.append(faults.capacity(size=T4_64))
    allow(sim, T4_64)
    await sim.until(lambda: len(claims_of(sim)) == 2, 600.0, "a replacement of the sold-out size")
    await sim.delete_claim("gpu-1")
    await sim.until(lambda: sim.claim("gpu-1") is None, 1800.0, "the old machine is gone")
    allow(sim, T4)
    await passes(sim, 24 * HOUR)
    assert len(ready(sim)) == 1
