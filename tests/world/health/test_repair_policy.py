"""The rows of the repair policy, each just before and just after its toleration, and the limits that hold all repairs.

H1 to H8 are the rows of docs/references/karpenter.md#node-repair; NotReady has its stories in `test_repair.py`. All
invariants are checked throughout.
"""

import asyncio
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.repair_policy import RepairPolicy
from provisioner.api.time import rfc3339
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.azure import faults
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.garbagecollection.common import fleet, one
from tests.world.harness import EPOCH, Sim, node_claim, simulated
from tests.world.kaito.common import OWNERS
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import replaced_once
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, claim_condition, events, node_name, run_pod

from .common import (
    EIGHT,
    LOSS,
    annotate,
    deleted,
    gone,
    other,
    plugin,
    replaced,
    report_to_node,
    set_condition,
    train,
    uid_of,
    unschedulable,
    value,
)

pytestmark = pytest.mark.matrix(quick=0)


def registered(sim: Sim, name: str) -> bool:
    return sim.condition(name, "Registered") == "True"


# H1: each row, just before and just after

CONDITIONS = [
    ("KubeletProblem", "True", 10),
    ("ContainerRuntimeProblem", "True", 10),
    ("GPUMissing", "True", 10),
    ("UnhealthyNvidiaDevicePlugin", "True", 15),
    ("ReadonlyFilesystem", "True", 5),
    ("FilesystemCorruptionProblem", "True", 5),
    ("KernelDeadlock", "True", 5),
    ("kubernetes.azure.com/NodeHealthy", "False", 35),
]
# A user opts in to the replacement of machines by conditions.
OPTED = Policy(
    repair_policies=tuple(
        RepairPolicy(condition=condition, status=status, seconds=minutes * MINUTE, action="Replace", agreement="None")
        for condition, status, minutes in CONDITIONS
    )
)


@pytest.mark.parametrize(
    ("condition", "status", "minutes"),
    [row for row in CONDITIONS if row[0] != "GPUMissing"],
    ids=[row[0] for row in CONDITIONS if row[0] != "GPUMissing"],
)
@simulated(azure=FAST)
async def test_h1_a_condition_cordons_the_node_at_its_time(sim: Sim, condition: str, status: str, minutes: int) -> None:
    """By default it is reported, and the Node gets no new pods while it lasts; the machine and its pods stay."""
    await one(sim)
    train(sim, node_name(sim))
    set_condition(sim, condition, status)
    await asyncio.sleep(minutes * MINUTE - 5)
    assert not unschedulable(sim)
    assert "it gets no new pods if this lasts" in claim_condition(sim, "NodeHealthy")[2]
    await asyncio.sleep(15)
    assert unschedulable(sim)
    await asyncio.sleep(90 * MINUTE)
    assert not deleted(sim)
    set_condition(sim, condition, other(status))
    await asyncio.sleep(15)
    assert not unschedulable(sim)
    assert claim_condition(sim, "NodeHealthy")[:2] == ("True", "NodeHealthy")


@pytest.mark.parametrize(("condition", "status", "minutes"), CONDITIONS, ids=[row[0] for row in CONDITIONS])
@simulated(azure=FAST)
async def test_h1_a_condition_replaces_the_machine_at_its_time(
    sim: Sim, condition: str, status: str, minutes: int
) -> None:
    """Of a user who opted in. The condition for almost so long, then its opposite: nothing. So long: replaced, once."""
    metrics = Metrics()
    uid = await one(sim, metrics=metrics, policy=OPTED)
    set_condition(sim, condition, status)
    await asyncio.sleep(minutes * MINUTE - 15)
    set_condition(sim, condition, other(status))
    await asyncio.sleep(20 * MINUTE)
    assert not deleted(sim)
    assert claim_condition(sim, "NodeHealthy")[:2] == ("True", "NodeHealthy")
    set_condition(sim, condition, status)
    await asyncio.sleep(minutes * MINUTE - 5)
    assert not deleted(sim)
    reported = claim_condition(sim, "NodeHealthy")
    assert reported[:2] == ("False", "NodeConditionUnhealthy")
    assert f"{condition}={status} (Found) since" in reported[2]
    await sim.until(lambda: deleted(sim), 45, "its claim is deleted")
    await replaced(sim, uid)
    (stated,) = events(sim, "NodeRepair")
    assert f"has had condition {condition}={status} (Found) for {minutes} min" in stated["message"]
    await sim.settled(quiet_seconds=70)


