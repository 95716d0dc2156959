"""The devices that pods claim, as resources and VM sizes, and those that are left on a machine.

The table of sizes stands for the ResourceSlices of machines that do not exist yet: whole GPUs with a driver, a type, a
product name and memory. Requests for devices of other drivers do not matter (`other_devices`), as long as the pod
requests GPUs as well. The rest is refused, because no machine of this program would help the pod.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cloudprovider.cloud import DeviceTemplate
from controllers.model.storage import DeviceClaims
from provisioner.api import labels
from provisioner.api.deviceclaim import ALL, ClaimName, DeviceRequest, DeviceSelector, ExactRequest, ResourceClaimSpec
from provisioner.api.meta import ObjectMeta
from provisioner.api.requirements import Requirements
from provisioner.api.text import quoted
from provisioner.api.value_sets import one_of

from .device_selectors import selector
from .offered import ALL_DEVICES, DEVICES
from .other_devices import concerns_others, note, options_of, other_driver, others, requests_of

# Attributes that all GPUs of a machine have in common.
COMMON = frozenset({"type", "productName", "brand", "architecture", "driverVersion", "cudaDriverVersion"})
NOTHING: Mapping[str, DeviceRequest] = {}
# Of the numbers of devices that the alternatives of all requests lead to.
ALTERNATIVES_MAX = 8


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """`requests` in thousandths; `requirements`: the sizes whose GPUs all requests select.

    `instead`: the extended resources that a pod requests, and for which it gets devices.
    """

    requests: Mapping[str, int]
    requirements: Requirements
    instead: frozenset[str] = frozenset()


# A GPU of each size that has some, by the name of the size.
Templates = Mapping[str, DeviceTemplate]
# How many devices of which driver, as pairs in order; and the sizes that have them.
Devices = tuple[tuple[str, int], ...]
Choices = Mapping[Devices, frozenset[str]]


def claimed(
    names: Iterable[ClaimName],
    found: DeviceClaims,
    gpus: Templates,
    *,
    bound: bool = False,
    plugged: bool = False,
    extended: Mapping[str, DeviceRequest] = NOTHING,
) -> tuple[Claimed, ...]:
    """What a pod needs for its claims: one of these, the first one that a machine serves.

    Alternatives with the same numbers of devices are one: any of their sizes suffices, because the driver allocates
    what the machine has. `bound`: the pod runs, and is created again elsewhere, where it has new devices. `plugged`:
    it requests devices of a device plugin besides. `extended`: those of them for which it can get devices of a driver;
    they are alternatives after those of a plugin. Raises ValueError with the cause if no machine would help the pod.
    """
    if found.error:
        raise ValueError(f"the ResourceClaims of pods cannot be read: {found.error}")
    total: Choices = {(): frozenset(gpus)}
    specs = [_spec(name, found, bound=bound) for name in names]
    if not plugged and not any(True for _, spec in specs for one in requests_of(spec) if not other_driver(one, found)):
        for one in others(specs, found):
            raise ValueError(f"{one}: which VM sizes have such devices is not known; request GPUs as well")
    for what, spec in specs:
        try:
            for choices in _of_claim(spec, found, gpus):
                total = _together(total, choices)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
    if not total:
        raise ValueError("its claims select GPUs of different sizes, which no machine has together; change one of them")
    return (*_alternatives(total), *_alternatives(_of_extended(total, extended, found, gpus), extended))


def _alternatives(total: Choices, instead: Iterable[str] = ()) -> Iterator[Claimed]:
    for devices, sizes in total.items():
        yield Claimed(
            requests={DEVICES + driver: 1000 * count for driver, count in devices},
            requirements={labels.INSTANCE_TYPE: one_of(sorted(sizes))} if devices else {},
            instead=frozenset(instead),
        )


def _of_extended(
    total: Choices, extended: Mapping[str, DeviceRequest], found: DeviceClaims, gpus: Templates
) -> Choices:
    """The choices with devices for these resources; none if no size has such devices."""
    try:
        for name, request in extended.items():
            total = _together(total, _choices(name, options_of(request), found, gpus))
    except ValueError:
        return {}
    return total if extended else {}


def note_of(names: Iterable[ClaimName], found: DeviceClaims) -> str:
    """What the Event of a pod states of requests that were not considered; "" without one."""
    return note([_spec(name, found, bound=True) for name in names], found)


def _together(before: Choices, more: Choices) -> Choices:
    """The combinations of two requests that a size can serve; the first ones, in the order of the alternatives."""
    found = dict[Devices, frozenset[str]]()
    for one, sizes in before.items():
        for other, served in more.items():
            both = sizes & served
            devices = Counter(dict(one)) + Counter(dict(other))
            key = tuple(sorted(devices.items()))
            if both and (key in found or len(found) < ALTERNATIVES_MAX):
                found[key] = found.get(key, frozenset()) | both
    return found


def _spec(name: ClaimName, found: DeviceClaims, *, bound: bool) -> tuple[str, ResourceClaimSpec]:
    own = found.claims.get(name.claim or name.generated)
    if own is not None and own.status.allocation is not None and not bound:
        raise ValueError(f"ResourceClaim {name.claim or name.generated} is allocated: the pod waits for its Node")
    if name.claim:
        if own is None:
            raise ValueError(f"ResourceClaim {name.claim} does not exist; create it")
        return _readable(f"ResourceClaim {name.claim}", own.metadata), own.spec
    template = found.templates.get(name.template)
    if template is None:
        raise ValueError(f"ResourceClaimTemplate {name.template} does not exist; create it")
    return _readable(f"ResourceClaimTemplate {name.template}", template.metadata), template.spec.spec


def _readable(what: str, meta: ObjectMeta) -> str:
    """Raises ValueError if a part of the object could not be read or kept."""
    if meta.unreadable:
        raise ValueError(f"{what} cannot be read: {meta.unreadable[0]}")
    return what


def _of_claim(spec: ResourceClaimSpec, found: DeviceClaims, gpus: Templates) -> Iterable[Choices]:
    """The alternatives of each request."""
    for constraint in spec.devices.constraints:
        if concerns_others(constraint, spec, found):
            continue
        if constraint.match_attribute.rpartition("/")[2] not in COMMON:
            value = quoted(constraint.match_attribute or "distinctAttribute")
            raise ValueError(
                f"spec.devices.constraints: {value} is not supported: which devices of a new machine share it is not"
                f" known; remove it, or use one of {', '.join(sorted(COMMON))}"
            )
    for request in requests_of(spec):
        if not other_driver(request, found):
            yield _choices(request.name, options_of(request), found, gpus)


def _choices(name: str, options: Iterable[ExactRequest], found: DeviceClaims, gpus: Templates) -> Choices:
    """The alternatives of a request that some size can serve."""
    error = ValueError(f"spec.devices.requests: {quoted(name)} names no devices; set exactly.deviceClassName")
    served = dict[Devices, frozenset[str]]()
    for option in options:
        try:
            for devices, sizes in _requested(name, option, found, gpus):
                served[devices] = served.get(devices, frozenset()) | sizes
        except ValueError as why:
            error = why
    if not served:
        raise error
    return served


def _requested(
    name: str, request: ExactRequest, found: DeviceClaims, gpus: Templates
) -> Iterable[tuple[Devices, frozenset[str]]]:
    """The devices of each driver that serves the request, with the sizes."""
    where = f"spec.devices.requests: {quoted(name)}"
    device_class = found.classes.get(request.device_class_name)
    if device_class is None:
        raise ValueError(f"{where}: DeviceClass {quoted(request.device_class_name)} does not exist; create it")
    if request.admin_access or request.capacity is not None:
        field = "adminAccess" if request.admin_access else "capacity"
        raise ValueError(f"{where}: {field} is not supported: machines are created for whole GPUs; remove it")
    sizes = _matching((*device_class.spec.selectors, *request.selectors), gpus)
    if not sizes:
        raise ValueError(
            f"{where}: no VM size has GPUs that DeviceClass {quoted(request.device_class_name)} and the selectors"
            " select; change them, or create a Node with such devices"
        )
    for driver in sorted({one.driver for one in sizes.values()}, reverse=True):
        allowed = frozenset(size for size, one in sizes.items() if one.driver == driver)
        if request.allocation_mode == ALL:
            yield ((driver, 1), (ALL_DEVICES.removeprefix(DEVICES), 1)), allowed
        else:
            yield ((driver, max(1, request.count)),), allowed


def _matching(selectors: Iterable[DeviceSelector], gpus: Templates) -> Templates:
    """The sizes whose GPUs all selectors select. Raises ValueError for a selector that is not supported."""
    compiled = [selector(one.cel.expression) for one in selectors if one.cel is not None]
    return {size: device for size, device in gpus.items() if all(compare(device) for compare in compiled)}
