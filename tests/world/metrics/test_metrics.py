"""The metrics of a running program at certain moments of its life, in virtual seconds."""

import asyncio
import math
from decimal import Decimal

import pytest

from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.garbagecollection.common import NO_BOUND
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.main_job import NAME, gone, ready
from tests.world.metric_samples import PHASE, at, bucket_of, start
from tests.world.transcript import FAST, MINUTE, node_name, run_pod, strip

TERMS = {"instance_type": SIZE, "zone": "regional", "capacity_type": "on-demand"}


@simulated(azure=FAST)
async def test_the_metrics_of_one_claim(sim: Sim) -> None:
    """Phases match the timestamps of the claim, gauges return to zero, and the claim leaves no series."""
    numbers = await start(sim)
    await ready(sim)
    await asyncio.sleep(30)
    claim, node = sim.claim(NAME), node_name(sim)
    born, launched, registered, initialized = (
        at(claim, "creationTimestamp"),
        *(at(claim, "condition", kind) for kind in ("Launched", "Registered", "Initialized")),
    )
    took = {
        "Launching": launched - born,
        "Registering": registered - launched,
        "Initializing": initialized - registered,
        "Ready": initialized - born,
    }
    for phase, duration in took.items():
        seconds = duration.total_seconds()
        assert numbers.total(f"{PHASE}_sum", phase=phase, **TERMS) == seconds
        low, high = bucket_of(numbers, PHASE, phase=phase, **TERMS)
        assert low < seconds <= high or seconds == low == 0
    assert took["Ready"].total_seconds() > 60
    assert numbers.total("karpenter_nodeclaims_created_total", nodepool="kaito", reason="provisioned") == 1
    assert numbers.total("karpenter_nodes_created_total", nodepool="kaito") == 1
    assert numbers.total("gpu_provisioner_nodeclaims", phase="Ready") == 1
    assert numbers.total("gpu_provisioner_agent_pools", state="running") == 1
    for state in ("expected", "allocatable"):
        assert numbers.one("gpu_provisioner_gpus", state=state).value == 1
    assert numbers.one("karpenter_nodes_allocatable", node_name=node, resource_type="nvidia.com/gpu").value == 1
    stated = numbers.one("operator_nodeclaim_status_condition_current_status_seconds", name=NAME, type="Ready")
    assert stated.labels["status"] == "True"
    assert stated.value == pytest.approx(30, abs=2)

    requested_at = sim.now
    await sim.delete_claim(NAME)
    await asyncio.sleep(40)
    lasts = numbers.one("operator_nodeclaim_termination_current_time_seconds", name=NAME)
    assert lasts.value == pytest.approx(40, abs=2)
    assert numbers.total("gpu_provisioner_nodeclaims", phase="InstanceTerminating") == 1
    await gone(sim)
    took_seconds = sim.now - requested_at
    await asyncio.sleep(10)
    for ended in ("karpenter_nodeclaims_terminated_total", "karpenter_nodes_terminated_total"):
        assert numbers.total(ended, nodepool="kaito", zone="regional") == 1
    assert numbers.total("karpenter_nodes_drained_total") == 1
    assert numbers.total("karpenter_nodes_lifetime_duration_seconds_count", nodepool="kaito") == 1
    assert numbers.total("karpenter_nodes_lifetime_duration_seconds_sum", nodepool="kaito") > took_seconds
    for lasted in ("karpenter_nodeclaims", "operator_nodeclaim"):
        seen = numbers.total(f"{lasted}_termination_duration_seconds_sum")
        assert seen == pytest.approx(took_seconds, abs=3)
    half = numbers.one("karpenter_nodes_termination_duration_seconds", quantile="0.5")
    assert half.value == pytest.approx(took_seconds, abs=8)
    in_azure = numbers.total("karpenter_nodeclaims_instance_termination_duration_seconds_sum")
    deletion = {"operation": "delete", "result": "succeeded"}
    operation = numbers.total("gpu_provisioner_arm_operation_duration_seconds_sum", **deletion)
    assert in_azure == pytest.approx(operation, abs=5)
    assert numbers.about(NAME) == numbers.about(node) == []
    await asyncio.sleep(2 * 3600)
    assert math.isnan(numbers.one("karpenter_nodes_termination_duration_seconds", quantile="0.5").value)
    assert numbers.total("karpenter_nodes_termination_duration_seconds_count") == 1