WAITING = [
    *("GPUClockThrottling", "FrequentKubeletRestart", "UnhealthyNvidiaDCGMServices", "GpuMemWatch"),
    # Only an agent reports these; the kubelet shows all GPUs.
    *("GPUMissing", "XIDErrors", "GPUXIDErrors", "NVLinkStatusInactive", "IBLinkFlapping"),
    # An advisory of Azure about spot capacity has this condition too.
    "PreemptionScheduled",
]


@pytest.mark.parametrize("condition", WAITING)
@simulated(azure=FAST)
async def test_h1_a_condition_that_is_only_reported(sim: Sim, condition: str) -> None:
    """The condition lasts for hours: one Event, one condition of the claim, and the machine is kept."""
    await one(sim)
    set_condition(sim, condition, "True")
    await asyncio.sleep(180 * MINUTE)
    assert not deleted(sim)
    assert not unschedulable(sim)
    assert sim.condition(NAME, "Ready") == "True"
    (stated,) = events(sim, "NodeConditionUnhealthy")
    assert f"{condition}=True" in stated["message"]
    assert stated["message"] == claim_condition(sim, "NodeHealthy")[2]


XID = Policy(repair_policies=(RepairPolicy(condition="XIDErrors", seconds=600.0, action="Replace"),))


@pytest.mark.parametrize("policy", [Policy(), XID], ids=["by default", "a user opted in"])
@pytest.mark.parametrize("gap", [10.0, 60.0, 15 * MINUTE], ids=lambda seconds: f"{seconds:.0f} s")
@simulated(azure=FAST)
async def test_h1_an_old_xid_and_a_plugin_that_restarts(sim: Sim, gap: float, policy: Policy) -> None:
    """The Xid is an hour old when the plugin is away: each signal lasts for its own time, so the machine is kept."""
    plugin(sim)
    await one(sim, policy=policy)
    node = node_name(sim)
    set_condition(sim, "XIDErrors", "True")
    await asyncio.sleep(60 * MINUTE)
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(gap)
    assert not deleted(sim)
    sim.nodes.start_plugin(node)
    await asyncio.sleep(20 * MINUTE)
    assert not deleted(sim)
    assert not unschedulable(sim)


@simulated(azure=FAST, nodes=NodeSettings(register_seconds=1.0))
async def test_h1_an_old_condition_and_a_kubelet_that_restarts(sim: Sim) -> None:
    """The plugin registers one second after the kubelet: the Node shows no GPU for one status period only."""
    plugin(sim)
    await one(sim, policy=XID)
    set_condition(sim, "XIDErrors", "True")
    await asyncio.sleep(60 * MINUTE)
    sim.nodes.restart_kubelet(node_name(sim))
    await asyncio.sleep(20 * MINUTE)
    assert not deleted(sim)


@simulated(azure=FAST)
async def test_h1_an_old_kubelet_problem_and_a_node_that_is_not_ready_for_a_moment(sim: Sim) -> None:
    """Ten minutes of NotReady count, whatever else was reported before."""
    await one(sim, policy=OPTED)
    train(sim, node_name(sim))
    set_condition(sim, "KubeletProblem", "True")
    await asyncio.sleep(60 * MINUTE)
    sim.nodes.set_ready(node_name(sim), False)
    await asyncio.sleep(9 * MINUTE)
    assert not deleted(sim)
    sim.nodes.set_ready(node_name(sim), True)
    await asyncio.sleep(30 * MINUTE)
    assert not deleted(sim)


