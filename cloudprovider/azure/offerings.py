"""Mapping from the requirements of a NodeClaim to its offerings, in the order in which they are tried.

Pure. The order is that of the claim: by size, then capacity type, then zone. Invalid requirements, requirements that
exclude everything, and more values or offerings than can be tried are rejected, final. Without a zone requirement Azure
chooses the zone; without a capacity-type requirement the capacity type is on-demand, so that nothing is evicted unless
the claim allows it.

Source: docs/references/karpenter.md#requirements, docs/references/kaito.md#the-nodeclaim-that-kaito-creates,
docs/references/agent-pools.md#request-body.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from cloudprovider.errors import Rejected, reject
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType, Offering
from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim, NodeClaimSpec
from provisioner.api.requirements import Requirement, allowed, allowed_values, conflicting, invalid
from provisioner.api.zones import REGIONAL

from .instance_types import arch_of

# KAITO also sets the size under this key of karpenter-provider-azure
# (docs/references/kaito.md#the-nodeclaim-that-kaito-creates).
SKU_NAME = "karpenter.azure.com/sku-name"
EXAMPLE_SIZE = "Standard_NC24ads_A100_v4"

# Each pass needs the offerings of its claim; a cluster has at most 100 agent pools, and claims of one owner are alike.
CLAIMS_CACHED = 256
# All of them are evaluated. There are about 30 GPU sizes, 3 zones and 2 capacity types.
VALUES_MAX = 5000
OFFERINGS_MAX = 500

_SIZE = re.compile(r"(Standard|Basic)_[A-Za-z0-9_-]{1,60}", re.IGNORECASE)
_ZONE = re.compile(r"(?:([a-z0-9]+)-)?([0-9])")


def offerings(claim: NodeClaim, location: str = "") -> tuple[Offering, ...]:
    """At least one offering of a cluster in `location` ("": not known). Raises Rejected (final)."""
    reject(validate(claim, location))
    kinds, zones = _capacity_types(claim), _zones(claim, location) or ("",)
    return tuple(
        Offering(size=size, zone=zone, capacity_type=kind) for size in _sizes(claim) for kind in kinds for zone in zones
    )


def allowed_offerings(claim: NodeClaim, location: str = "") -> tuple[Offering, ...]:
    """As `offerings`, but () for invalid requirements: creating the instance reports those."""
    return _allowed(claim.spec.requirements, location)


@lru_cache(maxsize=CLAIMS_CACHED)
def _allowed(requirements: tuple[Requirement, ...], location: str) -> tuple[Offering, ...]:
    """Nothing else of a claim matters, and its requirements are immutable."""
    try:
        return offerings(NodeClaim(spec=NodeClaimSpec(requirements=requirements)), location)
    except Rejected:
        return ()


def validate(claim: NodeClaim, location: str = "") -> Iterator[FieldError]:
    """The errors of the requirements, of a cluster in `location` ("": what depends on it is not checked).

    Invalid requirements are reported alone: their meaning is not evaluated.
    """
    requirements = claim.spec.requirements
    values = sum(len(requirement.values) for requirement in requirements)
    if values > VALUES_MAX:
        message, remedy = f"{values} values, at most {VALUES_MAX} are evaluated", "list fewer values"
        yield FieldError("spec.requirements", reasons.REQUIREMENTS_INVALID, message, remedy=remedy)
        return
    unreadable = invalid(requirements)
    conflicts = {} if unreadable else conflicting(requirements)
    for message in unreadable or conflicts.values():
        remedy = "recreate the claim with valid requirements"
        yield FieldError("spec.requirements", reasons.REQUIREMENTS_INVALID, message, remedy=remedy)
    if unreadable:
        return
    if labels.OS not in conflicts and not allowed(requirements, labels.OS).allows("linux"):
        message = "linux is excluded, and nodes run Linux"
        yield FieldError(_field(labels.OS), reasons.OPERATING_SYSTEM_INVALID, message, remedy="allow linux")
    if conflicts.keys().isdisjoint({labels.INSTANCE_TYPE, SKU_NAME}):
        yield from _validate_sizes(claim)
        if labels.ARCH not in conflicts:
            yield from _validate_arch(claim)
        yield from _validate_number(claim, location)
    if location and labels.REGION not in conflicts and not allowed(requirements, labels.REGION).allows(location):
        message, value = f"the cluster is in {location}", ", ".join(allowed_values(requirements, labels.REGION) or ())
        remedy = f"allow {location}, or remove the requirement"
        yield FieldError(_field(labels.REGION), reasons.REQUIREMENTS_INVALID, message, value, remedy)
    if labels.ZONE not in conflicts:
        yield from _validate_zones(claim, location)
    if labels.CAPACITY_TYPE not in conflicts and not _capacity_types(claim):
        message, remedy = "neither on-demand nor spot is allowed", "allow one of them"
        value = ", ".join(allowed_values(requirements, labels.CAPACITY_TYPE) or ())
        yield FieldError(_field(labels.CAPACITY_TYPE), reasons.CAPACITY_TYPE_INVALID, message, value, remedy)


def _validate_zones(claim: NodeClaim, location: str) -> Iterator[FieldError]:
    values = allowed_values(claim.spec.requirements, labels.ZONE) or ()
    invalid_values = [value for value in values if _ZONE.fullmatch(value) is None]
    for value in invalid_values:
        message, remedy = f"{value[:40]!r} is not a zone", "use <location>-1, -2 or -3, or 0 for none"
        yield FieldError(_field(labels.ZONE), reasons.ZONE_INVALID, message, value, remedy)
    if values and not invalid_values and not _zones(claim, location):
        message, remedy = f"no zone of {location}, where the cluster is", f"use {location}-1, -2 or -3"
        yield FieldError(_field(labels.ZONE), reasons.ZONE_INVALID, message, ", ".join(values), remedy)


def _validate_arch(claim: NodeClaim) -> Iterator[FieldError]:
    """An error if sizes are requested, and none of them has an allowed architecture."""
    named = _named_sizes(claim)
    if named and not _sizes(claim):
        has = dict.fromkeys(arch_of(size) for size in named)
        message, remedy = f"{', '.join(named)[:80]}: {' or '.join(has)}", f"allow {' or '.join(has)}"
        value = ", ".join(allowed_values(claim.spec.requirements, labels.ARCH) or ())
        yield FieldError(_field(labels.ARCH), reasons.REQUIREMENTS_INVALID, message, value, remedy)


def _validate_sizes(claim: NodeClaim) -> Iterator[FieldError]:
    requested = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE)
    if not requested:
        message, remedy = "no instance type is specified", f"add {labels.INSTANCE_TYPE}, for example {EXAMPLE_SIZE}"
        yield FieldError("spec.requirements", reasons.INSTANCE_TYPE_MISSING, message, remedy=remedy)
        return
    sizes = _named_sizes(claim)
    if not sizes:
        message, remedy = (
            f"none of {', '.join(requested)[:80]} is allowed",
            "specify the same size in both requirements",
        )
        yield FieldError(_field(SKU_NAME), reasons.INSTANCE_TYPE_INVALID, message, ", ".join(requested), remedy)
    for size in sizes:
        if _SIZE.fullmatch(size) is None:
            message, remedy = f"{size[:60]!r} is not an Azure VM size", f"use for example {EXAMPLE_SIZE}"
            yield FieldError(_field(labels.INSTANCE_TYPE), reasons.INSTANCE_TYPE_INVALID, message, size, remedy)


def _validate_number(claim: NodeClaim, location: str) -> Iterator[FieldError]:
    number = len(_sizes(claim)) * len(_capacity_types(claim)) * max(1, len(_zones(claim, location)))
    if number > OFFERINGS_MAX:
        message = f"{number} combinations of size, capacity type and zone, at most {OFFERINGS_MAX} are tried"
        yield FieldError("spec.requirements", reasons.REQUIREMENTS_INVALID, message, remedy="list fewer sizes")


def _field(key: str) -> str:
    return f"spec.requirements[{key}]"


def _named_sizes(claim: NodeClaim) -> tuple[str, ...]:
    wanted = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE) or ()
    sku_name = allowed(claim.spec.requirements, SKU_NAME)
    return tuple(size for size in wanted if sku_name.allows(size))


def _sizes(claim: NodeClaim) -> tuple[str, ...]:
    """The named sizes with an allowed CPU architecture."""
    arch = allowed(claim.spec.requirements, labels.ARCH)
    return tuple(size for size in _named_sizes(claim) if arch.allows(arch_of(size)))


def _zones(claim: NodeClaim, location: str) -> tuple[str, ...]:
    """Zone numbers: `westeurope-1` and `1` are both zone 1, zone 0 is "", outside all zones.

    Zones of another location are left out.
    """
    values = allowed_values(claim.spec.requirements, labels.ZONE) or ()
    found = (match for value in values if (match := _ZONE.fullmatch(value)))
    numbers = (match[2] for match in found if match[1] in (None, location) or not location)
    return tuple(dict.fromkeys("" if number == REGIONAL else number for number in numbers))


def _capacity_types(claim: NodeClaim) -> tuple[CapacityType, ...]:
    listed = allowed_values(claim.spec.requirements, labels.CAPACITY_TYPE)
    if listed is not None:
        return tuple(kind for value in listed for kind in (ON_DEMAND, SPOT) if value == kind)
    # Without a list, spot applies only if on-demand is excluded.
    left = allowed(claim.spec.requirements, labels.CAPACITY_TYPE)
    return tuple(kind for kind in (ON_DEMAND, SPOT) if left.allows(kind))[:1]
