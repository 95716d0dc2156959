"""The table of causes of missing GPUs: from a Node, the DaemonSets of the cluster and the pods to one diagnosis."""

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from controllers.model.diagnosis import Diagnosis, PodName, Workloads
from controllers.model.facts import DeviceSight
from controllers.model.policy import Policy
from controllers.model.reported import Reported
from controllers.model.steps import LookUpWorkloads, Wait
from controllers.node.health.diagnosis import diagnose, lacks_pod
from controllers.node.health.diagnosis_reads import blamed, diagnosis, step
from controllers.nodeclaim.lifecycle import initialization
from controllers.nodeclaim.lifecycle.gpu_resources import GpuState
from provisioner.api import labels
from provisioner.api.conditions import MESSAGE_BYTES
from provisioner.api.meta import Taint
from provisioner.api.node import Node, NodeCondition
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, NodeClassSpec
from provisioner.api.pod import Pod
from provisioner.api.workload import Cause, DaemonSet, DaemonSetStatus
from tests.unit.builders import BORN, NODE, NOW, claim, facts, node

from .workloads import DRA_IMAGE, FEATURES, IMAGE, SKU, SOCKETS, daemon_set, dra_driver, plugin, pod, waiting

STARTUP = Taint(key="gkm.io/cache-not-ready", effect="NoSchedule")
SPOT = Taint(key=labels.AKS_SPOT, value="spot", effect="NoSchedule")
TAINTED = Taint(key="sku", value="gpu", effect="NoSchedule")
UNSCHEDULABLE: dict[str, Any] = {
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: Insufficient cpu."}]
}