@pytest.mark.parametrize("policy", [Policy(), XID], ids=["by default", "a user opted in"])
@simulated(azure=FAST)
async def test_h1_an_xid_with_missing_gpus(sim: Sim, policy: Policy) -> None:
    """The plugin runs and shows no device: replaced ten minutes after that is a loss, however old the Xid is."""
    plugin(sim)
    uid = await one(sim, policy=policy)
    set_condition(sim, "XIDErrors", "True")
    await asyncio.sleep(60 * MINUTE)
    sim.nodes.kill_plugin(node_name(sim))
    await asyncio.sleep(LOSS + 10 * MINUTE - 5)
    assert not deleted(sim)
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_h1_gpus_that_are_gone_for_16_minutes(sim: Sim) -> None:
    """The six minutes in which a plugin may restart, and ten more; then the machine is replaced."""
    plugin(sim)
    uid = await one(sim)
    node = node_name(sim)
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(LOSS + 9 * MINUTE)
    assert claim_condition(sim, "Initialized")[:2] == ("False", "GPUUnavailable")
    sim.nodes.start_plugin(node)
    await asyncio.sleep(30 * MINUTE)
    assert sim.condition(NAME, "Ready") == "True"
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(LOSS + 10 * MINUTE - 5)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 45, "its claim is deleted")
    await replaced(sim, uid)
    (stated,) = events(sim, "NodeRepair")
    assert "0 of 1 allocatable" in stated["message"]


@simulated(azure=FAST)
async def test_h1_a_new_leader_while_gpus_are_gone(sim: Sim) -> None:
    """The claim reports that the machine is at fault: the time does not begin with the next leader's diagnosis."""
    plugin(sim)
    uid = await one(sim)
    sim.nodes.kill_plugin(node_name(sim))
    await asyncio.sleep(LOSS + 2 * MINUTE)
    assert claim_condition(sim, "Initialized")[:2] == ("False", "GPUUnavailable")
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(8 * MINUTE - 5)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 2 * MINUTE, "its claim is deleted")
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_h1_a_plugin_that_no_machine_can_run_replaces_none(sim: Sim) -> None:
    """The plugin's DaemonSet selects a label that no Node has: the GPUs are gone, and the machine is kept."""
    plugin(sim, nodeSelector={"no": "such-label"})
    await one(sim, policy=XID)
    set_condition(sim, "XIDErrors", "True")
    sim.nodes.stop_plugin(node_name(sim))
    await asyncio.sleep(120 * MINUTE)
    assert not deleted(sim)
    assert claim_condition(sim, "Initialized")[:2] == ("False", "GPUUnavailable")


@pytest.mark.parametrize("xid", [False, True], ids=["no Xid", "its Xid"])
@simulated(azure=FAST)
async def test_h1_a_machine_with_seven_of_eight_gpus(sim: Sim, *, xid: bool) -> None:
    """It is cordoned after seven minutes; its pods with GPUs keep it as long as the row states, then it is replaced."""
    row = RepairPolicy(signal="GpuPartial", seconds=600.0, action="Replace", pods_seconds=44 * MINUTE)
    await sim.start_controller(policy=Policy(repair_policies=(row, *XID.repair_policies)))
    await sim.apply(node_claim(NAME, size=EIGHT))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    uid, node = uid_of(sim, NAME), node_name(sim)
    train(sim, node, 4)
    if xid:
        set_condition(sim, "XIDErrors", "True")
    sim.nodes.set_unhealthy_gpus(node, 1)
    await asyncio.sleep(LOSS - 15)
    assert "unschedulable" not in sim.nodes_of(NAME)[0]["spec"]
    await asyncio.sleep(90)
    found = sim.nodes_of(NAME)[0]
    assert found["spec"]["unschedulable"] is True
    assert labels.CORDONED_AT in found["metadata"]["annotations"]
    await asyncio.sleep(50 * MINUTE)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 8 * MINUTE, "its claim is deleted")
    await replaced(sim, uid, within_seconds=8 * MINUTE)


