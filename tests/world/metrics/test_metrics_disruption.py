"""The metrics of voluntary disruption of a running program."""

from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.disruption.common import SIZES, budget, disruption, drift, names, passes, phase, ready, tainted
from tests.world.harness import Sim, simulated
from tests.world.metric_samples import Numbers, start

VOLUNTARY = "karpenter_voluntary_disruption_"
DECISIONS, FAILURES = f"{VOLUNTARY}decisions_total", f"{VOLUNTARY}queue_failures_total"
ELIGIBLE, ALLOWED = f"{VOLUNTARY}eligible_nodes", "karpenter_nodepools_allowed_disruptions"
USED = "karpenter_nodepools_nodes_consuming_budgets"
DRIFTED = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}


def check_values(numbers: Numbers) -> None:
    """Each value of a label is one of its set, and no observer failed."""
    assert not numbers.undeclared()
    assert numbers.total("gpu_provisioner_observation_errors_total") == 0


async def with_machine(sim: Sim) -> Numbers:
    """One machine of a static NodePool, of which one may drift at a time."""
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=1, requirements=SIZES, disruption=budget("1")))
    numbers = await start(sim)
    await sim.until(lambda: ready(sim) == ["gpu-1"], 1800.0, "the machine")
    return numbers


@simulated()
async def test_a_drifted_machine_that_is_replaced(sim: Sim) -> None:
    """One decision, one NodeClaim; the budget is used while the machine is replaced."""
    numbers = await with_machine(sim)
    assert numbers.total(ALLOWED, nodepool="gpu", reason="Drifted") == 1
    assert not list(numbers.samples(ALLOWED, reason="Empty"))
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "a replacement is created")
    assert numbers.total(USED, nodepool="gpu", reason="Drifted") == 1
    assert numbers.total(ELIGIBLE, reason="drifted") == 0
    await sim.until(lambda: ready(sim) == ["gpu-2"] and len(claims_of(sim)) == 1, 3600.0, "it is replaced")
    assert numbers.total(DECISIONS) == numbers.total(DECISIONS, **DRIFTED) == 1
    assert numbers.total("karpenter_nodeclaims_disrupted_total", reason="drifted", nodepool="gpu") == 1
    assert numbers.total(f"{VOLUNTARY}decision_evaluation_duration_seconds_count", reason="drifted") > 0
    assert numbers.total(FAILURES) == 0
    check_values(numbers)


@simulated()
async def test_a_replacement_that_is_deleted(sim: Sim) -> None:
    """The command counts as undone once, also over a restart, and the machine remains eligible."""
    numbers = await with_machine(sim)
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "a replacement is created")
    sim.crash()
    successor = await start(sim, "ctl1")
    await sim.delete_claim("gpu-2")
    await sim.until(lambda: len(claims_of(sim)) == 1 and not tainted(sim), 900.0, "it is undone")
    await passes(sim, 60.0)
    assert (numbers.total(DECISIONS), numbers.total(FAILURES)) == (1, 0)
    assert successor.total(FAILURES) == successor.total(FAILURES, **DRIFTED) == 1
    assert successor.total(ELIGIBLE, reason="drifted") == 1
    check_values(successor)


@simulated()
async def test_empty_machines_that_are_removed(sim: Sim) -> None:
    """Two in one pass are one decision; what the budget held was eligible meanwhile."""
    numbers = await start(sim)
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption=disruption("0s", {"nodes": "0"})))
    await pending(sim, *(pod(name) for name in names(2)))
    await sim.until(
        lambda: all(phase(sim, name) == "Running" for name in names(2)),
        1800.0,
        "pods run",
    )
    for name in names(2):
        sim.store.delete("pods", name, "default")
    await sim.until(lambda: numbers.total(ELIGIBLE, reason="empty") == 2, 120.0, "both are eligible")
    assert numbers.total(ALLOWED, reason="Empty") == 0
    assert numbers.total(DECISIONS) == 0
    allowed = disruption("0s", {"nodes": "100%"})
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"disruption": allowed}})
    await sim.until(lambda: not claims_of(sim), 1200.0, "both are removed")
    assert numbers.total(DECISIONS) == 1
    assert numbers.total(DECISIONS, decision="delete", reason="empty", consolidation_type="empty") == 1
    assert numbers.total("karpenter_nodeclaims_disrupted_total", reason="empty") == 2
    assert numbers.total(ELIGIBLE, reason="empty") == 0
    check_values(numbers)
    sim.store.delete("nodepools.karpenter.sh", "gpu")
    await sim.settled()
    assert not list(numbers.samples(ALLOWED))
    assert not list(numbers.samples(ELIGIBLE))
