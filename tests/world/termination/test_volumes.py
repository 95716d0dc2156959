"""Volumes: a drained Node keeps its machine until its volumes are detached, and the claim names them.

Each case of docs/references/karpenter.md#volume-detachment. The tests take the place of Kubernetes' attach-detach
controller.
"""

import asyncio

import pytest

from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from tests.world.harness import Json, Sim, simulated
from tests.world.main_job import NAME, ready
from tests.world.transcript import FAST, MINUTE, claim_condition, events, node_name, pool_calls, refuse, run_pod

from .common import WHOLE, counted, events_on, up, up_with, went

pytestmark = pytest.mark.matrix(quick=0)

ATTACHMENTS = "volumeattachments.storage.k8s.io"
CLAIMS_OF_VOLUMES = "persistentvolumeclaims"


def attach(sim: Sim, name: str, node: str, *, volume: str | None) -> None:
    """Attach a volume to that Node; `volume` None: an inline volume of a pod."""
    source: Json = {"persistentVolumeName": volume} if volume else {"inlineVolumeSpec": {"accessModes": ["RWO"]}}
    spec = {"attacher": "disk.csi.azure.com", "nodeName": node, "source": source}
    sim.store.create(ATTACHMENTS, {"metadata": {"name": name}, "spec": spec})


def claimed(sim: Sim, name: str, volume: str) -> None:
    """Create a PersistentVolumeClaim that is bound to that volume."""
    sim.store.create(CLAIMS_OF_VOLUMES, {"metadata": {"name": name}, "spec": {"volumeName": volume}}, "default")


def agent(sim: Sim, name: str, node: str, volumes: list[Json]) -> None:
    """Create a pod that is not evicted, with these volumes."""
    run_pod(sim, "template", node, tolerations=[{"operator": "Exists"}])
    pod = sim.store.get("pods", "template", "default")
    assert pod is not None
    sim.store.delete("pods", "template", "default", grace=0)
    spec = {**pod["spec"], "volumes": volumes}
    sim.store.create("pods", {"metadata": {"name": name}, "spec": spec}, "default")


def lists(sim: Sim) -> list[Call]:
    """How often all VolumeAttachments were listed."""
    return sim.audit_log.calls(who="ctl0", verb="LIST", kind="volumeattachments")


async def waits_for(sim: Sim, volume: str) -> None:
    await sim.until(
        lambda: volume in claim_condition(sim, "VolumesDetached")[2], 20, "VolumesDetached names the volume"
    )
    assert claim_condition(sim, "VolumesDetached")[:2] == ("Unknown", "AwaitingVolumeDetachment")
    assert claim_condition(sim, "Drained")[0] == "True"


@simulated(azure=FAST)
async def test_the_machine_waits_until_its_volumes_are_detached(sim: Sim) -> None:
    """A volume that is still attached after the drain is named on the claim and blocks the removal until detached."""
    uid = await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)
    attach(sim, "csi-1", node, volume="pv-1")
    attach(sim, "csi-2", "another-node", volume="pv-2")
    await sim.delete_claim(NAME)
    await waits_for(sim, "pv-1")
    assert "pv-2" not in claim_condition(sim, "VolumesDetached")[2]
    await asyncio.sleep(2 * MINUTE)
    assert not pool_calls(sim, "DELETE")
    assert len(lists(sim)) <= 90
    sim.store.delete(ATTACHMENTS, "csi-1")
    await sim.until(lambda: pool_calls(sim, "DELETE"), 10, "the machine goes")
    await went(sim, uid, WHOLE)
    assert sorted(events_on(sim, "AwaitingVolumeDetachment")) == [("Node", node), ("NodeClaim", NAME)]