@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "the controller restarts"])
@simulated(azure=FAST)
async def test_h1_a_cordon_ends_only_with_its_cause(sim: Sim, restarted: bool) -> None:
    """A Node with 7 of 8 GPUs that was NotReady for a minute stays cordoned until the eighth is back."""
    plugin(sim)
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=EIGHT))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    node = node_name(sim)
    gpus = {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": gpus}]}
    sim.store.create("pods", {"metadata": {"name": "trains"}, "spec": spec}, "default")
    sim.nodes.set_unhealthy_gpus(node, 1)
    await asyncio.sleep(LOSS + 3 * MINUTE)
    shown: list[bool] = []
    sim.store.subscribe(lambda event, kind, obj, before: shown.append(unschedulable(sim)) if kind == "nodes" else None)
    assert unschedulable(sim)
    sim.nodes.set_ready(node, None)
    await asyncio.sleep(MINUTE)
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1")
    sim.nodes.set_ready(node, True)
    await asyncio.sleep(10 * MINUTE)
    assert all(shown)
    sim.nodes.set_gpus(node, 8)
    await sim.until(lambda: not unschedulable(sim), 60, "it is uncordoned")


@simulated(azure=FAST)
async def test_h1_a_machine_with_seven_of_eight_gpus_and_no_pods(sim: Sim) -> None:
    """Without pods that use GPUs it is replaced ten minutes after the loss."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=EIGHT))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    uid = uid_of(sim, NAME)
    sim.nodes.set_unhealthy_gpus(node_name(sim), 1)
    await asyncio.sleep(LOSS + 10 * MINUTE - 5)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=4 * MINUTE)


@simulated(azure=FAST)
async def test_h1_a_machine_with_seven_of_eight_gpus_is_kept_while_no_other_can_be_had(sim: Sim) -> None:
    """Another claim of the size finds no capacity: the machine says why it is kept, takes pods, and goes later."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=EIGHT))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    uid = uid_of(sim, NAME)
    sim.cloud.faults.append(faults.capacity())
    await sim.apply(node_claim("ws2", size=EIGHT))
    sim.nodes.set_unhealthy_gpus(node_name(sim), 1)
    await asyncio.sleep(3 * 60 * MINUTE)
    assert not deleted(sim)
    assert "no other machine can be had now" in claim_condition(sim, "Initialized")[2]
    assert not unschedulable(sim)
    sim.cloud.faults.clear()
    await replaced(sim, uid, within_seconds=15 * MINUTE)


@simulated(azure=FAST)
async def test_h1_a_cordon_is_undone_when_the_gpus_return(sim: Sim) -> None:
    """The Node takes pods again; a Node that a user cordoned stays cordoned."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=EIGHT))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    node = node_name(sim)
    for by_user in (False, True):
        if by_user:
            sim.store.patch("nodes", node, {"spec": {"unschedulable": True}})
        sim.nodes.set_unhealthy_gpus(node, 1)
        await asyncio.sleep(LOSS + 2 * MINUTE)
        assert sim.nodes_of(NAME)[0]["spec"]["unschedulable"] is True
        sim.nodes.start_plugin(node)
        await asyncio.sleep(2 * MINUTE)
        found = sim.nodes_of(NAME)[0]
        assert bool(found["spec"].get("unschedulable")) is by_user
        assert labels.CORDONED_AT not in found["metadata"].get("annotations", {})
    assert not deleted(sim)


@simulated(azure=FAST)
async def test_h1_a_machine_that_never_registers(sim: Sim) -> None:
    """A pool that runs for 15 minutes without a Node: its claim is deleted, after the deadline was reported."""
    sim.nodes.never_register(NAME)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Launched") == "True", 400, "its pool runs")
    uid = uid_of(sim, NAME)
    await asyncio.sleep(15 * MINUTE - 5)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), MINUTE, "its claim is deleted")
    assert [e for e in events(sim, "NodeNotFound") if "overdue" in e["message"]]
    await sim.until(lambda: sim.claim(NAME) is None and not sim.pools_of(uid), 5 * MINUTE, "it is gone")
    (stated,) = events(sim, "NodeRepair")
    assert "has been running without a Node for 15 min" in stated["message"]


@pytest.mark.parametrize("fault", ["the machine", "the plugin is absent"])
@simulated(azure=FAST)
async def test_h1_a_machine_that_never_gets_its_gpus(sim: Sim, fault: str) -> None:
    """After 20 minutes it is replaced if the plugin runs there and shows no device, and kept if there is no plugin."""
    if fault == "the machine":
        plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 400, "its Node is here")
    uid = uid_of(sim, NAME)
    await asyncio.sleep(20 * MINUTE - 5)
    assert not deleted(sim)
    if fault == "the machine":
        await replaced(sim, uid, within_seconds=5 * MINUTE)
        return
    await asyncio.sleep(120 * MINUTE)
    assert not deleted(sim)
    assert "overdue" in claim_condition(sim, "Initialized")[2]


@pytest.mark.parametrize("succeeded", [False, True], ids=["one process", "a new leader"])
@pytest.mark.parametrize("usable", [False, True], ids=["never usable", "was usable"])
@simulated(azure=FAST)
async def test_h1_a_plugin_that_is_installed_late(sim: Sim, *, usable: bool, succeeded: bool) -> None:
    """For two hours no plugin was there. One that has just started has the same time as one that restarts, also if a
    user upgrades the controller together with it.
    """
    if usable:
        await one(sim)
        sim.nodes.stop_plugin(node_name(sim))
    else:
        sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
        await sim.start_controller()
        await sim.apply(node_claim(NAME))
        await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 400, "its Node is here")
    await asyncio.sleep(120 * MINUTE)
    plugin(sim)
    if succeeded:
        sim.crash()
        await sim.start_controller("ctl1")
    await asyncio.sleep(LOSS - 10)
    assert not deleted(sim)
    assert not unschedulable(sim)
    sim.nodes.start_plugin(node_name(sim))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", MINUTE, "it is Ready")


@simulated(azure=FAST)
async def test_h1_a_row_of_the_settings_for_a_condition_of_another_agent(sim: Sim) -> None:
    """AcceleratedHardwareReady=False for three minutes, as the settings say."""
    row = RepairPolicy(condition="AcceleratedHardwareReady", status="False", seconds=180, action="Replace")
    uid = await one(sim, policy=Policy(repair_policies=(row,)))
    set_condition(sim, "AcceleratedHardwareReady", "False")
    await asyncio.sleep(3 * MINUTE - 5)
    assert not deleted(sim)
    await replaced(sim, uid)


@simulated(azure=FAST)
async def test_gpus_that_appear_late(sim: Sim) -> None:
    """A machine that joins after three minutes and shows its GPUs after ten survives."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 10 * MINUTE
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 20 * MINUTE, "the claim is Ready")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)


