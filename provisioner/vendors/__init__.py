"""The vendors of GPUs, one module each, and look-ups of them. Imports only the standard library and msgspec."""

from collections.abc import Mapping

from . import amd, nvidia
from .vendor import Division as Division
from .vendor import Vendor as Vendor

# A new vendor is a module and its place here.
VENDORS = (nvidia.VENDOR, amd.VENDOR)

BY_NAME: Mapping[str, Vendor] = {one.name: one for one in VENDORS}
BY_DOMAIN: Mapping[str, Vendor] = {one.domain: one for one in VENDORS}
# By the extended resource of a whole GPU.
BY_RESOURCE: Mapping[str, Vendor] = {one.resource: one for one in VENDORS}
BY_DRIVER: Mapping[str, Vendor] = {one.driver: one for one in VENDORS}
DIVISIONS = tuple(one.division for one in VENDORS if one.division is not None)
_PARTS = tuple(one.slice_prefix for one in DIVISIONS)


def vendor_of(resource: str) -> Vendor | None:
    """The vendor in whose domain a resource is."""
    return BY_DOMAIN.get(resource.partition("/")[0])


def division_of(resource: str) -> Division | None:
    """How whole GPUs of this resource become several devices; None if they do not."""
    vendor = BY_RESOURCE.get(resource)
    return vendor.division if vendor is not None else None


def driver_of(resource: str) -> str:
    """The driver for dynamic resource allocation of whole GPUs of this resource; "" for another resource."""
    vendor = BY_RESOURCE.get(resource)
    return vendor.driver if vendor is not None else ""


def is_gpu(resource: str) -> bool:
    """Whether a resource is a GPU, a part of one, or a shared one."""
    return resource.startswith((*BY_RESOURCE, *_PARTS))


def is_divisible(resource: str) -> bool:
    """Whether a resource is a whole GPU that can be divided, a slice, or a shared GPU."""
    return division_of(resource) is not None or is_other_device(resource)


def is_other_device(resource: str) -> bool:
    """Whether a resource is a slice or a shared GPU under a name of its own."""
    return resource.startswith(_PARTS) or any(
        one.division is not None and resource == one.resource + one.division.shared_suffix for one in VENDORS
    )
