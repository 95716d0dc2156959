"""The fields of ResourceClaims, ResourceClaimTemplates and DeviceClasses (`resource.k8s.io/v1`) that scheduling uses.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-template-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/device-class-v1/.
"""

from collections.abc import Mapping

import msgspec

from .meta import ObjectMeta, Struct

ALL = "All"


class CelSelector(Struct, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True, kw_only=True):
    """None: a kind of selector that is not known here."""

    cel: CelSelector | None = None


class CapacityRequirements(Struct, frozen=True, kw_only=True):
    """A part of a device that several claims share."""

    requests: Mapping[str, str | int] = {}


class ExactRequest(Struct, frozen=True, kw_only=True):
    """`count` devices of a class, or all of them. The members of `firstAvailable` have the same fields."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True, kw_only=True):
    """One of `exactly` and `first_available`."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True, kw_only=True):
    """`match_attribute`: all devices have the same value; "": another kind of constraint. `requests`: (): all."""

    match_attribute: str = ""
    requests: tuple[str, ...] = ()


class DeviceRequests(Struct, frozen=True, kw_only=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Struct, frozen=True, kw_only=True):
    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Struct, frozen=True, kw_only=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


class AllocatedDevices(Struct, frozen=True, kw_only=True):
    results: tuple[AllocatedDevice, ...] = ()


class Allocation(Struct, frozen=True, kw_only=True):
    devices: AllocatedDevices = AllocatedDevices()


class ResourceClaimStatus(Struct, frozen=True, kw_only=True):
    """`allocation` None: no devices are allocated yet."""

    allocation: Allocation | None = None


class ResourceClaim(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct, frozen=True, kw_only=True, weakref=True):
    """Each pod that refers to it gets a ResourceClaim of its own."""

    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaimTemplate"
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Struct, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Struct, frozen=True, kw_only=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "DeviceClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ClaimName(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod names for its devices: a ResourceClaim, or a template of its own one, as `namespace/name`.

    `generated`: the claim that was created from the template, "" before that.
    """

    claim: str = ""
    template: str = ""
    generated: str = ""
