"""What machines of a node class offer: partitioned and shared GPUs, by declaration only."""

from typing import Any

import msgspec
import pytest

from controllers.provisioning.offered import offered, offered_types
from controllers.provisioning.solver.solver import solve
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.pod import Pod

from .observed import CLOUD, GPU, T4, TOLERATES, TYPES, claim, node, node_pool, observe, pod

A100 = "Standard_NC24ads_A100_v4"
CPU = "Standard_D8s_v3"
SLICE = "nvidia.com/mig-1g.10gb"
SHARED = "nvidia.com/gpu.shared"
MIXED = {"migProfile": "MIG1g", "migStrategy": "Mixed"}
RENAMED = {"sharedReplicas": 4, "sharedResource": SHARED}
REPORTED = {"annotations": {"gpu-provisioner.sh/gpu-readiness": "report"}}
INITIALIZED = {
    "type": "Initialized",
    "status": "True",
    "reason": "Initialized",
    "lastTransitionTime": "2026-03-01T12:00:00Z",
}


def node_class(**gpu: Any) -> AgentPoolNodeClass:
    return msgspec.convert({"metadata": {"name": "default"}, "spec": {"gpu": gpu}}, AgentPoolNodeClass)


def asks(name: str, resource: str, count: int) -> Pod:
    return pod(name, gpus=0, tolerations=TOLERATES, containers=[{"resources": {"requests": {resource: str(count)}}}])


@pytest.mark.parametrize(
    ("gpu", "amounts"),
    [
        ({"migProfile": "MIG1g"}, {GPU: 7}),
        (MIXED, {SLICE: 7}),
        ({"sharedReplicas": 4}, {GPU: 4}),
        (RENAMED, {SHARED: 4}),
        (MIXED | RENAMED, {f"{SLICE}.shared": 28}),
    ],
)
def test_devices_of_an_instance_type(gpu: dict[str, Any], amounts: dict[str, int]) -> None:
    """The devices replace the GPUs, in the capacity as on the Node."""
    found = {one.name: one for one in offered_types(TYPES.types, node_class(**gpu).spec, CLOUD) or ()}
    for resources in (found[A100].capacity, found[A100].allocatable):
        assert {name: amount // 1000 for name, amount in resources.items() if "/" in name} == amounts


def test_sizes_without_the_profile_are_not_offered() -> None:
    """AKS refuses to partition them; sizes without GPUs are no matter of the profile."""
    names = {one.name for one in offered_types(TYPES.types, node_class(migProfile="MIG1g").spec, CLOUD) or ()}
    assert A100 in names
    assert not {name for name in names if "T4" in name or "MI300X" in name or "GB200" in name}
    assert any(name.startswith("Standard_D") for name in names) is any(
        one.name.startswith("Standard_D") for one in TYPES.types
    )
    assert offered_types(TYPES.types, node_class().spec, CLOUD) is None


@pytest.mark.parametrize(
    ("gpu", "resource", "pods", "machines"),
    [
        (MIXED, SLICE, 8, 2),
        (MIXED, GPU, 1, None),
        (RENAMED, SHARED, 5, 2),
        (RENAMED, GPU, 1, None),
        ({}, SLICE, 1, None),
        ({}, SHARED, 1, None),
        ({"sharedReplicas": 4}, GPU, 5, 2),
    ],
)
def test_pods_get_machines_that_declare_what_they_request(
    gpu: dict[str, Any], resource: str, pods: int, machines: int | None
) -> None:
    """The number of machines follows from the devices of each; without a declaration there is none, with its cause."""
    one_gpu = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [A100]}]
    found = observe(
        node_pools=(node_pool(requirements=one_gpu),),
        pods=[asks(f"p{number}", resource, 1) for number in range(pods)],
        node_classes={"default": node_class(**gpu)},
    )
    decision = solve(found.snapshot)
    if machines is None:
        (why,) = decision.errors.values()
        assert f"{resource} 1 requested, at most 0 on one machine" in why
    else:
        assert len(decision.machines) == machines


