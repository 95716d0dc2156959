"""The volumes of pending pods decide in which zone their machine is bought, and whether one is bought at all."""

from tests.world.demand import claims_of, node_class, node_pool, pending, pod, pod_events
from tests.world.harness import Json, Sim, simulated
from tests.world.transcript import refuse

ZONE = "topology.kubernetes.io/zone"
KINDS = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")


async def started(sim: Sim) -> None:
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()


def disk_class(sim: Sim, name: str, **fields: object) -> None:
    body = {"metadata": {"name": name}, "provisioner": "disk.csi.azure.com", **fields}
    sim.store.create("storageclasses.storage.k8s.io", body)


def claim(sim: Sim, name: str, **spec: object) -> None:
    sim.store.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec}, "default")


def disk(sim: Sim, name: str, zone: str) -> None:
    """A zonal disk, as the disk driver describes it."""
    terms = [{"matchExpressions": [{"key": "topology.disk.csi.azure.com/zone", "operator": "In", "values": [zone]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    sim.store.create("persistentvolumes", {"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}})


def with_volume(name: str, claim_name: str) -> Json:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


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
    sim.store.patch("persistentvolumeclaims", "waiting", {"spec": {"volumeName": "v"}}, "default")
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
    assert "the volumes of pods cannot be read" in pod_events(sim, "a")[0][1]
