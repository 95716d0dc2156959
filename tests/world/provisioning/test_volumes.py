"""The volumes of pending pods decide in which zone their machine is bought, and whether one is bought at all."""

import asyncio

import pytest
from aiohttp import web

from provisioner.api.volume import SELECTED_NODE
from provisioner.simulator.audit_log import Call
from tests.world.demand import claims_of, node_class, node_pool, pending, pod, pod_events
from tests.world.harness import Sim, simulated
from tests.world.transcript import refuse

from .common import HOURS, claim, disk, disk_class, machines, misfits, on_each_node, with_volume

ZONE = "topology.kubernetes.io/zone"
KINDS = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")


async def started(sim: Sim) -> None:
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()


def zones(sim: Sim) -> list[list[str]]:
    """The zones that each NodeClaim requires."""
    return sorted(
        one["values"] for found in claims_of(sim) for one in found["spec"]["requirements"] if one["key"] == ZONE
    )


@simulated()
async def test_machines_are_bought_in_the_zones_of_volumes(sim: Sim) -> None:
    """Of a bound volume the zone of its disk, of an unbound one a zone of its StorageClass."""
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["westeurope-3"]}]}]
    disk_class(sim, "zonal", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=topologies)
    disk(sim, "v", "westeurope-2")
    claim(sim, "bound", volumeName="v")
    claim(sim, "unbound", storageClassName="zonal")
    await started(sim)
    await pending(sim, with_volume("a", "bound"), with_volume("b", "unbound"))
    await sim.until(lambda: len(claims_of(sim)) == 2, 20.0, "the NodeClaims")
    assert zones(sim) == [["westeurope-2"], ["westeurope-3"]]


@simulated()
async def test_pods_that_wait_for_a_volume(sim: Sim) -> None:
    """Each Event names the cause, a pod beside them gets its machine; a pod gets one once its volume is there."""
    disk_class(sim, "immediate", volumeBindingMode="Immediate")
    claim(sim, "waiting", storageClassName="immediate")
    await started(sim)
    await pending(sim, with_volume("early", "waiting"), with_volume("lost", "none"), pod("good"))
    await sim.until(lambda: len(claims_of(sim)) == 1, 20.0, "the NodeClaim of the good pod")
    await sim.until(lambda: pod_events(sim, "early") and pod_events(sim, "lost"), 5.0, "the Events")
    assert pod_events(sim, "early") == [
        (
            "FailedScheduling",
            "Failed to schedule pod, PersistentVolumeClaim default/waiting: it is not bound, and StorageClass immediate"
            " binds volumes at once: the pod waits for its volume",
        )
    ]
    (message,) = pod_events(sim, "lost")
    assert message[1] == "Failed to schedule pod, PersistentVolumeClaim default/none does not exist"
    disk(sim, "v", "westeurope-1")
    completed = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}
    sim.store.patch("persistentvolumeclaims", "waiting", completed, "default")
    await sim.until(lambda: zones(sim) == [["westeurope-1"]], 20.0, "a machine in the zone of the volume")


@simulated()
async def test_without_volumes_nothing_is_read(sim: Sim) -> None:
    """Volumes are read only for pods that use one, and never watched."""
    await started(sim)
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim), 15.0, "a NodeClaim")

    def reads() -> set[str]:
        return {
            call.verb for call in sim.audit_log.calls() if call.target.kind in KINDS and call.who in sim.controllers
        }

    assert not reads()
    await pending(sim, with_volume("q", "none"))
    await sim.until(lambda: pod_events(sim, "q"), 15.0, "the Event")
    assert reads() == {"GET"}


@simulated()
async def test_many_volumes_are_read_in_one_list(sim: Sim) -> None:
    """30 pods with a volume each cost one LIST of a kind for each decision."""
    await started(sim)
    for number in range(30):
        disk(sim, f"v{number}", f"westeurope-{number % 3 + 1}")
        claim(sim, f"c{number}", volumeName=f"v{number}")
    await pending(sim, *(with_volume(f"p{number}", f"c{number}") for number in range(30)))
    await sim.until(lambda: len(claims_of(sim)) == 30, 20.0, "the NodeClaims")
    read = [call for call in sim.audit_log.calls() if call.target.kind in KINDS and call.who in sim.controllers]
    assert {(call.verb, call.target.kind) for call in read} == {("LIST", kind) for kind in KINDS[:2]}
    assert [zone for (zone,) in zones(sim)] == [f"westeurope-{number // 10 + 1}" for number in range(30)]


@simulated()
async def test_without_the_right_to_read_volumes(sim: Sim) -> None:
    """Of an older chart: a pod with a volume gets an Event, the others get their machines."""
    refuse(sim, lambda call: call.target.kind in KINDS, 403, "Forbidden")
    await started(sim)
    await pending(sim, with_volume("a", "c"), pod("b"))
    await sim.until(lambda: len(claims_of(sim)) == 1, 20.0, "a NodeClaim")
    await sim.until(lambda: pod_events(sim, "a"), 5.0, "the Event")
    assert "PersistentVolumeClaim default/c cannot be read: 403 Forbidden" in pod_events(sim, "a")[0][1]