# H2: what takes turns


@simulated(azure=FAST)
async def test_h2_two_conditions_of_one_group_take_turns(sim: Sim) -> None:
    """KubeletProblem and ContainerRuntimeProblem alternate every 30 s: replaced after ten minutes."""
    uid = await one(sim, policy=OPTED)
    pair = ("KubeletProblem", "ContainerRuntimeProblem")
    for turn in range(19):
        now, before = pair[turn % 2], pair[1 - turn % 2]
        set_condition(sim, now, "True")
        set_condition(sim, before, "False")
        await asyncio.sleep(30)
    assert not deleted(sim)
    await asyncio.sleep(20)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 45, "its claim is deleted in time")
    await replaced(sim, uid)


@pytest.mark.parametrize("minute", [1, 9])
@simulated(azure=FAST)
async def test_h2_a_restart_continues_the_time_of_a_condition(sim: Sim, minute: int) -> None:
    """A new leader continues from the claim's condition."""
    uid = await one(sim, policy=OPTED)
    begun = sim.now
    set_condition(sim, "KubeletProblem", "True")
    await asyncio.sleep(minute * MINUTE)
    sim.crash()
    await sim.start_controller("ctl1", policy=OPTED)
    await asyncio.sleep(begun + 10 * MINUTE - sim.now - 5)
    assert not deleted(sim)
    # A new process observes the signal for half of its time at least.
    await sim.until(lambda: deleted(sim), 6 * MINUTE, "its claim is deleted")
    await replaced(sim, uid)


