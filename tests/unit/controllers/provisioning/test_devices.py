"""Tables of claims for devices: selectors, counts, sizes, and what is left on a machine."""

from typing import Any

import msgspec
import pytest

from controllers.model.device_claims import DeviceClaims
from controllers.provisioning.device_selectors import DeviceTemplate, selector
from controllers.provisioning.devices import claimed, templates
from controllers.provisioning.free_devices import allocated_devices, with_devices
from controllers.provisioning.offered import offered
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.deviceclaim import ClaimName, DeviceClass, ResourceClaim, ResourceClaimTemplate
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.resourceslice import ResourceSlice
from tests.unit.builders import NODE, UP, claim, node
from tests.unit.controllers.nodeclaim.lifecycle.test_dra import published, some

Json = dict[str, Any]
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
DEVICE = "resource.kubernetes.io/gpu.nvidia.com"
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
    assert {one.driver for one in templates().values()} == {NVIDIA, AMD}
    assert templates()["Standard_ND96isr_MI300X_v5"].type == "amdgpu"
    assert templates()["Standard_ND96isr_H100_v5"].memory == 81559 * 2**20


def device_class(*expressions: str) -> DeviceClass:
    return msgspec.convert({"spec": {"selectors": [{"cel": {"expression": one}} for one in expressions]}}, DeviceClass)


def spec(*requests: Json, constraints: tuple[Json, ...] = ()) -> Json:
    return {"devices": {"requests": list(requests), "constraints": list(constraints)}}


def exactly(count: int = 1, **fields: Any) -> Json:
    return {"name": "gpu", "exactly": {"deviceClassName": NVIDIA, "count": count, **fields}}


def known(of: Json, **more: Any) -> DeviceClaims:
    """A template and a claim of the same name with these requests."""
    claims = {"default/one": msgspec.convert({"spec": of, "status": more.pop("status", {})}, ResourceClaim)}
    found = {"default/one": msgspec.convert({"spec": {"spec": of}}, ResourceClaimTemplate)}
    classes = {
        NVIDIA: device_class("device.driver == 'gpu.nvidia.com'"),
        AMD: device_class("device.driver == 'gpu.amd.com'"),
        "any": device_class(),
    }
    return DeviceClaims(requested=frozenset(("",)), claims=claims, templates=found, classes=classes, **more)


OF_TEMPLATE, OF_CLAIM = ClaimName(template="default/one"), ClaimName(claim="default/one")
LARGE: Json = {"selectors": [{"cel": {"expression": f"{MEMORY}.isGreaterThan(quantity('100Gi'))"}}]}
FIRST = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "a", "deviceClassName": "missing"},
        {"name": "b", "deviceClassName": NVIDIA, "count": 2},
        {"name": "c", "deviceClassName": NVIDIA},
    ],
}


@pytest.mark.parametrize(
    ("requests", "resources"),
    [
        ((exactly(),), {DEVICE: 1000}),
        ((exactly(2), exactly(3)), {DEVICE: 5000}),
        ((exactly(deviceClassName=AMD),), {"resource.kubernetes.io/gpu.amd.com": 1000}),
        ((exactly(allocationMode="All"),), {DEVICE: 1000, ALL: 1000}),
        ((exactly(deviceClassName="any"),), {DEVICE: 1000}),
        ((FIRST,), {DEVICE: 2000}),
        ((), {}),
    ],
)
def test_requests(requests: tuple[Json, ...], resources: dict[str, int]) -> None:
    """The devices of all requests together."""
    for name in (OF_TEMPLATE, OF_CLAIM):
        assert claimed((name,), known(spec(*requests))).requests == resources


def test_sizes() -> None:
    """Those whose GPUs all requests select."""
    found = claimed((OF_TEMPLATE,), known(spec(exactly(**LARGE))))
    assert found.requirements[labels.INSTANCE_TYPE].values == {"Standard_ND96isr_H200_v5"}


ALLOCATED = {"allocation": {"devices": {"results": [{"driver": NVIDIA, "pool": NODE, "device": "gpu-0"}]}}}


@pytest.mark.parametrize(
    ("name", "found", "words"),
    [
        (ClaimName(claim="default/none"), known(spec(exactly())), "ResourceClaim default/none does not exist"),
        (ClaimName(template="default/none"), known(spec(exactly())), "ResourceClaimTemplate default/none does not"),
        (OF_CLAIM, known(spec(exactly()), status=ALLOCATED), "is allocated"),
        (OF_CLAIM, DeviceClaims(error="403"), "cannot be read: 403"),
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
        claimed((name,), found)


def test_devices_in_common_may_be_constrained() -> None:
    same = known(spec(exactly(2), constraints=({"matchAttribute": "gpu.nvidia.com/productName"},)))
    assert claimed((OF_CLAIM,), same).requests == {DEVICE: 2000}


def test_a_pod_that_moves_has_new_devices() -> None:
    """Its claim is allocated on the Node that it leaves."""
    found = known(spec(exactly()), status=ALLOCATED)
    assert claimed((OF_CLAIM,), found, bound=True).requests == {DEVICE: 1000}


# What is left

EIGHT = model.InstanceType(
    name="Standard_ND96isr_H100_v5",
    requirements={},
    capacity={"cpu": 96000, "nvidia.com/gpu": 8000},
    allocatable={"cpu": 95000, "nvidia.com/gpu": 8000},
    offerings=(),
)


def test_offered() -> None:
    """The capacity counts for limits; pods can only claim the devices."""
    dra = offered(EIGHT, GpuSettings(mode="DRA"))
    assert dra.capacity == {"cpu": 96000, "nvidia.com/gpu": 8000, DEVICE: 8000, ALL: 1000}
    assert dra.allocatable == {"cpu": 95000, DEVICE: 8000, ALL: 1000}
    assert offered(EIGHT, GpuSettings()) is EIGHT


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
