"""From a claim's requirements to what it may be given, the preferred first.

Promise: pure. Sizes in the user's order, for each of them the capacity types in the user's order, for each of those
the zones in the user's order: what is written first is tried first. A requirement that leaves nothing, or that names
what is no size and no zone, is refused here, final, with field, value and remedy. No zone requirement means a regional
machine, which Azure places where there is room; no capacity-type requirement means on-demand: nothing is evicted
unless the claim allows it.
Left to others: which of them can be had now (`controllers.offerings`), the pool that asks for one (`agentpool.py`).

Source: karpenter.md §1 (requirements), users.md §1.2, §3 (items 3, 10), aks-arm.md §1.1 (zones, spot).
"""

import re

from cloudprovider.errors import Rejected
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType, Offering
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.requirements import allowed_values, allows, conflicts, malformed

# KAITO names the size under Karpenter's Azure key as well (users.md §1.2).
SKU_NAME = "karpenter.azure.com/sku-name"

_SIZE = re.compile(r"(Standard|Basic)_[A-Za-z0-9_-]{1,60}", re.IGNORECASE)
_ZONE = re.compile(r"(?:[a-z0-9]+-)?([1-9])")


def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
    """At least one offering. Raises Rejected (final)."""
    _check(claim)
    return tuple(
        Offering(size=size, zone=zone, capacity_type=kind)
        for size in _sizes(claim)
        for kind in _capacity_types(claim)
        for zone in _zones(claim) or ("",)
    )


def _check(claim: NodeClaim) -> None:
    wrong = malformed(claim.spec.requirements) or conflicts(claim.spec.requirements)
    if wrong:
        raise Rejected("RequirementsInvalid", f"spec.requirements: {wrong[0]}; create the claim anew", final=True)
    if not allows(claim.spec.requirements, labels.OS, "linux"):
        message = f"spec.requirements[{labels.OS}]: linux is excluded, and the machines are Linux; allow it"
        raise Rejected("OperatingSystemInvalid", message, final=True)


def _sizes(claim: NodeClaim) -> tuple[str, ...]:
    wanted = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE)
    example = f"add {labels.INSTANCE_TYPE} In [Standard_NC24ads_A100_v4], say"
    if wanted is None:
        raise Rejected("InstanceTypeMissing", f"spec.requirements names no instance type; {example}", final=True)
    sizes = tuple(size for size in wanted if allows(claim.spec.requirements, SKU_NAME, size))
    if not sizes:
        message = f"spec.requirements[{SKU_NAME}] allows none of {', '.join(wanted)[:80]}; name the same size in both"
        raise Rejected("InstanceTypeInvalid", message, final=True)
    for size in sizes:
        if _SIZE.fullmatch(size) is None:
            message = f"spec.requirements[{labels.INSTANCE_TYPE}]: {size[:60]!r} is no Azure VM size; {example}"
            raise Rejected("InstanceTypeInvalid", message, final=True)
    return sizes


def _zones(claim: NodeClaim) -> tuple[str, ...]:
    """`westeurope-1` and `1` both mean zone 1."""
    zones = []
    for value in allowed_values(claim.spec.requirements, labels.ZONE) or ():
        match = _ZONE.fullmatch(value)
        if match is None:
            message = f"spec.requirements[{labels.ZONE}]: {value[:40]!r} is no zone; write <location>-1, -2 or -3"
            raise Rejected("ZoneInvalid", message, final=True)
        zones.append(match[1])
    return tuple(dict.fromkeys(zones))


def _capacity_types(claim: NodeClaim) -> tuple[CapacityType, ...]:
    listed = allowed_values(claim.spec.requirements, labels.CAPACITY_TYPE)
    if listed is not None:
        known = [kind for value in listed for kind in (ON_DEMAND, SPOT) if value == kind]
    else:
        # Without a list spot is only what is left when on-demand is excluded.
        known = [k for k in (ON_DEMAND, SPOT) if allows(claim.spec.requirements, labels.CAPACITY_TYPE, k)][:1]
    if not known:
        message = f"spec.requirements[{labels.CAPACITY_TYPE}] allows neither on-demand nor spot; use one of them"
        raise Rejected("CapacityTypeInvalid", message, final=True)
    return tuple(known)