# H3, H7: limits


@simulated(azure=FAST)
async def test_h3_two_of_five_with_a_condition_go_one_after_the_other(sim: Sim) -> None:
    """The second claim is deleted when the first one is gone, and states what it waits for."""
    names = await fleet(sim, 5, policy=OPTED)
    first, second = names[1], names[3]
    for name in (first, second):
        set_condition(sim, "KernelDeadlock", "True", name)
        await asyncio.sleep(1)
    uid = uid_of(sim, second)
    await sim.until(lambda: deleted(sim, first), 7 * MINUTE, "the first is deleted")
    assert not deleted(sim, second)
    waits = "of 5 Nodes are unhealthy, repaired 1 at a time"
    await sim.until(lambda: waits in claim_condition(sim, "NodeHealthy", second)[2], MINUTE, "it states the cause")
    await replaced(sim, uid, second, within_seconds=8 * MINUTE)
    assert sorted(c["metadata"]["name"] for c in sim.store.list(CLAIMS)) == sorted({*names} - {first, second})


@simulated(azure=FAST)
async def test_h3_four_of_five_with_a_condition_are_left_alone_until_most_are_back(sim: Sim) -> None:
    """Four get a condition of one group within ten minutes: none is replaced; when three recover, the fourth is."""
    names = await fleet(sim, 5, policy=OPTED)
    for name in names[:4]:
        set_condition(sim, "ReadonlyFilesystem", "True", name)
        await asyncio.sleep(MINUTE)
    await asyncio.sleep(40 * MINUTE)
    assert not any(deleted(sim, name) for name in names)
    assert "4 of 5 Nodes became unhealthy within 10 min" in claim_condition(sim, "NodeHealthy", names[0])[2]
    uid = uid_of(sim, names[0])
    for name in names[1:4]:
        set_condition(sim, "ReadonlyFilesystem", "False", name)
    await replaced(sim, uid, names[0])
    assert {sim.condition(name, "Ready") for name in names[1:]} == {"True"}


@pytest.mark.parametrize("policy", [Policy(), OPTED], ids=["by default", "a user opted in"])
@pytest.mark.parametrize("condition", ["GPUMissing", "KernelDeadlock", "kubernetes.azure.com/NodeHealthy"])
@pytest.mark.parametrize("count", [2, 6])
@simulated(azure=FAST)
async def test_h7_an_agent_that_is_wrong_about_all_nodes(sim: Sim, count: int, condition: str, policy: Policy) -> None:
    """A condition flips on all Nodes at once: nothing is deleted or cordoned, whatever its toleration."""
    names = await fleet(sim, count, policy=policy)
    status = "False" if "/" in condition else "True"
    for name in names:
        set_condition(sim, condition, status, name)
    await asyncio.sleep(90 * MINUTE)
    assert not any(deleted(sim, name) for name in names)
    assert not any(node["spec"].get("unschedulable") for name in names for node in sim.nodes_of(name))
    for name in names:
        set_condition(sim, condition, other(status), name)
    await asyncio.sleep(5 * MINUTE)
    assert {claim_condition(sim, "NodeHealthy", name)[0] for name in names} == {"True"}


