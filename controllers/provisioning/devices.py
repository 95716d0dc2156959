"""The devices that pods claim, as resources and VM sizes, and those that are left on a machine.

The table of sizes stands for the ResourceSlices of machines that do not exist yet: whole GPUs with a driver, a type, a
product name and memory. Other requests are refused, because no machine of this program would help the pod.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from cloudprovider.azure.gpu_products import memory_bytes, product
from cloudprovider.azure.instance_types import gpu_sizes
from controllers.model.device_claims import DeviceClaims
from controllers.nodeclaim.lifecycle.dra import DRIVERS
from provisioner.api import labels
from provisioner.api.deviceclaim import ALL, ClaimName, DeviceSelector, ExactRequest, ResourceClaimSpec
from provisioner.api.resourceslice import GPU_TYPES
from provisioner.api.text import quoted
from provisioner.api.value_sets import one_of

from .device_selectors import DeviceTemplate, selector
from .offered import ALL_DEVICES, DEVICES
from .solver.requirements import Requirements

# Attributes that all GPUs of a machine have in common.
COMMON = frozenset({"type", "productName", "brand", "architecture", "driverVersion", "cudaDriverVersion"})
REQUESTS_MAX = 32


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` in thousandths; `requirements`: the sizes whose GPUs all requests select."""

    requests: Mapping[str, int]
    requirements: Requirements


def claimed(names: Iterable[ClaimName], found: DeviceClaims, *, bound: bool = False) -> Claimed:
    """What a pod needs for its claims. `bound`: it runs, and is created again elsewhere, where it has new devices.

    Raises ValueError with the cause if no machine would help the pod.
    """
    if found.error:
        raise ValueError(f"the ResourceClaims of pods cannot be read: {found.error}")
    devices: dict[str, int] = {}
    sizes: frozenset[str] | None = None
    for name in names:
        what, spec = _spec(name, found, bound=bound)
        try:
            for driver, count, allowed in _of_claim(spec, found):
                devices[driver] = devices.get(driver, 0) + count
                sizes = allowed if sizes is None else sizes & allowed
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
    if sizes is None:
        return Claimed(requests={}, requirements={})
    if not sizes:
        raise ValueError("its claims select GPUs of different sizes, which no machine has together; change one of them")
    requests = {DEVICES + driver: 1000 * count for driver, count in devices.items()}
    return Claimed(requests=requests, requirements={labels.INSTANCE_TYPE: one_of(sorted(sizes))})


def _spec(name: ClaimName, found: DeviceClaims, *, bound: bool) -> tuple[str, ResourceClaimSpec]:
    own = found.claims.get(name.claim or name.generated)
    if own is not None and own.status.allocation is not None and not bound:
        raise ValueError(f"ResourceClaim {name.claim or name.generated} is allocated: the pod waits for its Node")
    if name.claim:
        if own is None:
            raise ValueError(f"ResourceClaim {name.claim} does not exist; create it")
        return f"ResourceClaim {name.claim}", own.spec
    template = found.templates.get(name.template)
    if template is None:
        raise ValueError(f"ResourceClaimTemplate {name.template} does not exist; create it")
    return f"ResourceClaimTemplate {name.template}", template.spec.spec


def _of_claim(spec: ResourceClaimSpec, found: DeviceClaims) -> Iterable[tuple[str, int, frozenset[str]]]:
    """Driver, count and sizes of each request."""
    for constraint in spec.devices.constraints:
        if constraint.match_attribute.rpartition("/")[2] not in COMMON:
            value = quoted(constraint.match_attribute or "distinctAttribute")
            raise ValueError(
                f"spec.devices.constraints: {value} is not supported: which devices of a new machine share it is not"
                f" known; remove it, or use one of {', '.join(sorted(COMMON))}"
            )
    for request in spec.devices.requests[:REQUESTS_MAX]:
        options = (request.exactly,) if request.exactly is not None else request.first_available
        yield from _first(request.name, options, found)


def _first(
    name: str, options: Iterable[ExactRequest], found: DeviceClaims
) -> tuple[tuple[str, int, frozenset[str]], ...]:
    """The first of alternative requests that a size can serve."""
    error = ValueError(f"spec.devices.requests: {quoted(name)} names no devices; set exactly.deviceClassName")
    for option in options:
        try:
            return _requested(name, option, found)
        except ValueError as why:
            error = why
    raise error


def _requested(name: str, request: ExactRequest, found: DeviceClaims) -> tuple[tuple[str, int, frozenset[str]], ...]:
    where = f"spec.devices.requests: {quoted(name)}"
    device_class = found.classes.get(request.device_class_name)
    if device_class is None:
        raise ValueError(f"{where}: DeviceClass {quoted(request.device_class_name)} does not exist; create it")
    if request.admin_access or request.capacity is not None:
        field = "adminAccess" if request.admin_access else "capacity"
        raise ValueError(f"{where}: {field} is not supported: machines are created for whole GPUs; remove it")
    sizes = _matching((*device_class.spec.selectors, *request.selectors))
    drivers = {one.driver for one in sizes.values()}
    if not drivers:
        raise ValueError(
            f"{where}: no VM size has GPUs that DeviceClass {quoted(request.device_class_name)} and the selectors"
            " select; change them, or create a Node with such devices"
        )
    driver = max(drivers)
    allowed = frozenset(size for size, one in sizes.items() if one.driver == driver)
    if request.allocation_mode == ALL:
        return (driver, 1, allowed), (ALL_DEVICES.removeprefix(DEVICES), 1, allowed)
    return ((driver, max(1, request.count), allowed),)


def _matching(selectors: Iterable[DeviceSelector]) -> Mapping[str, DeviceTemplate]:
    """The sizes whose GPUs all selectors select. Raises ValueError for a selector that is not supported."""
    compiled = [selector(one.cel.expression) for one in selectors if one.cel is not None]
    return {size: device for size, device in templates().items() if all(compare(device) for compare in compiled)}


@cache
def templates() -> Mapping[str, DeviceTemplate]:
    """A GPU of each size, as its driver will publish it."""
    return {
        one.name: DeviceTemplate(
            driver=DRIVERS[one.resource],
            type=GPU_TYPES[DRIVERS[one.resource]],
            product=product(one.name, one.model) or None,
            memory=memory_bytes(one),
        )
        for one in gpu_sizes()
    }