@simulated(azure=FAST)
async def test_credential_failures_have_reasons(sim: Sim) -> None:
    """ARM rejects the token, then the role is missing: each request counts with its own reason."""
    numbers = await start(sim)
    await asyncio.sleep(5)
    failed = "gpu_provisioner_credential_failures_total"
    assert len(list(numbers.samples(failed))) == 6
    assert numbers.total(failed) == 0
    refusals = {
        "unauthenticated": errors.unauthenticated("InvalidAuthenticationToken", "no"),
        "forbidden": errors.forbidden("read", FAST.cluster_id),
    }
    for reason, refusal in refusals.items():
        sim.cloud.faults.append(Fault(verb="LIST", answer=refusal, times=2))
        await sim.until(lambda r=reason: numbers.total(failed, system="azure", reason=r) >= 1, 1200, reason)  # type: ignore[misc]  # the default binds the value of this round
    assert numbers.total(failed, system="kubernetes") == 0
    requested = "gpu_provisioner_arm_request_duration_seconds_count"
    assert numbers.total(requested, operation="list", code="401") >= 1
    age = numbers.one("gpu_provisioner_cache_age_seconds", resource="agentpools")
    assert age.value > 0


@simulated(azure=FAST)
async def test_creation_failures_have_reasons(sim: Sim) -> None:
    """A quota that rejects the PUT and a shortage found later are one failure each, with the reasons of the alerts."""
    sim.cloud.faults += [faults.quota_preflight(times=1), faults.capacity(times=1)]
    numbers = await start(sim)
    await sim.apply(node_claim(NAME))
    failed = {"instance_type": SIZE, "capacity_type": "on-demand"}
    name = "gpu_provisioner_create_failures_total"
    await sim.until(lambda: numbers.total(name, reason="quota", **failed) == 1, 60, "the quota refuses")
    await asyncio.sleep(5)
    stuck = numbers.one("gpu_provisioner_nodeclaims_not_ready", condition="Launched", reason="QuotaExceeded")
    assert stuck.value == 1
    await sim.until(lambda: numbers.total(name, reason="allocation", **failed) == 1, 600, "a pool fails")
    await ready(sim, within_seconds=1800)
    await asyncio.sleep(5)
    assert numbers.total(name) == 2
    errors = "karpenter_cloudprovider_errors_total"
    assert numbers.total(errors, error="InsufficientCapacityError", method="Create") == 1
    ended = "gpu_provisioner_arm_operation_duration_seconds_count"
    assert numbers.total(ended, operation="create", result="failed") == 1
    assert numbers.total(ended, operation="create", result="succeeded") == 1
    assert not list(numbers.samples("gpu_provisioner_nodeclaims_not_ready"))


@simulated()
async def test_the_info_metric_shows_the_first_choice_before_a_machine(sim: Sim) -> None:
    """A claim that waits for quota has its size, then its Node, and no series after its deletion."""
    info = "gpu_provisioner_nodeclaim_info"
    sim.cloud.faults.append(faults.quota_preflight(times=1))
    numbers = await start(sim)
    await sim.apply(node_claim(NAME))
    await asyncio.sleep(10)
    assert numbers.one(info).labels == {"name": NAME, "agent_pool": NAME, "node_name": "", **TERMS}
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15 * MINUTE, "it got its machine")
    reported = {"name": NAME, "agent_pool": NAME, "node_name": node_name(sim), **TERMS}
    assert numbers.one(info).labels == reported
    assert numbers.one(info).value == 1
    await sim.delete_claim(NAME)
    await gone(sim)
    await asyncio.sleep(1)
    assert not list(numbers.samples(info))


@simulated(azure=FAST)
async def test_a_leaked_pool_is_seen_until_it_is_gone(sim: Sim) -> None:
    """The gauge rises when the claim is deleted and falls when the pool is gone; the removal has its cause."""
    numbers = await start(sim)
    await ready(sim)
    leaked = "gpu_provisioner_leaked_agent_pools"
    assert numbers.total(leaked) == 0
    strip(sim, NAME)
    await asyncio.sleep(5)
    assert numbers.total(leaked) == 1
    assert numbers.total("gpu_provisioner_removal_candidates") == 1
    await sim.until(lambda: not sim.nodes_of(NAME), 600, "the orphan is collected")
    await asyncio.sleep(5)
    assert numbers.total(leaked) == 0
    assert numbers.total("gpu_provisioner_gc_deleted_total", kind="pool", cause="orphan-pool") == 1
    calls = "karpenter_cloudprovider_duration_seconds_count"
    assert numbers.total(calls, method="Delete", controller="instance.garbagecollection") == 1
    assert numbers.total(calls, method="Delete") == 1
    assert numbers.total("karpenter_nodeclaims_disrupted_total") == 0