# H4: a bad image


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarted meanwhile"])
@simulated(azure=FAST)
async def test_h4_a_bad_image_costs_two_machines(sim: Sim, restarts: bool) -> None:
    """Every machine lacks its GPUs: two are replaced, the third is kept with the image in its condition."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    metrics = Metrics()
    await sim.start_controller(metrics=metrics)
    for number in range(3):
        name = f"gpu{number}"
        await sim.apply(node_claim(name))
        await sim.until(partial(registered, sim, name), 400, "its Node is here")
        if number < 2:
            await sim.until(partial(deleted, sim, name), 25 * MINUTE, "it is replaced")
            await sim.until(partial(gone, sim, name), 10 * MINUTE, "it is gone")
        if restarts:
            sim.crash(f"ctl{number}")
            metrics = Metrics()
            await sim.start_controller(f"ctl{number + 1}", metrics=metrics)
    await asyncio.sleep(25 * MINUTE)
    assert not deleted(sim, "gpu2")
    reported = claim_condition(sim, "NodeHealthy", "gpu2")
    image = sim.nodes_of("gpu2")[0]["metadata"]["labels"][labels.AKS_IMAGE_VERSION]
    assert reported[:2] == ("False", "RepairSuspended")
    assert image in reported[2]
    assert "repair suspended" in claim_condition(sim, "Initialized", "gpu2")[2]
    assert value(metrics, "repairs_suspended") == 1
    # Not only within the hour, and not only by this process.
    await asyncio.sleep(180 * MINUTE)
    sim.crash("ctl3" if restarts else "ctl0")
    await sim.start_controller("ctl9")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim, "gpu2")
    assert len(events(sim, "NodeRepair")) == 2
    await annotate(sim, "gpu2", repair=rfc3339(EPOCH + timedelta(seconds=sim.now + 3600)))
    await sim.until(lambda: deleted(sim, "gpu2"), 5 * MINUTE, "a user allows its repair")


@simulated(azure=FAST)
async def test_h4_another_image_is_replaced_again(sim: Sim) -> None:
    """After two replacements the third machine has another image: it is replaced."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.start_controller()
    for number in range(3):
        name = f"gpu{number}"
        if number == 2:
            sim.cloud.configure(node_image_release="202609.01.0")
        await sim.apply(node_claim(name))
        await sim.until(partial(deleted, sim, name), 35 * MINUTE, "it is replaced")
        await sim.until(partial(gone, sim, name), 10 * MINUTE, "it is gone")


# H5: AKS's own auto-repair


@pytest.mark.parametrize("end", ["End", "Error", "never"])
@simulated(azure=FAST)
async def test_h5_aks_repairs_the_machine_itself(sim: Sim, end: str) -> None:
    """A reboot by AKS delays a repair for a condition too, until its end, its error, or its usual time."""
    uid = await one(sim, policy=OPTED)
    node = node_name(sim)
    set_condition(sim, "KubeletProblem", "True")
    await asyncio.sleep(5 * MINUTE)
    report_to_node(sim, node, "NodeRebootStart")
    await asyncio.sleep(10 * MINUTE)
    assert not deleted(sim)
    if end == "End":
        report_to_node(sim, node, "NodeRebootEnd")
        set_condition(sim, "KubeletProblem", "False")
        await asyncio.sleep(30 * MINUTE)
        assert not deleted(sim)
        return
    if end == "Error":
        report_to_node(sim, node, "NodeRebootError")
    await replaced(sim, uid, within_seconds=(4 if end == "Error" else 14) * MINUTE)


# H6: KAITO


@OWNERS
@simulated(azure=FAST)
async def test_h6_kaito_replaces_a_machine_with_a_condition_once(sim: Sim, owner: Owner) -> None:
    """The claim is deleted, and KAITO creates one other; two machines never exist at a time."""
    await sim.start_controller(elect=False, policy=OPTED)
    async with replaced_once(sim, owner) as claim:
        set_condition(sim, "GPUMissing", "True", claim["metadata"]["name"])


