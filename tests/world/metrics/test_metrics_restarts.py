"""Counters across restarts and replicas: each occurrence counts once, in the leader of that time."""

import asyncio

from provisioner.simulator.azure import faults
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME, gone, ready
from tests.world.metric_samples import PHASE, at, start
from tests.world.transcript import FAST, MINUTE


@simulated(azure=FAST)
async def test_a_restart_counts_nothing_again(sim: Sim) -> None:
    """A new leader finds a Ready claim: its past does not count as new, and its removal counts once."""
    first = await start(sim)
    await ready(sim)
    await sim.stop_controller()
    second = await start(sim, "ctl1")
    await asyncio.sleep(5 * MINUTE)
    born = (
        "karpenter_nodeclaims_created_total",
        "karpenter_nodes_created_total",
        f"{PHASE}_count",
        "operator_nodeclaim_status_condition_transitions_total",
        "gpu_provisioner_arm_operation_duration_seconds_count",
    )
    for name in born:
        assert first.total(name) > 0, name
        assert second.total(name) == 0, name
    assert second.total("gpu_provisioner_nodeclaims", phase="Ready") == 1
    await sim.delete_claim(NAME)
    await gone(sim)
    await asyncio.sleep(5)
    for name in ("karpenter_nodeclaims_terminated_total", "karpenter_nodes_terminated_total"):
        assert first.total(name) == 0
        assert second.total(name) == 1


@simulated(azure=FAST)
async def test_a_restart_in_the_midst_of_a_creation_loses_nothing(sim: Sim) -> None:
    """An operation that starts before the restart and ends after it counts once, with its whole duration."""
    first = await start(sim)
    await sim.apply(node_claim(NAME))
    await asyncio.sleep(20)
    await sim.stop_controller()
    second = await start(sim, "ctl1")
    await ready(sim)
    await asyncio.sleep(60)
    created, ended = "karpenter_nodeclaims_created_total", "gpu_provisioner_arm_operation_duration_seconds"
    assert (first.total(created), second.total(created)) == (1, 0)
    assert (first.total(f"{ended}_count"), second.total(f"{ended}_count", result="succeeded")) == (0, 1)
    assert second.total(f"{ended}_sum", operation="create") >= 60
    took = at(sim.claim(NAME), "condition", "Ready") - at(sim.claim(NAME), "creationTimestamp")
    assert second.total(f"{PHASE}_sum", phase="Ready") == took.total_seconds()


@simulated(azure=FAST)
async def test_a_failed_pool_that_a_successor_finds_is_no_new_failure(sim: Sim) -> None:
    """It failed before the new process started: the previous process counted it."""
    sim.cloud.faults.append(faults.capacity(times=1))
    first = await start(sim)
    await sim.apply(node_claim(NAME))
    failed = "gpu_provisioner_create_failures_total"
    await sim.until(lambda: first.total(failed) == 1, 300, "the pool fails")
    sim.crash()
    second = await start(sim, "ctl1")
    await ready(sim, within_seconds=1800)
    assert (first.total(failed), second.total(failed)) == (1, 0)


@simulated(azure=FAST)
async def test_a_follower_counts_nothing_of_what_the_leader_does(sim: Sim) -> None:
    """Both replicas watch the same claims; the sum over both is correct."""
    leader = await start(sim)
    await asyncio.sleep(10)
    follower = await start(sim, "ctl1")
    await ready(sim)
    await asyncio.sleep(5)
    for name in ("karpenter_nodeclaims_created_total", "karpenter_nodes_created_total", f"{PHASE}_count"):
        assert leader.total(name) > 0
        assert follower.total(name) == 0
    for name in ("gpu_provisioner_nodeclaims", "gpu_provisioner_agent_pools", "karpenter_nodes_allocatable"):
        assert not list(follower.samples(name))
    assert not list(follower.samples("gpu_provisioner_cache_age_seconds", resource="agentpools"))
    assert follower.total("leader_election_master_status") == 0
