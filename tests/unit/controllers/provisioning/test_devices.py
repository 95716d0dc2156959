"""Tables of claims for devices: selectors, counts, sizes, and what is left on a machine."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from cloudprovider.cloud import DeviceTemplate, InstanceType
from controllers.model.storage import DeviceClaims
from controllers.provisioning.device_selectors import selector
from controllers.provisioning.devices import claimed, note_of
from controllers.provisioning.extended_resources import of_classes
from controllers.provisioning.free_devices import allocated_devices, with_devices
from controllers.provisioning.offered import offered
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.deviceclaim import (
    ClaimName,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from provisioner.api.nodeclass import GpuSettings, NodeClassSpec
from provisioner.api.resourceslice import CounterConsumption, Device, ResourceSlice, digest
from tests.unit.builders import NODE, UP, claim, node
from tests.unit.controllers.nodeclaim.lifecycle.devices import BUSY, LOST, OF_APPLICATION, XID, device, published, some

Json = dict[str, Any]
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
DEVICE = "resource.kubernetes.io/gpu.nvidia.com"
CLOUD = AksCloud()
GPUS = CLOUD.device_templates()
ALL = "resource.kubernetes.io/all-devices"
A100 = DeviceTemplate(driver=NVIDIA, type="gpu", product="NVIDIA A100-SXM4-40GB", memory=40 * 2**30)
UNKNOWN = DeviceTemplate(driver=NVIDIA, type="gpu")
PRODUCT, MEMORY = 'device.attributes["gpu.nvidia.com"].productName', "device.capacity['gpu.nvidia.com'].memory"


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("true", True),
        ("device.driver == 'gpu.nvidia.com'", True),
        ('device.driver != "gpu.nvidia.com"', False),
        ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", True),
        ("device.driver == 'gpu.amd.com' && device.attributes['gpu.amd.com'].type == 'amdgpu'", False),
        ("device.attributes['gpu.nvidia.com'].type == 'mig'", False),
        (f"{PRODUCT} == 'NVIDIA A100-SXM4-40GB'", True),
        (f"{PRODUCT} == 'a && b'", False),
        (f"{PRODUCT}.contains('A100')", True),
        (f"{PRODUCT}.startsWith('NVIDIA A')&&{PRODUCT}.endsWith('GB')", True),
        (f"{PRODUCT}.lowerAscii().matches('^.*a100.*$')", True),
        (f"{PRODUCT}.matches('a100')", False),
        (f"{PRODUCT}.matches('^NVIDIA')", True),
        (f"{PRODUCT}.matches('40GB$')", True),
        (f"{PRODUCT}.matches('^A100$')", False),
        (f"{MEMORY}.compareTo(quantity('40Gi')) >= 0", True),
        (f"{MEMORY}.compareTo(quantity('40Gi')) == 0", True),
        (f'{MEMORY}.compareTo( quantity("41Gi") ) >= 0', False),
        (f"{MEMORY}.isGreaterThan(quantity('30Gi')) && {MEMORY}.isLessThan(quantity('50Gi'))", True),
        ("device.capacity['gpu.amd.com'].memory.isGreaterThan(quantity('1Gi'))", False),
    ],
)
def test_selectors(expression: str, *, selected: bool) -> None:
    """What is not known of a device selects nothing."""
    assert selector(expression)(A100) is selected
    assert not selector(expression)(UNKNOWN) or not any(word in expression for word in (PRODUCT, MEMORY))


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.driver",
        f"{PRODUCT} == 'a' || {PRODUCT} == 'b'",
        "device.attributes['gpu.nvidia.com'].uuid == 'GPU-1'",
        "device.attributes['gpu.nvidia.com'].cudaComputeCapability.compareTo(semver('8.0.0')) >= 0",
        "device.capacity['gpu.nvidia.com'].multiprocessors.compareTo(quantity('1')) >= 0",
        f"{MEMORY}.compareTo(quantity('much')) >= 0",
        f"{PRODUCT}.matches('(a+)+$')",
        "'" * 2000,
        "true && " * 1000 + "true",
    ],
)
def test_other_selectors_are_refused(expression: str) -> None:
    """With the field's value, the cause and a remedy; a pattern that could take any time is not tried."""
    with pytest.raises(ValueError, match="selector"):
        selector(expression)


