"""The check of phases can fail, and each permitted transition that other stories do not show occurs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from controllers.planner import plan
from provisioner.api.nodeclaim import Phase
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.invariants import InvariantError
from tests.world.claims import created, wait_for_condition
from tests.world.harness import Sim, node_claim, simulate
from tests.world.main_job import NAME, create_and_delete, ready
from tests.world.moments import AZURE, NODE_LATE, Gate
from tests.world.transcript import claim_condition, node_name, run_pod

Act = Callable[[Sim], Awaitable[object]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Phase.PENDING, Phase.LAUNCHING),
        (Phase.INITIALIZING, Phase.READY),
        (Phase.READY, Phase.DRAINING),
        (Phase.INSTANCE_TERMINATING, Phase.TERMINATED),
    ],
)
def test_a_transition_that_is_not_in_the_table_fails_a_simulation(
    monkeypatch: pytest.MonkeyPatch, old: Phase, new: Phase
) -> None:
    """Each of these belongs to every life."""
    monkeypatch.setitem(plan.TRANSITIONS, old, tuple(p for p in plan.TRANSITIONS[old] if p is not new))
    with pytest.raises((InvariantError, BaseExceptionGroup)) as failure:
        simulate(create_and_delete)
    text = "\n".join([str(failure.value), *getattr(failure.value, "__notes__", [])])
    assert f"claim {NAME} moved from {old} to {new}" in text


# Transitions that no other story shows


async def _created(sim: Sim) -> None:
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(NAME))


async def fail_while_registering(sim: Sim) -> None:
    """The pool runs, and fails before its Node exists."""
    await _created(sim)
    await wait_for_condition(sim, NAME, "Launched", "True", "Launched")
    sim.cloud.pool_store.put("updated", replace(sim.cloud.pools[NAME], state="Failed"))
    await wait_for_condition(sim, NAME, "Launched", "False", "CreateFailed")


def away_during_the_next_attempt(returns_at: Callable[[Sim], object]) -> Act:
    """The controller stops after its second PUT, and the claim still has the cause of the first failure."""

    async def story(sim: Sim) -> None:
        sim.cloud.faults.append(faults.capacity(times=1))
        await _created(sim)
        await sim.until(lambda: created(sim, NAME) == 2, 900, "the pool is created again")
        sim.crash()
        await sim.until(lambda: returns_at(sim), 900, "the controller returns")
        await sim.start_controller("ctl1", elect=False)
        await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 900, "the claim is Ready")

    return story


def runs(sim: Sim) -> bool:
    return sim.cloud.pools[NAME].state == "Succeeded"


def up(sim: Sim) -> bool:
    """Whether the Node has its GPU."""
    return any("nvidia.com/gpu" in (node["status"].get("allocatable") or {}) for node in sim.nodes_of(NAME))


def attach(sim: Sim) -> None:
    spec = {"attacher": "disk.csi.azure.com", "nodeName": node_name(sim), "source": {"persistentVolumeName": "pv"}}
    sim.store.create("volumeattachments.storage.k8s.io", {"metadata": {"name": "csi"}, "spec": spec})


async def detaching(sim: Sim) -> None:
    """A deleted claim waits for a volume."""
    await sim.start_controller(elect=False)
    await ready(sim)
    attach(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: claim_condition(sim, "VolumesDetached")[0] == "Unknown", 60, "the claim waits for a volume")


async def pod_while_detaching(sim: Sim) -> None:
    """A pod is bound to the drained Node."""
    await detaching(sim)
    run_pod(sim, "late", node_name(sim), annotations={"karpenter.sh/do-not-disrupt": "true"})
    await sim.until(lambda: claim_condition(sim, "Drained")[0] == "Unknown", 60, "the claim waits for the pod")


async def pool_lost_while_detaching(sim: Sim) -> None:
    """A user deletes the pool while no controller runs."""
    await detaching(sim)
    sim.crash()
    sim.cloud.delete_pool_by_hand(NAME)
    await sim.until(lambda: NAME not in sim.cloud.pools, 600, "the pool is gone")
    await sim.start_controller("ctl1", elect=False)
    await sim.until(lambda: sim.claim(NAME) is None, 600, "the claim is gone")


def deleted_while_registering(hold: Callable[[Sim], None], kind: str) -> Act:
    """The claim is deleted after its Node got the finalizer, and before its status shows the launch."""

    async def story(sim: Sim) -> None:
        gate = Gate(sim, lambda call: call.target.kind == "nodes" and call.verb == "PATCH", "is done")
        await _created(sim)
        await sim.until(lambda: gate.held, 900, "the Node is registered")
        hold(sim)
        await sim.delete_claim(NAME)
        gate.open()
        await sim.until(lambda: claim_condition(sim, kind)[0] == "Unknown", 60, f"{kind} is set")

    return story


def hold_by_pod(sim: Sim) -> None:
    run_pod(sim, "held", node_name(sim), annotations={"karpenter.sh/do-not-disrupt": "true"})


RARE: list[tuple[Phase, Phase, AzureSettings, Act]] = [
    (Phase.REGISTERING, Phase.FAILED, NODE_LATE, fail_while_registering),
    (Phase.FAILED, Phase.REGISTERING, NODE_LATE, away_during_the_next_attempt(runs)),
    (Phase.FAILED, Phase.INITIALIZING, NODE_LATE, away_during_the_next_attempt(lambda sim: sim.nodes_of(NAME))),
    (Phase.FAILED, Phase.READY, NODE_LATE, away_during_the_next_attempt(up)),
    (Phase.DETACHING, Phase.DRAINING, AZURE, pod_while_detaching),
    (Phase.DETACHING, Phase.TERMINATED, AZURE, pool_lost_while_detaching),
    (Phase.INSTANCE_TERMINATING, Phase.DRAINING, AZURE, deleted_while_registering(hold_by_pod, "Drained")),
    (Phase.INSTANCE_TERMINATING, Phase.DETACHING, AZURE, deleted_while_registering(attach, "VolumesDetached")),
]


@pytest.mark.parametrize(("old", "new", "azure", "story"), RARE, ids=[f"{row[0]}-{row[1]}" for row in RARE])
def test_a_rare_transition_occurs(old: Phase, new: Phase, azure: AzureSettings, story: Act) -> None:
    """The table permits nothing that cannot happen; other stories show the transitions that are not listed here."""

    async def run(sim: Sim) -> None:
        await story(sim)
        assert (old, new) in sim.transitions

    simulate(run, azure=azure)