# H8: pods


@simulated(azure=FAST)
async def test_h8_a_protected_pod_holds_a_machine_with_a_condition_until_the_bound(sim: Sim) -> None:
    """A pod with do-not-disrupt delays the drain by five minutes at most."""
    uid = await one(sim, policy=OPTED)
    run_pod(sim, "kept", node_name(sim), annotations={labels.DO_NOT_DISRUPT: "true"})
    set_condition(sim, "KernelDeadlock", "True")
    await sim.until(lambda: deleted(sim), 6 * MINUTE, "its claim is deleted")
    begun = sim.now
    await sim.until(lambda: not sim.pools_of(uid), 9 * MINUTE, "its pool is deleted")
    assert 4 * MINUTE < sim.now - begun < 8 * MINUTE


# S5 (b), and plugins


@simulated(azure=FAST)
async def test_s5b_a_plugin_that_is_dead_for_good_costs_one_replacement(sim: Sim) -> None:
    """The plugin of one machine stops for good: its claim is deleted once, and the next machine serves."""
    plugin(sim)
    names = await fleet(sim, 2)
    uid = uid_of(sim, names[0])
    sim.nodes.kill_plugin(node_name(sim, names[0]))
    await sim.until(lambda: deleted(sim, names[0]), 18 * MINUTE, "its claim is deleted")
    await replaced(sim, uid, names[0])
    await sim.apply(node_claim("next"))
    await sim.until(lambda: sim.condition("next", "Ready") == "True", 10 * MINUTE, "the replacement is Ready")
    await asyncio.sleep(120 * MINUTE)
    assert len(events(sim, "NodeRepair")) == 1
    assert sim.condition(names[1], "Ready") == "True"


RESTARTS = (
    RepairPolicy(signal="GpuGone", seconds=240, action="RestartPlugin"),
    RepairPolicy(signal="GpuGone", seconds=600, action="Replace"),
)


@simulated(azure=FAST)
async def test_the_plugin_is_restarted_once_before_the_machine_is_replaced(sim: Sim) -> None:
    """With a row that restarts it, the plugin's pod is deleted once at minute ten; the machine is replaced later."""
    plugin(sim)
    uid = await one(sim, policy=Policy(repair_policies=RESTARTS))
    node = node_name(sim)

    def pods() -> list[str]:
        found = sim.store.list("pods", "kube-system")
        return [pod["metadata"]["uid"] for pod in found if pod["spec"].get("nodeName") == node]

    before = pods()
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(LOSS + 3 * MINUTE)
    assert pods() == before
    await asyncio.sleep(3 * MINUTE)
    restarted = pods()
    assert len(restarted) == 1
    assert restarted != before
    await asyncio.sleep(2 * MINUTE)
    assert pods() == restarted
    await replaced(sim, uid, within_seconds=8 * MINUTE)


@simulated(azure=FAST)
async def test_a_dry_run_reports_what_it_would_do(sim: Sim) -> None:
    """A machine that is due: an Event and a metric, and nothing is deleted or cordoned."""
    metrics = Metrics()
    await one(sim, policy=msgspec.structs.replace(OPTED, repair_dry_run=True), metrics=metrics)
    set_condition(sim, "GPUMissing", "True")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
    assert not sim.nodes_of(NAME)[0]["spec"].get("unschedulable")
    assert value(metrics, "repairs_dry_run") == 1
    (stated,) = events(sim, "NodeRepairDryRun")
    assert stated["message"].startswith("Dry run: Deleted NodeClaim: Node")


@simulated(azure=FAST)
async def test_a_disabled_claim_is_kept(sim: Sim) -> None:
    """A claim with the annotation is kept whatever condition its Node has."""
    await one(sim, policy=OPTED)
    await annotate(sim, NAME, repair="disabled")
    set_condition(sim, "KernelDeadlock", "True")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