def test_every_size_has_a_template() -> None:
    """Of a vendor whose driver is known."""
    assert {one.driver for one in GPUS.values()} == {NVIDIA, AMD}
    assert GPUS["Standard_ND96isr_MI300X_v5"].type == "amdgpu"
    assert GPUS["Standard_ND96isr_H100_v5"].memory == 81559 * 2**20


def device_class(*expressions: str) -> DeviceClass:
    return msgspec.convert({"spec": {"selectors": [{"cel": {"expression": one}} for one in expressions]}}, DeviceClass)


def spec(*requests: Json, constraints: tuple[Json, ...] = ()) -> Json:
    return {"devices": {"requests": list(requests), "constraints": list(constraints)}}


def exactly(count: int = 1, **fields: Any) -> Json:
    return {"name": "gpu", "exactly": {"deviceClassName": NVIDIA, "count": count, **fields}}


def known(of: Json, **more: Any) -> DeviceClaims:
    """A template and a claim of the same name with these requests."""
    meta = {"unreadable": more.pop("unreadable", [])}
    claim = {"metadata": meta, "spec": of, "status": more.pop("status", {})}
    claims = {"default/one": msgspec.convert(claim, ResourceClaim)}
    found = {"default/one": msgspec.convert({"metadata": meta, "spec": {"spec": of}}, ResourceClaimTemplate)}
    classes = {
        NVIDIA: device_class("device.driver == 'gpu.nvidia.com'"),
        AMD: device_class("device.driver == 'gpu.amd.com'"),
        "any": device_class(),
        "channel": device_class(
            "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].id == 0"
        ),
    }
    return DeviceClaims(requested=frozenset(("",)), claims=claims, templates=found, classes=classes, **more)


OF_AMD = "resource.kubernetes.io/gpu.amd.com"
OF_TEMPLATE, OF_CLAIM = ClaimName(template="default/one"), ClaimName(claim="default/one")
LARGE: Json = {"selectors": [{"cel": {"expression": f"{MEMORY}.isGreaterThan(quantity('100Gi'))"}}]}
FIRST = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "a", "deviceClassName": "missing"},
        {"name": "b", "deviceClassName": NVIDIA, "count": 2},
        {"name": "c", "deviceClassName": NVIDIA},
        {"name": "d", "deviceClassName": AMD, "count": 4},
    ],
}


def first(*counts: int) -> Json:
    options = [{"name": f"n{count}", "deviceClassName": NVIDIA, "count": count} for count in counts]
    return {"name": "gpu", "firstAvailable": options}


@pytest.mark.parametrize(
    ("requests", "resources"),
    [
        ((exactly(),), [{DEVICE: 1000}]),
        ((exactly(2), exactly(3)), [{DEVICE: 5000}]),
        ((exactly(deviceClassName=AMD),), [{OF_AMD: 1000}]),
        ((exactly(allocationMode="All"),), [{DEVICE: 1000, ALL: 1000}]),
        ((exactly(deviceClassName="any"),), [{DEVICE: 1000}, {OF_AMD: 1000}]),
        ((FIRST,), [{DEVICE: 2000}, {DEVICE: 1000}, {OF_AMD: 4000}]),
        ((FIRST, exactly()), [{DEVICE: 3000}, {DEVICE: 2000}]),
        ((FIRST, FIRST), [{DEVICE: 4000}, {DEVICE: 3000}, {DEVICE: 2000}, {OF_AMD: 8000}]),
        ((first(*range(1, 9)), first(*range(10, 90, 10))), [{DEVICE: 1000 * (1 + n)} for n in range(10, 90, 10)]),
        ((), [{}]),
    ],
)
def test_requests(requests: tuple[Json, ...], resources: list[dict[str, int]]) -> None:
    """The devices of all requests together, for each of the first eight alternatives that one size can serve."""
    for name in (OF_TEMPLATE, OF_CLAIM):
        assert [one.requests for one in claimed((name,), known(spec(*requests)), GPUS)] == [*resources]


