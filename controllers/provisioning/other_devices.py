"""Requests for devices of other drivers than those of GPUs, such as network devices or channels of a ComputeDomain.

Which sizes have such devices is not known, so that they select no machine: what else the pod requests decides, and the
Event of the pod names them. Such a request is known by its driver, which a selector compares with a constant.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Iterable, Iterator

from controllers.model.storage import DeviceClaims
from provisioner.api.deviceclaim import DeviceConstraint, DeviceRequest, ExactRequest, ResourceClaimSpec
from provisioner.api.text import quoted
from provisioner.vendors import BY_DRIVER

from .device_selectors import drivers

REQUESTS_MAX = 32
# Of the requests that an Event names.
NAMED_MAX = 3


def requests_of(spec: ResourceClaimSpec) -> tuple[DeviceRequest, ...]:
    """The requests of a claim that are compared; the API server accepts no more."""
    return spec.devices.requests[:REQUESTS_MAX]


def options_of(request: DeviceRequest) -> tuple[ExactRequest, ...]:
    """The alternatives of a request."""
    return (request.exactly,) if request.exactly is not None else request.first_available


def other_driver(request: DeviceRequest, found: DeviceClaims) -> str:
    """The driver of a request that no driver of GPUs can serve; "" if one may."""
    named = [_driver(one, found) for one in options_of(request)]
    return named[0] if named and all(named) else ""


def concerns_others(constraint: DeviceConstraint, spec: ResourceClaimSpec, found: DeviceClaims) -> bool:
    """Whether the constraint compares devices of another driver with those of the claim."""
    wanted = {one.partition("/")[0] for one in constraint.requests}
    return any(other_driver(one, found) for one in requests_of(spec) if not constraint.requests or one.name in wanted)


def others(specs: Iterable[tuple[str, ResourceClaimSpec]], found: DeviceClaims) -> Iterator[str]:
    """The requests of these claims that are not considered, each with its claim and driver."""
    for what, spec in specs:
        for request in requests_of(spec):
            if driver := other_driver(request, found):
                yield f"request {quoted(request.name)} of {what} for devices of {driver}"


def note(specs: Iterable[tuple[str, ResourceClaimSpec]], found: DeviceClaims) -> str:
    """What the Event of a pod states of them; "" without one."""
    named = [*others(specs, found)]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return f"; not considered: {', '.join(named[:NAMED_MAX])}{more}: a Node must publish these" if named else ""


def _driver(option: ExactRequest, found: DeviceClaims) -> str:
    device_class = found.classes.get(option.device_class_name)
    if device_class is None:
        return ""
    selectors = (*device_class.spec.selectors, *option.selectors)
    named = [driver for one in selectors if one.cel is not None for driver in drivers(one.cel.expression)]
    return next((driver for driver in named if driver not in BY_DRIVER), "")