HOLD_NOTHING = [
    ("an attachment without a PersistentVolume", None, []),
    (
        "a volume that a staying pod uses",
        "pv-1",
        [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    ),
    ("a volume made for a staying pod", "pv-1", [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]),
]


@pytest.mark.parametrize(("case", "volume", "used"), HOLD_NOTHING, ids=[row[0] for row in HOLD_NOTHING])
@simulated(azure=FAST)
async def test_volumes_that_hold_nothing_up(sim: Sim, case: str, volume: str | None, used: list[Json]) -> None:
    """Volumes that cannot be detached before the machine is deleted do not block the removal."""
    uid = await up(sim)
    node = node_name(sim)
    claimed(sim, "data", "pv-1")
    claimed(sim, "agent-scratch", "pv-1")
    if used:
        agent(sim, "agent", node, used)
    attach(sim, "csi-1", node, volume=volume)
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 5, case)
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_volume_that_two_pods_share_is_not_waited_for_if_one_of_them_stays(sim: Sim) -> None:
    """A volume that a remaining pod uses does not block the removal."""
    uid = await up(sim)
    node = node_name(sim)
    claimed(sim, "shared", "pv-1")
    agent(sim, "agent", node, [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}])
    run_pod(sim, "app", node)
    attach(sim, "csi-1", node, volume="pv-1")
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 30, "the machine goes")
    assert sim.store.get("pods", "app", "default") is None
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_volume_claim_that_is_gone_explains_nothing(sim: Sim) -> None:
    """A remaining pod with a missing PersistentVolumeClaim: the attachment blocks the removal."""
    uid = await up(sim)
    node = node_name(sim)
    agent(sim, "agent", node, [{"name": "v", "persistentVolumeClaim": {"claimName": "lost"}}])
    attach(sim, "csi-1", node, volume="pv-1")
    await sim.delete_claim(NAME)
    await waits_for(sim, "pv-1")
    sim.store.delete(ATTACHMENTS, "csi-1")
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_the_termination_time_ends_the_wait_for_volumes(sim: Sim) -> None:
    """An attached volume blocks the removal until the termination time, and the claim reports it."""
    uid = await up_with(sim, "4m")
    attach(sim, "csi-1", node_name(sim), volume="pv-1")
    await sim.delete_claim(NAME)
    requested_at = sim.now
    await waits_for(sim, "pv-1")
    await sim.until(lambda: pool_calls(sim, "DELETE"), 5 * MINUTE, "the machine goes")
    assert sim.now - requested_at == pytest.approx(4 * MINUTE, abs=2)
    await sim.until(lambda: claim_condition(sim, "VolumesDetached")[0] == "False", 10, "the condition is set")
    _, reason, message = claim_condition(sim, "VolumesDetached")
    assert reason == "TerminationGracePeriodElapsed"
    assert "pv-1" in message
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_volumes_that_stay_attached_are_overdue(sim: Sim) -> None:
    """After six minutes the claim reports the delay once; nothing is deleted, and the wait goes on."""
    metrics = Metrics()
    await sim.start_controller(metrics=metrics)
    uid = await ready(sim)
    attach(sim, "csi-1", node_name(sim), volume="pv-1")
    await sim.delete_claim(NAME)
    await waits_for(sim, "pv-1")
    reported_at = sim.now
    await sim.until(lambda: "overdue" in claim_condition(sim, "VolumesDetached")[2], 7 * MINUTE, "it is overdue")
    assert sim.now - reported_at == pytest.approx(6 * MINUTE, abs=2)
    await asyncio.sleep(30 * MINUTE)
    assert not pool_calls(sim, "DELETE")
    sim.store.delete(ATTACHMENTS, "csi-1")
    await went(sim, uid, WHOLE)
    late = [event for event in events(sim, "AwaitingVolumeDetachment") if "overdue" in event["message"]]
    assert [event["count"] for event in late] == [1]
    assert counted(metrics, "detaching") == 1


@simulated(azure=FAST)
async def test_unreadable_volume_attachments_hold_the_machine_and_are_reported(sim: Sim) -> None:
    """Without permission to list VolumeAttachments the claim names it, and the removal continues once granted."""
    uid = await up(sim)
    message = "volumeattachments is forbidden: no rule"
    allow = refuse(sim, lambda call: call.target.kind == "volumeattachments", 403, "Forbidden", message)
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: "no rule" in claim_condition(sim, "VolumesDetached")[2],
        10,
        "the claim names the missing permission",
    )
    await asyncio.sleep(5 * MINUTE)
    assert not pool_calls(sim, "DELETE")
    assert len(lists(sim)) <= 12
    allow()
    await went(sim, uid, WHOLE)


@simulated(azure=FAST)
async def test_a_pod_that_stays_and_names_an_impossible_volume(sim: Sim) -> None:
    """The pod tolerates every taint, and its volume has a name that no claim can have: the machine is deleted."""
    await up(sim)
    agent(sim, "odd", node_name(sim), [{"name": "v", "persistentVolumeClaim": {"claimName": "a/b"}}])
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 5 * MINUTE, "the machine is deleted")