def named(name: str, resource: str = "", *, age: int = 0) -> DeviceClass:
    meta = {"name": name, "creationTimestamp": f"2026-03-0{9 - age}T12:00:00Z"}
    selectors = [{"cel": {"expression": f"device.driver == '{NVIDIA if name != 'amd' else AMD}'"}}]
    return msgspec.convert(
        {"metadata": meta, "spec": {"selectors": selectors, "extendedResourceName": resource}}, DeviceClass
    )


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("classes", "requests", "found"),
    [
        ((), {GPU: 1000}, {}),
        ((named("a"),), {GPU: 1000}, {}),
        ((named("a", GPU),), {"cpu": 1000, GPU: 2000}, {GPU: ("a", 2)}),
        ((named("a", GPU),), {"cpu": 1000, GPU: 0}, {}),
        ((named("a", GPU, age=1), named("b", GPU)), {GPU: 1000}, {GPU: ("b", 1)}),
        ((named("a", GPU), named("b", GPU)), {GPU: 1000}, {GPU: ("a", 1)}),
        (
            (named("a"),),
            {"deviceclass.resource.kubernetes.io/a": 1000},
            {"deviceclass.resource.kubernetes.io/a": ("a", 1)},
        ),
        ((named("a", "cpu"),), {"cpu": 1000}, {}),
    ],
)
def test_extended_resources(
    classes: tuple[DeviceClass, ...], requests: dict[str, int], found: dict[str, tuple[str, int]]
) -> None:
    """Those that a DeviceClass names; of several classes the newest one."""
    known = DeviceClaims(classes={one.metadata.name: one for one in classes})
    made = {name: one.exactly for name, one in of_classes(requests, known).items() if one.exactly is not None}
    assert {name: (one.device_class_name, one.count) for name, one in made.items()} == found


@pytest.mark.parametrize(
    ("device_class", "alternatives"),
    [
        (named("a", GPU), [({}, set()), ({DEVICE: 2000}, {GPU})]),
        (named("amd", GPU), [({}, set()), ({OF_AMD: 2000}, {GPU})]),
        (msgspec.structs.replace(named("a", GPU), spec=device_class("device.x > 1").spec), [({}, set())]),
    ],
)
def test_devices_instead_of_a_device_plugin(device_class: DeviceClass, alternatives: Any) -> None:
    """The second alternative; none if no size has such devices."""
    found = DeviceClaims(classes={"a": device_class, "amd": device_class})
    request = DeviceRequest(name=GPU, exactly=ExactRequest(device_class_name="a", count=2))
    made = claimed((), found, GPUS, extended={GPU: request})
    assert [(one.requests, one.instead) for one in made] == alternatives


CHANNEL = exactly(deviceClassName="channel") | {"name": "channel"}
OF_NETWORK = [{"cel": {"expression": "device.driver == 'dra.net'"}}]
NIC = exactly(deviceClassName="any", selectors=OF_NETWORK) | {"name": "nic"}
EITHER = {"name": "either", "firstAvailable": [NIC["exactly"], CHANNEL["exactly"]]}
OR_GPU = {"name": "either", "firstAvailable": [{**NIC["exactly"], "name": "a"}, {**exactly(2)["exactly"], "name": "b"}]}
ALIGNED = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}


@pytest.mark.parametrize(
    ("found", "resources", "named"),
    [
        (spec(exactly(), CHANNEL), [{DEVICE: 1000}], ['request "channel"']),
        (spec(CHANNEL, exactly(2), NIC), [{DEVICE: 2000}], ['request "channel"', 'request "nic"']),
        (spec(exactly(), EITHER), [{DEVICE: 1000}], ['request "either"', "for devices of dra.net"]),
        (spec(OR_GPU), [{DEVICE: 2000}], []),
        (spec(exactly(), NIC, constraints=({**ALIGNED, "requests": ["gpu", "nic"]},)), [{DEVICE: 1000}], ["nic"]),
        (spec(exactly(), NIC, constraints=(ALIGNED,)), [{DEVICE: 1000}], ["nic"]),
    ],
)
def test_devices_of_other_drivers(found: Json, resources: list[dict[str, int]], named: list[str]) -> None:
    """They select no machine; the GPUs do, and the Event of the pod names the other requests."""
    claims = known(found)
    assert [one.requests for one in claimed((OF_TEMPLATE,), claims, GPUS)] == resources
    note = note_of((OF_TEMPLATE,), claims)
    assert all(words in note for words in named)
    assert bool(note) is bool(named)