@pytest.mark.parametrize(
    ("kind", "name", "request_of"),
    [
        ("persistentvolumeclaims", "odd", "get PersistentVolumeClaim default/odd"),
        ("persistentvolumes", "v", "get PersistentVolume v"),
    ],
)
@simulated()
async def test_one_object_that_cannot_be_read(sim: Sim, kind: str, name: str, request_of: str) -> None:
    """The pod that needs it has its name and the cause; other pods with volumes get their machines."""
    refuse(sim, lambda call: (call.target.kind, call.target.name) == (kind, name), 403, "Forbidden", "no")
    for volume, claimed in (("v", "odd"), ("w", "good")):
        disk(sim, volume, "westeurope-2")
        claim(sim, claimed, volumeName=volume)
    await started(sim)
    await pending(sim, with_volume("a", "odd"), with_volume("b", "good"))
    await sim.until(lambda: len(claims_of(sim)) == 1, 20.0, "a NodeClaim")
    await sim.until(lambda: pod_events(sim, "a"), 5.0, "the Event")
    cause = f"PersistentVolumeClaim default/odd cannot be read: 403 Forbidden: {request_of}: no"
    assert cause in pod_events(sim, "a")[0][1]
    assert pod_events(sim, "b")[0][0] == "Nominated"


@simulated()
async def test_storage_classes_that_cannot_be_read(sim: Sim) -> None:
    """Pods whose claims are bound need none of them."""
    refuse(sim, lambda call: call.target.kind == "storageclasses", 403, "Forbidden", "no")
    disk(sim, "w", "westeurope-2")
    claim(sim, "good", volumeName="w")
    claim(sim, "odd", storageClassName="disk")
    await started(sim)
    await pending(sim, with_volume("a", "odd"), with_volume("b", "good"))
    await sim.until(lambda: pod_events(sim, "a"), 20.0, "the Event")
    assert "default/odd cannot be read: 403 Forbidden: list storageclasses: no" in pod_events(sim, "a")[0][1]
    await sim.until(lambda: len(claims_of(sim)) == 1, 20.0, "a NodeClaim")


@simulated()
async def test_an_api_server_that_does_not_answer_is_waited_for_once(sim: Sim) -> None:
    """Of five volumes one request times out; the pod without a volume gets its machine in the same decision."""

    async def silence(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.target.kind == "persistentvolumeclaims" and call.who in sim.controllers:
            await asyncio.sleep(3600)
        return None

    sim.world.before.append(silence)
    await started(sim)
    await pending(sim, *(with_volume(f"p{number}", f"c{number}") for number in range(5)), pod("plain"))
    await sim.until(lambda: claims_of(sim), 30.0, "a NodeClaim for the pod without a volume")
    reads = [call for call in sim.audit_log.calls(kind="persistentvolumeclaims") if call.who in sim.controllers]
    assert len(reads) == 1


@pytest.mark.parametrize("claim_name", ["a/b", "..", "x" * 300, "bound"])
@simulated()
async def test_a_volume_by_a_name_that_no_object_has(sim: Sim, claim_name: str) -> None:
    """The API server accepts any text as the name of a claim and of its volume: only that pod waits, with the cause."""
    claim(sim, "bound", volumeName="../a")
    await started(sim)
    await pending(sim, with_volume("odd", claim_name))
    await sim.until(lambda: pod_events(sim, "odd"), 15.0, "an Event on the pod")
    assert "does not exist" in pod_events(sim, "odd")[0][1]
    await pending(sim, pod("good"))
    await sim.until(lambda: claims_of(sim), 30.0, "the NodeClaim of the other pod")


@simulated(latency_seconds=(0.01, 0.02))
async def test_pods_with_volumes_keep_coming(sim: Sim) -> None:
    """Pods in 250 namespaces wait, and one with a new volume comes every 3 seconds: the others get their machine."""
    await sim.apply(node_class())
    await sim.apply(node_pool(limits={"nodes": "1"}))

    def arrive(name: str, namespace: str) -> None:
        sim.store.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": {}}, namespace)
        body = with_volume(name, name)
        body["metadata"]["namespace"] = namespace
        sim.store.create("pods", body, namespace)

    for number in range(250):
        sim.store.create("namespaces", {"metadata": {"name": f"team-{number}"}})
        arrive("p", f"team-{number}")

    async def more() -> None:
        for number in range(1000):
            arrive(f"more{number}", f"team-{number % 250}")
            await asyncio.sleep(3)

    coming = sim.world.tasks.create_task(more())
    try:
        await sim.apply(pod("plain"))
        await sim.start_controller()
        await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim for the pod without a volume")
    finally:
        coming.cancel()
    reads = [call for call in sim.audit_log.calls(kind="persistentvolumeclaims") if call.who in sim.controllers]
    assert len(reads) < 30


@simulated()
async def test_a_volume_that_is_provisioned_for_hours(sim: Sim) -> None:
    """kube-scheduler has chosen a Node, on which it binds the pod once the volume is there: no other one would help."""
    disk_class(sim, "zonal", volumeBindingMode="WaitForFirstConsumer")
    claim(sim, "data", storageClassName="zonal")
    chosen = list[str]()

    def choose(name: str) -> None:
        sim.world.scheduler.stop()
        if not chosen:
            chosen.append(name)
            selected = {"metadata": {"annotations": {SELECTED_NODE: name}}}
            sim.store.patch("persistentvolumeclaims", "data", selected, "default")

    on_each_node(sim, choose)
    await started(sim)
    await pending(sim, with_volume("p", "data"))
    await asyncio.sleep(HOURS)
    assert (machines(sim), misfits(sim)) == (1, [])
    assert "MachineDoesNotFit" not in {reason for reason, _ in pod_events(sim, "p")}
    (kept,) = claims_of(sim)
    assert kept["status"]["nodeName"] == chosen[0]