@simulated(azure=FAST, **NO_BOUND)
async def test_restricted_removals_are_counted_once(sim: Sim) -> None:
    """Ten claims vanish at once: each machine waits for a confirmation and counts once."""
    numbers = await start(sim)
    names = [f"gpu{number}" for number in range(10)]
    for name in names:
        await sim.apply(node_claim(name))
    for name in names:
        await ready(sim, name)
    for name in names:
        strip(sim, name)
    await asyncio.sleep(30 * MINUTE)
    assert numbers.total("gpu_provisioner_gc_skipped_total", reason="restricted") == 10
    assert numbers.total("gpu_provisioner_leaked_agent_pools") == 10
    assert numbers.total("gpu_provisioner_gc_deleted_total") == 0


@simulated(azure=FAST)
async def test_evictions_are_counted_by_response(sim: Sim) -> None:
    """A PodDisruptionBudget that blocks an eviction is 429; the eviction that succeeds is 200 and drained."""
    numbers = await start(sim)
    await ready(sim)
    run_pod(sim, "held", node_name(sim))
    run_pod(sim, "free", node_name(sim))
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
    made = {"metadata": {"name": "guard"}, "spec": budget}
    sim.store.create("poddisruptionbudgets.policy", made, "default")
    await sim.delete_claim(NAME)
    requested = "karpenter_nodes_eviction_requests_total"
    await sim.until(lambda: numbers.total(requested, code="429") >= 2, 120, "the budget holds it")
    assert numbers.total(requested, code="200") == 1
    assert numbers.total("karpenter_pods_drained_total", reason="") == 1
    calls = "controller_runtime_reconcile_total"
    assert numbers.total(calls, controller="node.termination") > 0
    sim.store.delete("poddisruptionbudgets.policy", "guard", "default")
    await gone(sim)
    assert numbers.total(requested, code="200") == 2


@simulated(azure=AzureSettings(create_seconds=(3200.0, 3300.0), node_share=(1.0, 1.05)))
async def test_a_claim_that_is_overdue_shows_until_it_is_not(sim: Sim) -> None:
    """A pool that hangs in Creating: not ready with reason and age, overdue after its deadline, counted once."""
    numbers = await start(sim)
    await sim.apply(node_claim(NAME))
    await asyncio.sleep(10 * MINUTE)
    about = {"condition": "Launched", "reason": "Creating"}
    age = numbers.one("gpu_provisioner_nodeclaims_not_ready_oldest_seconds", **about)
    assert age.value == pytest.approx(10 * MINUTE, abs=2)
    assert not list(numbers.samples("gpu_provisioner_nodeclaims_overdue"))
    await asyncio.sleep(40 * MINUTE)
    assert numbers.one("gpu_provisioner_nodeclaims_overdue", condition="Launched").value == 1
    assert numbers.total("gpu_provisioner_deadlines_exceeded_total", deadline="creating") == 1
    await ready(sim, within_seconds=30 * MINUTE)
    await asyncio.sleep(5)
    assert not list(numbers.samples("gpu_provisioner_nodeclaims_overdue"))
    assert not list(numbers.samples("gpu_provisioner_nodeclaims_not_ready_oldest_seconds"))
    low, _ = bucket_of(numbers, PHASE, phase="Ready")
    assert low == 2700


@simulated(azure=FAST)
async def test_prices_of_existing_zones_and_pools(sim: Sim) -> None:
    """A price table yields Karpenter's estimate for the Nodes of each zone, and the hourly cost of the pools."""
    prices = ((SIZE.upper(), Decimal("3.67")), (f"{SIZE}/spot", Decimal("1.5")))
    numbers = await start(sim, prices=prices)
    cost, estimate = (
        "gpu_provisioner_node_cost_per_hour",
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
    )
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["westeurope-2"]}
    size = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SIZE]}
    await ready(sim)
    zoned = node_claim("zoned", requirements=[size, zone])
    await sim.apply(zoned)
    await sim.until(lambda: sim.condition("zoned", "Ready") == "True", 900, "the zoned claim is Ready")
    await asyncio.sleep(5)
    assert numbers.one(cost).value == pytest.approx(2 * 3.67)
    reported = {(s.labels["capacity_type"], s.labels["zone"]): s.value for s in numbers.samples(estimate)}
    assert reported == {("on-demand", zone): 3.67 for zone in ("regional", "westeurope-2")}
    node = numbers.one("karpenter_nodes_allocatable", zone="westeurope-2", resource_type="nvidia.com/gpu")
    assert node.value == 1
    await sim.delete_claim(NAME)
    await gone(sim)
    await asyncio.sleep(5)
    assert numbers.one(cost).value == pytest.approx(3.67)