def test_devices_of_other_drivers_alone() -> None:
    """They are refused, unless the pod requests GPUs of a device plugin."""
    claims = known(spec(CHANNEL, NIC))
    with pytest.raises(
        ValueError, match='request "channel" of ResourceClaim default/one for devices of compute-domain'
    ):
        claimed((OF_CLAIM,), claims, GPUS)
    assert [one.requests for one in claimed((OF_CLAIM,), claims, GPUS, plugged=True)] == [{}]


def test_sizes() -> None:
    """Those whose GPUs all requests select."""
    (found,) = claimed((OF_TEMPLATE,), known(spec(exactly(**LARGE))), GPUS)
    assert found.requirements[labels.INSTANCE_TYPE].values == {"Standard_ND96isr_H200_v5"}


ALLOCATED = {"allocation": {"devices": {"results": [{"driver": NVIDIA, "pool": NODE, "device": "gpu-0"}]}}}


@pytest.mark.parametrize(
    ("name", "found", "words"),
    [
        (ClaimName(claim="default/none"), known(spec(exactly())), "ResourceClaim default/none does not exist"),
        (ClaimName(template="default/none"), known(spec(exactly())), "ResourceClaimTemplate default/none does not"),
        (OF_CLAIM, known(spec(exactly()), status=ALLOCATED), "is allocated"),
        (OF_CLAIM, DeviceClaims(error="403"), "cannot be read: 403"),
        (OF_CLAIM, known(spec(), unreadable=["spec: big"]), "ResourceClaim default/one cannot be read: spec: big"),
        (OF_TEMPLATE, known(spec(), unreadable=["spec: big"]), "Template default/one cannot be read: spec: big"),
        (OF_CLAIM, known(spec(exactly(deviceClassName="x"))), '"x" does not exist'),
        (OF_CLAIM, known(spec(exactly(adminAccess=True))), "adminAccess"),
        (OF_CLAIM, known(spec(exactly(capacity={"requests": {"memory": "1Gi"}}))), "capacity"),
        (OF_CLAIM, known(spec({"name": "empty"})), "names no devices"),
        (OF_CLAIM, known(spec(exactly(), constraints=({"distinctAttribute": "a/b"},))), "constraints"),
        (OF_CLAIM, known(spec(exactly(), constraints=({"matchAttribute": "gpu.nvidia.com/pcieRoot"},))), "pcieRoot"),
        (OF_CLAIM, known(spec(exactly(**LARGE), exactly(deviceClassName=AMD))), "different sizes"),
    ],
)
def test_refused(name: ClaimName, found: DeviceClaims, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        claimed((name,), found, GPUS)


def test_devices_in_common_may_be_constrained() -> None:
    same = known(spec(exactly(2), constraints=({"matchAttribute": "gpu.nvidia.com/productName"},)))
    assert [one.requests for one in claimed((OF_CLAIM,), same, GPUS)] == [{DEVICE: 2000}]


def test_a_pod_that_moves_has_new_devices() -> None:
    """Its claim is allocated on the Node that it leaves."""
    found = known(spec(exactly()), status=ALLOCATED)
    assert [one.requests for one in claimed((OF_CLAIM,), found, GPUS, bound=True)] == [{DEVICE: 1000}]


# What is left

EIGHT = InstanceType(
    name="Standard_ND96isr_H100_v5",
    requirements={},
    capacity={"cpu": 96000, "nvidia.com/gpu": 8000},
    allocatable={"cpu": 95000, "nvidia.com/gpu": 8000},
    offerings=(),
)


def test_offered() -> None:
    """The capacity counts for limits; pods can only claim the devices."""
    dra = offered(EIGHT, NodeClassSpec(gpu=GpuSettings(mode="DRA")), CLOUD)
    assert dra.capacity == {"cpu": 96000, "nvidia.com/gpu": 8000, DEVICE: 8000, ALL: 1000}
    assert dra.allocatable == {"cpu": 95000, DEVICE: 8000, ALL: 1000}
    assert offered(EIGHT, NodeClassSpec(), CLOUD) is EIGHT


def of_gpu(made: Device, number: int) -> Device:
    return msgspec.structs.replace(made, counters=(CounterConsumption(counter_set=f"gpu-{number}-counters"),))


PARTITIONED = digest(
    published(
        *(of_gpu(one, number) for number, one in enumerate(some(8))),
        *(of_gpu(device(f"gpu-0-mig-{number}", "mig"), 0) for number in range(2)),
    )
)


def users(*devices: str) -> DeviceClaims:
    results = [{"driver": NVIDIA, "pool": NODE, "device": one} for one in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return DeviceClaims(claims={"a": msgspec.convert({"status": status}, ResourceClaim)})


@pytest.mark.parametrize(
    ("slices", "used", "up", "left"),
    [
        ((published(*some(8)),), (), UP, (8000, 1000)),
        ((published(*some(8)),), ("gpu-0", "gpu-7"), UP, (6000, 0)),
        ((published(*some(7)),), ("gpu-7",), UP, (7000, 0)),
        ((published(*some(8)),), tuple(f"gpu-{number}" for number in range(8)), UP, (0, 0)),
        # Taints: of the driver, of an administrator, and one that only informs
        ((published(*some(7), device("gpu-7", "gpu", XID)),), (), UP, (7000, 0)),
        ((published(*some(7), device("gpu-7", "gpu", BUSY)),), ("gpu-0",), UP, (6000, 0)),
        ((published(*some(7), device("gpu-7", "gpu", LOST)),), ("gpu-7",), UP, (7000, 0)),
        ((published(*some(7), device("gpu-7", "gpu", OF_APPLICATION)),), (), UP, (8000, 1000)),
        # Partitions that share counters with their GPU, and one that does not
        ((PARTITIONED,), (), UP, (8000, 1000)),
        ((PARTITIONED,), ("gpu-0-mig-0",), UP, (7000, 0)),
        ((PARTITIONED,), ("gpu-0-mig-0", "gpu-0-mig-1", "gpu-3"), UP, (6000, 0)),
        ((published(*some(7), device("gpu-7-mig-0", "mig")),), ("gpu-7-mig-0",), UP, (7000, 0)),
        # The driver restarts
        ((published(*some(4), of=2),), ("gpu-0",), UP, (7000, 0)),
        ((), ("gpu-0",), UP, (7000, 0)),
        # It is gone
        ((), (), ("Launched", "Registered"), (0, 0)),
    ],
)
def test_left(
    slices: tuple[ResourceSlice, ...], used: tuple[str, ...], up: tuple[str, ...], left: tuple[int, int]
) -> None:
    """The devices of complete pools that no claim has; those of the size while the driver restarts."""
    made = model.ExistingNode(name=NODE, requirements={}, taints=(), allocatable={"cpu": 1000})
    found = with_devices(
        made, node(), claim(up=up), size=EIGHT, slices=slices, allocated=allocated_devices(users(*used))
    )
    assert (found.allocatable[DEVICE], found.allocatable[ALL]) == left
    assert found.capacity["nvidia.com/gpu"] == 8000


def test_each_of_alternative_requests_counts() -> None:
    """firstAvailable of an H100 or a T4: a machine with either one serves the pod."""
    options = [
        {
            "name": name,
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": f"{PRODUCT}.contains('{name}')"}}],
        }
        for name in ("H100", "T4")
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": options}]}}
    template = msgspec.convert({"metadata": {"name": "t"}, "spec": {"spec": spec}}, ResourceClaimTemplate)
    selectors = [{"cel": {"expression": f"device.driver == '{NVIDIA}'"}}]
    classes = {"gpu": msgspec.convert({"spec": {"selectors": selectors}}, DeviceClass)}
    (found,) = claimed(
        [ClaimName(template="default/t")], DeviceClaims(templates={"default/t": template}, classes=classes), GPUS
    )
    sizes = found.requirements[labels.INSTANCE_TYPE].values
    assert {"Standard_NC4as_T4_v3", "Standard_NC40ads_H100_v5"} <= sizes
    assert found.requests == {DEVICE: 1000}