@dataclass(frozen=True)
class Row:
    """One case. `says`: parts of the cause's text or remedy, in order."""

    about: str
    cause: Cause | None
    says: tuple[str, ...] = ()
    sets: tuple[DaemonSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    unbound: tuple[Pod, ...] = ()
    on: Node = field(default_factory=lambda: node(gpus="0"))
    resource: str = "nvidia.com/gpu"
    expected: int = 1
    seen: int = 0
    driver: str = ""
    withheld: str = ""
    without_driver: bool = False
    whole: int = 0


def with_status(found: Node, *conditions: str, allocatable: dict[str, str] | None = None) -> Node:
    """The Node with these conditions True."""
    more = tuple(NodeCondition(type=kind, status="True", message=f"about {kind}") for kind in conditions)
    status = msgspec.structs.replace(
        found.status, conditions=(*found.status.conditions, *more), allocatable=allocatable or found.status.allocatable
    )
    return msgspec.structs.replace(found, status=status)


AMD = plugin("amdgpu-device-plugin-daemonset", image="docker.io/rocm/k8s-device-plugin:1.25")
RDMA = plugin("rdma-shared-dp-ds", image="nvcr.io/nvidia/cloud-native/k8s-rdma-shared-dev-plugin:1.5")
WINDOWS = plugin("windows-device-plugin", nodeSelector={"kubernetes.io/os": "windows"})
INTEL = plugin("intel-gpu-plugin", image="intel/intel-gpu-plugin:0.30")
OF_DRA: dict[str, Any] = {"driver": "gpu.nvidia.com", "withheld": "it has published no complete pool"}
MONITOR = daemon_set("dcgm-exporter", containers=[{"image": "nvidia/dcgm-exporter:4"}])

ROWS = [
    Row("enough GPUs", None, expected=8, seen=8),
    Row("no DaemonSet", Cause.PLUGIN_ABSENT, ("no DaemonSet of the cluster is a device plugin for nvidia.com/gpu",)),
    Row("another vendor's plugin", Cause.PLUGIN_ABSENT, sets=(AMD, RDMA, INTEL, MONITOR)),
    Row("a plugin for Windows", Cause.PLUGIN_ABSENT, sets=(WINDOWS,)),
    Row("AMD's plugin", Cause.PLUGIN_NOT_SCHEDULED, ("amdgpu-device-plugin",), (AMD,), resource="amd.com/gpu"),
    Row(
        "an unknown resource that a variable names", Cause.PLUGIN_NOT_SCHEDULED,
        sets=(plugin("gadgets", image="r/x", containers=[{"image": "r/x", "args": ["--resource=example.com/gpu"]}]),),
        resource="example.com/gpu",
    ),
    Row(
        "a taint", Cause.PLUGIN_KEPT_AWAY,
        ("DaemonSet kube-system/nvidia-device-plugin-daemonset does not tolerate taint sku=gpu:NoSchedule",
         "add the toleration that gpu-provisioner doctor prints"),
        (plugin(tolerations=[]),),
    ),
    Row(
        "two taints", Cause.PLUGIN_KEPT_AWAY,
        ("taint sku=gpu:NoSchedule and taint kubernetes.azure.com/scalesetpriority=",),
        (plugin(tolerations=[]),), on=node(gpus="0", taints=(TAINTED, SPOT)),
    ),
    Row(
        "another value", Cause.PLUGIN_KEPT_AWAY, ("sku=gpu",), (plugin(tolerations=[{**SKU, "value": "cpu"}]),),
    ),
    Row(
        "a startup taint", Cause.PLUGIN_KEPT_AWAY,
        ("does not tolerate startup taint gkm.io/cache-not-ready:NoSchedule",),
        (plugin(),), on=node(gpus="0", taints=(TAINTED, STARTUP)),
    ),
    Row(
        "the taint of another controller that passes", Cause.PLUGIN_KEPT_AWAY,
        ("readiness.k8s.io/x", "see kubectl describe"),
        (plugin(),), on=node(gpus="0", taints=(Taint(key="readiness.k8s.io/x", effect="NoSchedule"),)),
    ),
    Row(
        "taints that the DaemonSet controller tolerates", Cause.PLUGIN_NOT_SCHEDULED, (), (plugin(),),
        on=node(gpus="0", taints=(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"), TAINTED)),
    ),
    Row(
        "a preference only", Cause.PLUGIN_NOT_SCHEDULED, (), (plugin(),),
        on=node(gpus="0", taints=(Taint(key="a", effect="PreferNoSchedule"),)),
    ),
    Row(
        "no Node Feature Discovery", Cause.PLUGIN_KEPT_AWAY,
        ("requires label feature.node.kubernetes.io/pci-10de.present=true, which the Node lacks (is Node Feature",
         "change its node selector"),
        (plugin(affinity=FEATURES),),
    ),
    Row(
        "one of its labels is enough", Cause.PLUGIN_NOT_SCHEDULED, (), (plugin(affinity=FEATURES),),
        on=node(gpus="0", more_labels={"nvidia.com/gpu.present": "true"}),
    ),
    Row(
        "a selector", Cause.PLUGIN_KEPT_AWAY, ("requires label accelerator=nvidia, the Node has accelerator=amd",),
        (plugin(nodeSelector={"accelerator": "nvidia"}),), on=node(gpus="0", more_labels={"accelerator": "amd"}),
    ),
    Row(
        "of two plugins the nearest", Cause.PLUGIN_KEPT_AWAY, ("DaemonSet kube-system/b-nvidia",),
        (plugin("a-nvidia", affinity=FEATURES, tolerations=[]), plugin("b-nvidia", tolerations=[])),
    ),
    Row(
        "of two plugins the one that runs", Cause.NO_DEVICES, ("Pod kube-system/b-nvidia-x7k2p",),
        (plugin("a-nvidia"), plugin("b-nvidia", tolerations=[])), (pod("b-nvidia"),),
    ),
    Row("no pod", Cause.PLUGIN_NOT_SCHEDULED, ("has no pod on the Node", "kubectl describe daemonset"), (plugin(),)),
    Row(
        "a pod that does not fit", Cause.PLUGIN_NOT_SCHEDULED,
        ("not bound to the Node (0/3 nodes: Insufficient cpu.)",),
        (plugin(),), unbound=(pod(on="", phase="Pending", **UNSCHEDULABLE),),
    ),
    Row(
        "it crashes", Cause.PLUGIN_FAILING, ("is not running (CrashLoopBackOff, 7 restarts)", "without a driver"),
        (plugin(),), (pod(containerStatuses=waiting("CrashLoopBackOff", 7)),),
    ),
    Row(
        "its image is missing", Cause.PLUGIN_FAILING, ("(ImagePullBackOff)", "make its image available"),
        (plugin(),), (pod(phase="Pending", containerStatuses=waiting("ImagePullBackOff")),),
    ),
    Row(
        "an init container waits", Cause.PLUGIN_FAILING, ("(init container ctr: PodInitializing)",), (plugin(),),
        (pod(phase="Pending", initContainerStatuses=waiting("PodInitializing")),),
    ),
    Row(
        "it ended", Cause.PLUGIN_FAILING, ("(Error, exit code 1",), (plugin(),),
        (pod(containerStatuses=[{"name": "ctr", "state": {"terminated": {"reason": "Error", "exitCode": 1}}}]),),
    ),
    Row("it was evicted", Cause.PLUGIN_FAILING, ("(Evicted)",), (plugin(),), (pod(phase="Failed", reason="Evicted"),)),
    Row("it is pending", Cause.PLUGIN_FAILING, ("(phase Pending)",), (plugin(),), (pod(phase="Pending"),)),
    Row(
        "it is being deleted", Cause.PLUGIN_FAILING, ("it is being deleted",), (plugin(),),
        (pod(meta={"deletionTimestamp": "2026-03-01T12:00:00Z"}),),
    ),
    Row(
        "it runs without devices", Cause.NO_DEVICES,
        ("runs and advertises no device (node image AKSUbuntu-1, plugin v0.18.2)", "check the driver"),
        (plugin(),), (pod(),), on=node(gpus="0", more_labels={labels.AKS_IMAGE_VERSION: "AKSUbuntu-1"}),
    ),
    Row(
        "the driver lost them", Cause.NO_DEVICES, ("(GPUMissing: about GPUMissing, plugin v0.18.2)",),
        (plugin(),), (pod(),), on=with_status(node(gpus="0"), "GPUMissing"),
    ),
    Row(
        "another name", Cause.NO_DEVICES, ("(nvidia.com/gpu: 7 instead",),
        (plugin(),), (pod(),), on=node(gpus="7"), resource="nvidia.com/mig-1g.10gb", expected=7,
    ),
    Row(
        "MIG is not configured", Cause.NO_DEVICES, ("(nvidia.com/mig.config.state=failed",),
        (plugin(),), (pod(),), on=node(gpus="0", more_labels={"nvidia.com/mig.config.state": "failed"}),
    ),
    Row(
        "seven of eight", Cause.PARTIAL_DEVICES, ("advertises 7 of 8 (XIDErrors: about XIDErrors",),
        (plugin(),), (pod(),), on=with_status(node(gpus="7"), "XIDErrors"), expected=8, seen=7,
    ),
    Row("seven of eight by an unknown plugin", Cause.PARTIAL_DEVICES, ("advertises 7 of 8",), expected=8, seen=7),
    Row(
        "AKS manages the plugin", Cause.PLUGIN_FAILING,
        ("AKS manages", "is unhealthy (UnhealthyNvidiaDevicePlugin: about"),
        on=with_status(node(gpus="0"), "UnhealthyNvidiaDevicePlugin"),
    ),
    Row(
        "AKS manages the plugin, which runs", Cause.NO_DEVICES, ("AKS manages",),
        on=node(gpus="0", more_labels={"kubernetes.azure.com/dcgm-exporter": "enabled"}),
    ),
    Row(
        "AKS manages the plugin, which has seven", Cause.PARTIAL_DEVICES, ("advertises 7 of 8",), expected=8, seen=7,
        on=node(gpus="7", more_labels={"kubernetes.azure.com/dcgm-exporter": "enabled"}),
    ),
    Row(
        "no DRA driver", Cause.PLUGIN_ABSENT,
        ("no DaemonSet of the cluster is the DRA driver gpu.nvidia.com", "docs/how-to/dra.md"), (plugin(),), **OF_DRA,
    ),
    Row(
        "the DRA driver of compute domains only", Cause.PLUGIN_ABSENT,
        sets=(dra_driver(containers=[{"name": "compute-domains", "image": DRA_IMAGE}]),), **OF_DRA,
    ),
    Row("AMD's DRA driver", Cause.PLUGIN_ABSENT, sets=(dra_driver("amd", image="rocm/gpu-dra-driver:1"),), **OF_DRA),
    Row("a driver of network devices", Cause.PLUGIN_ABSENT, sets=(dra_driver("dranet-nvidia"),), **OF_DRA),
    Row("a driver of volumes", Cause.PLUGIN_ABSENT, sets=(dra_driver("csi", image="nvidia/csi:1"),), **OF_DRA),
    Row(
        "a DRA driver that is kept away", Cause.PLUGIN_KEPT_AWAY, ("does not tolerate taint sku=gpu:NoSchedule",),
        (dra_driver(tolerations=[]),), **OF_DRA,
    ),
    Row("a DRA driver without a pod", Cause.PLUGIN_NOT_SCHEDULED, (), (dra_driver(),), **OF_DRA),
    Row(
        "a DRA driver that crashes", Cause.PLUGIN_FAILING, ("(CrashLoopBackOff, 7 restarts)",),
        (dra_driver(),), (pod("dra-nvidia", containerStatuses=waiting("CrashLoopBackOff", 7)),), **OF_DRA,
    ),
    Row(
        "a DRA driver that publishes nothing", Cause.NOT_PUBLISHED,
        ("runs, but it has published no complete pool", "may it write ResourceSlices?"),
        (dra_driver(),), (pod("dra-nvidia"),), **OF_DRA,
    ),
    Row(
        "a DRA driver that publishes no usable GPU", Cause.NO_DEVICES, ("runs and publishes no device",),
        (dra_driver(),), (pod("dra-nvidia"),), driver="gpu.nvidia.com",
    ),
    Row(
        "a DRA driver that publishes seven of eight", Cause.PARTIAL_DEVICES, ("publishes 7 of 8",),
        (dra_driver(),), (pod("dra-nvidia"),), driver="gpu.nvidia.com", expected=8, seen=7,
    ),
    Row(
        "an unknown DRA driver that publishes no usable GPU", Cause.NO_DEVICES,
        ("DRA driver gpu.nvidia.com publishes no device",), driver="gpu.nvidia.com",
    ),
]  # fmt: skip


def found(row: Row) -> Workloads:
    """What was read for this case."""
    return Workloads(since=BORN, daemon_sets=row.sets, pods=row.pods, unbound=row.unbound)


def of(row: Row) -> Diagnosis | None:
    """The diagnosis of this case."""
    needed = GpuState(
        resource=row.resource,
        expected=row.expected,
        allocatable=row.seen,
        driver=row.driver,
        withheld=row.withheld,
        without_driver=row.without_driver,
        whole=row.whole,
    )
    return diagnose(row.on, needed, found(row), (STARTUP,))


@pytest.mark.parametrize("row", ROWS, ids=[row.about for row in ROWS])
def test_each_cause_has_its_words(row: Row) -> None:
    """The cause, the object and the remedy of every case, the first two within a condition's message."""
    made = of(row)
    assert (made.cause if made is not None else None) == row.cause
    rest = made.message if made is not None else ""
    for words in row.says:
        assert words in rest
        rest = rest[rest.index(words) + len(words) :]
    if made is not None:
        assert ", since 12:00:00Z; " in made.message
        assert len(f"nvidia.com/mig-1g.10gb: 0 of 56 allocatable; {made.cause_text}".encode()) <= MESSAGE_BYTES


def rolled(wanted: int, updated: int, ready: int, generation: int = 1) -> DaemonSet:
    """The plugin, with the counts of its pods and of its revisions."""
    status = DaemonSetStatus(
        observed_generation=1,
        desired_number_scheduled=wanted,
        updated_number_scheduled=updated,
        number_ready=ready,
    )
    made = plugin()
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, generation=generation), status=status
    )


CRASHES = pod(containerStatuses=waiting("CrashLoopBackOff", 9))
GONE, MISSING = node(gpus="0"), with_status(node(gpus="0"), "GPUMissing")
FAILED = node(gpus="0", more_labels={"nvidia.com/mig.config.state": "failed"})
SLICED = with_status(node(gpus="0"), allocatable={"nvidia.com/mig-1g.10gb": "7"})
NETWORK = with_status(node(gpus="0"), allocatable={"nvidia.com/hostdev": "8"})
MANAGED = with_status(node(gpus="0"), "UnhealthyNvidiaDevicePlugin")


def listed(devices: str) -> DaemonSet:
    """The plugin, with the GPUs that its container may see."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": devices}]
    return plugin(containers=[{"name": "ctr", "image": IMAGE, "env": env}])


SEVEN = "0,1,2,3,4,5,6"
VISIBLE = [
    ("its container may see seven", SEVEN, 7, 1, False),
    ("by their UUIDs", ",".join(f"GPU-{number}" for number in range(7)), 7, 1, False),
    ("seven, of which one is lost besides", SEVEN, 6, 1, True),
    ("seven, which four pods share each", SEVEN, 28, 4, False),
    ("seven, shared, of which one is lost besides", SEVEN, 24, 4, True),
    ("seven in seven slices each", SEVEN, 49, 7, False),
    ("seven slices are no seven GPUs", SEVEN, 7, 7, True),
    ("all of them, listed", f"{SEVEN},7", 7, 1, True),
    ("all of them", "all", 7, 1, True),
    ("all of them, by another mechanism", "void", 1, 1, True),
    ("by another mechanism, which finds none", "void", 0, 1, True),
    ("none", "none", 0, 1, False),
    ("none, with devices all the same", "none", 7, 1, True),
    ("nothing is stated", "", 7, 1, True),
    ("nothing is stated, and no device", "", 0, 1, True),
]


@pytest.mark.parametrize(("about", "devices", "seen", "each", "at_fault"), VISIBLE, ids=[row[0] for row in VISIBLE])
def test_a_plugin_that_is_configured_for_fewer_gpus(
    *, about: str, devices: str, seen: int, each: int, at_fault: bool
) -> None:
    """A person's setting, which another machine would have as well. `each`: how many devices a GPU is."""
    on, sets = node(gpus=str(seen)), (listed(devices),)
    made = of(Row(about, None, sets=sets, pods=(pod(),), on=on, expected=8 * each, seen=seen, whole=8))
    assert made is not None
    assert made.of_machine is at_fault, about
    assert at_fault is ("NVIDIA_VISIBLE_DEVICES" not in made.message)


AT_FAULT = [
    ("it runs without devices", rolled(9, 9, 9), pod(), GONE, True),
    ("nothing is known of its other pods", plugin(), pod(), GONE, True),
    ("it is being rolled out", rolled(9, 4, 9), pod(), GONE, False),
    ("its newest revision is not observed", rolled(9, 9, 9, generation=2), pod(), GONE, False),
    ("a label of MIG is wrong", rolled(9, 9, 9), pod(), FAILED, False),
    ("it offers slices instead", rolled(9, 9, 9), pod(), SLICED, False),
    ("it offers network devices too", rolled(9, 9, 9), pod(), NETWORK, True),
    ("it crashes here alone, and a GPU is missing", rolled(9, 9, 8), CRASHES, MISSING, True),
    ("it crashes here alone, by its configuration", rolled(9, 9, 8), CRASHES, GONE, False),
    ("it crashes here after an XID of an application", rolled(9, 9, 8), CRASHES, with_status(GONE, "XIDErrors"), False),
    ("it crashes on two Nodes", rolled(9, 9, 7), CRASHES, MISSING, False),
    ("it crashes on the only Node", rolled(1, 1, 0), CRASHES, MISSING, False),
    ("it crashes in a rollout", rolled(9, 1, 8), CRASHES, MISSING, False),
    ("it crashes, and its other pods are not known", plugin(), CRASHES, MISSING, False),
    *(
        (f"its pod waits: {reason}", rolled(9, 9, 8), pod(containerStatuses=waiting(reason)), MISSING, False)
        for reason in ("CreateContainerConfigError", "ContainerCreating", "PodInitializing", "ErrImagePull", "")
    ),
    ("AKS manages the plugin, which is unhealthy", plugin(), pod(), MANAGED, True),
    ("it is kept away", plugin(tolerations=[]), None, GONE, False),
]  # fmt: skip


@pytest.mark.parametrize(("about", "owner", "its_pod", "on", "at_fault"), AT_FAULT, ids=[row[0] for row in AT_FAULT])
def test_the_fault_is_the_machines(
    *, about: str, owner: DaemonSet, its_pod: Pod | None, on: Node, at_fault: bool
) -> None:
    """Only if no image, configuration or rollout of the plugin explains the missing devices."""
    made = of(Row(about, None, sets=(owner,), pods=(its_pod,) if its_pod is not None else (), on=on))
    assert made is not None
    assert made.of_machine is at_fault, about


USERS_DRIVER = [
    ("no device", GONE, 0, False),
    ("a condition reports a lost GPU", MISSING, 0, True),
    ("some devices, so that there is a driver", node(gpus="7"), 7, True),
]


@pytest.mark.parametrize(("about", "on", "seen", "at_fault"), USERS_DRIVER, ids=[row[0] for row in USERS_DRIVER])
def test_a_driver_that_the_user_installs(*, about: str, on: Node, seen: int, at_fault: bool) -> None:
    """Without one, a plugin that runs advertises no device, and does not on another machine either."""
    row = Row(about, None, sets=(plugin(),), pods=(pod(),), on=on, expected=8, seen=seen, without_driver=True)
    made = of(row)
    assert made is not None
    assert made.of_machine is at_fault, about
    assert at_fault is ("spec.gpu.driver" not in made.message)


def test_slices_of_other_profiles_explain_no_lost_ones() -> None:
    """The kubelet counts slices of a GPU that failed in capacity: those of the others are not instead of them."""
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    on = with_status(node(gpus="0"), allocatable={small: "14", large: "7"})
    on = msgspec.structs.replace(on, status=msgspec.structs.replace(on.status, capacity={small: "16", large: "8"}))
    made = of(Row("", None, sets=(rolled(9, 9, 9),), pods=(pod(),), on=on, resource=small, expected=16, seen=14))
    assert made is not None
    assert made.of_machine
    assert "instead" not in made.message


def test_the_pod_of_the_plugin_is_named() -> None:
    """Its namespace, name and UID, for a restart of it."""
    made = of(next(row for row in ROWS if row.about == "it runs without devices"))
    assert made is not None
    assert made.plugin_pod == PodName(namespace="kube-system", name="nvidia-device-plugin-daemonset-x7k2p", uid="p")
    assert str(made.plugin_pod) == "kube-system/nvidia-device-plugin-daemonset-x7k2p"


def test_a_plugin_needs_its_socket() -> None:
    """A DaemonSet of that name that does not mount the folder of the kubelet is none."""
    no_socket = plugin(volumes=[{"name": "x", "hostPath": {"path": "/dev"}}, {"name": "y", "emptyDir": {}}])
    trailing = {"name": "x", "hostPath": {"path": f"{SOCKETS['hostPath']['path']}/"}}
    for sets, cause in (
        ((no_socket,), Cause.PLUGIN_ABSENT),
        ((plugin(volumes=[trailing]),), Cause.PLUGIN_NOT_SCHEDULED),
    ):
        made = of(Row("", None, sets=sets))
        assert made is not None
        assert made.cause is cause


def test_without_the_daemonsets_nothing_is_reported() -> None:
    """They could not be read: the cause is not known."""
    needed = GpuState(resource="nvidia.com/gpu", expected=1, allocatable=0)
    assert diagnose(node(gpus="0"), needed, Workloads(since=BORN, forbidden=True)) is None


@pytest.mark.parametrize(
    ("sets", "pods", "expected"),
    [((), (), False), ((plugin(),), (), True), ((plugin(tolerations=[]),), (), False), ((plugin(),), (pod(),), False)],
)
def test_pods_without_a_node_are_needed_for_one_cause_only(sets: Any, pods: Any, expected: bool) -> None:
    """A plugin fits the Node and has no pod there."""
    assert lacks_pod(node(gpus="0"), "nvidia.com/gpu", Workloads(since=BORN, daemon_sets=sets, pods=pods)) is expected


# When it is read

CLOSED = {
    "claims": (claim(up=("Launched", "Registered")),),
    "nodes": (node(gpus="0", initialized=False),),
    "workloads": None,
}
READ = Workloads(since=BORN, daemon_sets=())
OF_NETWORK = claim(up=("Launched", "Registered"), annotations={labels.DRA_DRIVERS: "dra.net"})
DRA = AgentPoolNodeClass(spec=NodeClassSpec(gpu=GpuSettings(mode="DRA")))

READS: list[tuple[str, dict[str, Any], float | None]] = [
    ("the gate is open", {}, math.nan),
    ("it closed a moment ago", {"gpu_short_since": 0.0}, 90.0),
    ("for a minute", {"gpu_short_since": -60.0}, 30.0),
    ("for ninety seconds", {"gpu_short_since": -90.0}, None),
    ("read a moment ago", {"gpu_short_since": -90.0, "workloads": READ}, 60.0),
    ("read a minute ago", {"gpu_short_since": -90.0, "workloads": msgspec.structs.replace(READ, read_at=-60.0)}, None),
    ("closed for half an hour", {"gpu_short_since": -1800.0, "workloads": READ}, 300.0),
    ("not allowed", {"gpu_short_since": -90.0, "workloads": Workloads(since=BORN, forbidden=True)}, 600.0),
    ("of a DRA driver", {"gpu_short_since": -90.0, "node_class": DRA, "slices": ()}, None),
    ("its slices are not known", {"gpu_short_since": -90.0, "node_class": DRA}, math.nan),
    ("another driver is away", {"gpu_short_since": -90.0, "nodes": (node(),), "claims": (OF_NETWORK,)}, math.nan),
    ("no Node", {"gpu_short_since": -90.0, "nodes": ()}, math.nan),
]


@pytest.mark.parametrize(("about", "known", "after"), READS, ids=[row[0] for row in READS])
def test_when_it_is_read(about: str, known: dict[str, Any], after: float | None) -> None:
    """After 90 s, then once a minute, less often later or without the permission; nan: never."""
    chosen = step(facts(**{**CLOSED, **known}))
    if after is None:
        assert isinstance(chosen, LookUpWorkloads)
    elif math.isnan(after):
        assert chosen is None
    else:
        assert isinstance(chosen, Wait)
        assert chosen.after == after


ABSENT = Diagnosis(cause=Cause.PLUGIN_ABSENT)
OF_MACHINE = Diagnosis(
    cause=Cause.NO_DEVICES, object="Pod a", text="runs (plugin 2)", remedy="check the driver", since=NOW
)
BLAMED = [
    ("the first diagnosis of a process", OF_MACHINE, (None, None), -100.0, (True, None)),
    ("the first one, long after the loss", OF_MACHINE, (None, None), -7200.0, (True, 0.0)),
    ("the first one, of another fault", ABSENT, (None, None), -7200.0, (False, None)),
    ("a plugin that was installed late", OF_MACHINE, (False, None), -100.0, (True, 0.0)),
    ("and the next one", OF_MACHINE, (True, -60.0), -100.0, (True, -60.0)),
    ("a read that failed", None, (True, -60.0), -100.0, (True, -60.0)),
    ("it is gone again", ABSENT, (True, -60.0), -100.0, (False, None)),
    ("the GPUs are there", None, (True, -60.0), None, (None, None)),
]


@pytest.mark.parametrize(("about", "made", "before", "short_since", "after"), BLAMED, ids=[row[0] for row in BLAMED])
def test_since_when_the_fault_is_the_machines(
    about: str, made: Diagnosis | None, before: Any, short_since: float | None, after: Any
) -> None:
    """It counts from the first diagnosis that lays it on the machine, after one that did not."""
    sight = DeviceSight(node_uid="n", at_fault=before[0], blamed_since=before[1])
    known = facts(diagnosis=made, devices=sight, gpu_short_since=short_since)
    found = blamed(known)
    assert found is not None
    assert (found.at_fault, found.blamed_since) == after, about


@pytest.mark.parametrize(
    ("fault", "since"), [(OF_MACHINE.cause, None), ("PartialDevices", 0.0), ("", 0.0), (None, 0.0)]
)
def test_a_new_leader_counts_from_what_the_claim_reports(fault: str | None, since: float | None) -> None:
    """A fault that the claim reports is as old as that. Without it, the plugin may have just started."""
    notes = {labels.REPORTED: msgspec.json.encode(Reported(fault=fault)).decode()} if fault is not None else {}
    sight = DeviceSight(node_uid="n")
    made = claim(annotations=notes)
    found = blamed(facts(claims=(made,), diagnosis=OF_MACHINE, devices=sight, gpu_short_since=-7200.0))
    assert found is not None
    assert (found.at_fault, found.blamed_since) == (True, since)


def test_the_time_of_the_cause_is_that_of_the_node() -> None:
    """Of a Node that was never usable: since it is Ready; otherwise since the GPUs are gone; and it stays."""
    read = step(facts(**CLOSED, gpu_short_since=-90.0))
    assert isinstance(read, LookUpWorkloads)
    assert (read.since, read.source, read.node.name) == (NOW, "nvidia.com/gpu", NODE)
    usable = {**CLOSED, "claims": (claim(up=("Launched", "Registered", "Initialized")),)}
    read = step(facts(**usable, gpu_short_since=-90.0))
    assert isinstance(read, LookUpWorkloads)
    assert (NOW - read.since).total_seconds() == 90.0
    old = msgspec.structs.replace(READ, read_at=-60.0)
    again = step(facts(**{**usable, "workloads": old}, gpu_short_since=-900.0))
    assert isinstance(again, LookUpWorkloads)
    assert again.since == BORN


def test_the_condition_has_the_cause() -> None:
    """In place of the general hint, and in 256 bytes."""
    kept = Workloads(since=BORN, daemon_sets=(plugin(tolerations=[]),))
    policy = Policy(usual_start_seconds=0.0)
    known = facts(**{**CLOSED, "workloads": kept}, gpu_short_since=-90.0, policy=policy)
    known = msgspec.structs.replace(known, diagnosis=diagnosis(known))
    made = initialization.condition(known, CLOSED["claims"][0])  # type: ignore[arg-type]
    assert made is not None
    assert made.message == (
        "nvidia.com/gpu: 0 of 1 allocatable; DaemonSet kube-system/nvidia-device-plugin-daemonset does not tolerate"
        " taint sku=gpu:NoSchedule, since 12:00:00Z; add the toleration that gpu-provisioner doctor prints"
    )
    asking = claim(up=("Launched", "Registered"), requests={"nvidia.com/gpu": "1"})
    made = initialization.condition(msgspec.structs.replace(known, claims=(asking,)), asking)
    assert made is not None
    assert "was requested but not registered; DaemonSet kube-system/nvidia" in made.message