@pytest.mark.parametrize(
    ("gpu", "meta", "initialized", "parts", "bought"),
    [
        pytest.param({}, {}, True, {}, 0, id="a plugin that restarts"),
        pytest.param({"migProfile": "MIG1g"}, {}, True, {}, 0, id="slices"),
        pytest.param({}, {}, False, {}, 1, id="lost for 6 min"),
        pytest.param({}, REPORTED, True, {}, 1, id="GPUs are only reported"),
        pytest.param({}, {}, True, {"gpus_required": False}, 1, id="GPUs of all are only reported"),
        pytest.param({}, {}, True, {"devices": {SLICE: "7"}}, 1, id="partitioned by others"),
        pytest.param({}, {}, True, {"devices": {SHARED: "4"}}, 1, id="shared by others"),
        pytest.param({}, {}, True, {"devices": {SLICE: "0", "example.com/nic": "1"}}, 0, id="other devices"),
    ],
)
def test_pods_wait_for_gpus_that_are_expected_back(
    gpu: dict[str, Any], meta: dict[str, Any], initialized: bool, parts: dict[str, Any], bought: int
) -> None:
    """No machine is bought for pods of a machine whose claim is initialized while its GPUs are not shown."""
    parts = dict(parts)
    of = claim("gpu-1", size=A100, node="n1", **meta)
    reference = msgspec.structs.replace(
        of.spec.node_class_ref, group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default"
    )
    status = {"nodeName": "n1", "conditions": [INITIALIZED | {"status": str(initialized)}]}
    of = msgspec.structs.replace(
        of,
        spec=msgspec.structs.replace(of.spec, node_class_ref=reference),
        status=msgspec.convert(status, type(of.status)),
    )
    own = {
        "node.kubernetes.io/instance-type": A100,
        "karpenter.sh/nodepool": "gpu",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/registered": "true",
    }
    seen = node("n1", gpus=0, labels=own)
    amounts = {**seen.status.allocatable, **parts.pop("devices", {})}
    seen = msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, allocatable=amounts))
    found = observe(
        nodes=(seen,),
        claims=(of,),
        pods=[asks("p", GPU, 1)],
        node_classes={"default": node_class(**gpu)},
        **parts,
    )
    decision = solve(found.snapshot)
    assert len(decision.machines) == bought
    assert bool(decision.existing) is not bool(bought)


def t4(**spec: Any) -> Any:
    """The smallest size with a GPU, as machines of a node class with these properties offer it."""
    made = msgspec.convert({"metadata": {"name": "default"}, "spec": spec}, AgentPoolNodeClass)
    (kind,) = [one for one in TYPES.types if one.name == T4]
    return offered(kind, made.spec, CLOUD)


@pytest.mark.parametrize(("pods", "reserved_mib"), [(30, 650), (110, 2250), (250, 5050)])
def test_pods_of_a_node_class(pods: int, reserved_mib: int) -> None:
    """The number of pods is that of the node class, and the memory that the kubelet reserves follows from it."""
    found = t4(maxPods=pods)
    assert found.allocatable["pods"] == found.capacity["pods"] == pods * 1000
    left = 28 * 1024 - int(28 * 1024 * 0.075) - 100 - reserved_mib
    assert found.allocatable["memory"] == left * 2**20 * 1000


DISKS: list[tuple[dict[str, Any], int]] = [
    ({}, 128),
    ({"osDiskSizeGB": 256}, 256),
    ({"osDiskSizeGB": 30}, 30),
    ({"osDiskType": "Managed"}, 128),
    ({"osDiskType": "Ephemeral"}, 128),
    ({"osDiskType": "Managed", "osDiskSizeGB": 64}, 64),
]


@pytest.mark.parametrize(("spec", "gib"), DISKS)
def test_the_os_disk_is_ephemeral_storage(spec: dict[str, Any], gib: int) -> None:
    """The file system of the OS disk, less the tenth below which the kubelet evicts pods."""
    allocatable = t4(**spec).allocatable["ephemeral-storage"] / 1000 / 2**30
    assert 0.86 * gib < allocatable < 0.87 * gib


@pytest.mark.parametrize(
    ("spec", "key", "allowed"),
    [
        ({}, "os-sku", ["Ubuntu"]),
        ({"imageFamily": "AzureLinux"}, "os-sku", ["AzureLinux"]),
        ({"imageFamily": "Ubuntu2404"}, "os-sku", ["Ubuntu", "Ubuntu2404"]),
        ({"imageFamily": "Ubuntu2404"}, "os-sku-requested", ["Ubuntu2404"]),
        ({}, "storageprofile", ["managed", "ephemeral"]),
        ({"osDiskType": "Ephemeral"}, "storageprofile", ["ephemeral"]),
    ],
)
def test_labels_of_a_node_class(spec: dict[str, Any], key: str, allowed: list[str]) -> None:
    """Labels of AKS follow the image family and the disk; one whose value is not known may have any."""
    found = t4(**spec).requirements[f"kubernetes.azure.com/{key}"]
    tried = ["Ubuntu", "AzureLinux", "Ubuntu2404", "managed", "ephemeral"]
    assert [value for value in tried if found.allows(value)] == (tried if found.complement else allowed)
    assert all(found.allows(value) for value in allowed)


def test_a_pod_with_much_memory_gets_no_gpu() -> None:
    """A size with enough memory and without GPUs is cheaper."""
    pools = (node_pool(),)
    resources = {"requests": {"cpu": "1", "memory": "300Gi"}}
    wanted = pod("p", gpus=0, tolerations=TOLERATES, containers=[{"resources": resources}])
    (machine,) = solve(observe(node_pools=pools, pods=(wanted,)).snapshot).machines
    assert machine.instance_types[0] == "Standard_E48s_v5"
