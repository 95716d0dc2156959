"""From a claim's requirements to what it may be given, the preferred first.

Pure. Sizes in the user's order, for each of them the capacity types in the user's order, for each of those
the zones in the user's order: what is written first is tried first. A requirement that leaves nothing, or that names
what is no size and no zone, is refused here, final, with field, value and remedy. No zone requirement means a regional
machine, which Azure places where there is room; no capacity-type requirement means on-demand: nothing is evicted
unless the claim allows it.

Source: docs/references/karpenter.md#requirements, docs/references/kaito.md#the-nodeclaim-that-kaito-creates,
docs/references/agent-pools.md#request-body.
"""

import re
from collections.abc import Iterator

from cloudprovider.errors import Rejected
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType, Offering
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.requirements import allowed_values, allows, combine, conflicts, invalid

from .field_error import Objection, refuse

# KAITO names the size under Karpenter's Azure key as well (docs/references/kaito.md#the-nodeclaim-that-kaito-creates).
SKU_NAME = "karpenter.azure.com/sku-name"

_SIZE = re.compile(r"(Standard|Basic)_[A-Za-z0-9_-]{1,60}", re.IGNORECASE)
_ZONE = re.compile(r"(?:[a-z0-9]+-)?([1-9])")


def offerings(claim: NodeClaim) -> tuple[Offering, ...]:
    """At least one offering. Raises Rejected (final)."""
    refuse(objections(claim))
    return tuple(
        Offering(size=size, zone=zone, capacity_type=kind)
        for size in _sizes(claim)
        for kind in _capacity_types(claim)
        for zone in _zones(claim) or ("",)
    )


def allowed_offerings(claim: NodeClaim) -> tuple[Offering, ...]:
    """As `offerings`, but () for invalid requirements: creating the instance reports those."""
    try:
        return offerings(claim)
    except Rejected:
        return ()


def objections(claim: NodeClaim) -> Iterator[Objection]:
    """All that is wrong with the requirements. What is wrong in itself hides what they say together."""
    wanted = claim.spec.requirements
    wrong = invalid(wanted)
    for sentence in wrong or conflicts(wanted):
        remedy = "create the claim anew"
        yield Objection(
            reason=reasons.REQUIREMENTS_INVALID,
            field="spec.requirements",
            problem=f"spec.requirements: {sentence}",
            remedy=remedy,
        )
    if wrong:
        return
    told = {demand.key for demand in combine(wanted) if not demand.satisfiable}
    if labels.OS not in told and not allows(wanted, labels.OS, "linux"):
        yield Objection(
            reason=reasons.OPERATING_SYSTEM_INVALID,
            field=f"spec.requirements[{labels.OS}]",
            problem=f"spec.requirements[{labels.OS}]: linux is excluded, and the machines are Linux",
            remedy="allow it",
        )
    if not told & {labels.INSTANCE_TYPE, SKU_NAME}:
        yield from _size_objections(claim)
    for value in allowed_values(wanted, labels.ZONE) or ():
        if _ZONE.fullmatch(value) is None:
            yield Objection(
                reason=reasons.ZONE_INVALID,
                field=f"spec.requirements[{labels.ZONE}]",
                value=value,
                problem=f"spec.requirements[{labels.ZONE}]: {value[:40]!r} is no zone",
                remedy="write <location>-1, -2 or -3",
            )
    if labels.CAPACITY_TYPE not in told and not _capacity_types(claim):
        yield Objection(
            reason=reasons.CAPACITY_TYPE_INVALID,
            field=f"spec.requirements[{labels.CAPACITY_TYPE}]",
            value=", ".join(allowed_values(wanted, labels.CAPACITY_TYPE) or ()),
            problem=f"spec.requirements[{labels.CAPACITY_TYPE}] allows neither on-demand nor spot",
            remedy="use one of them",
        )


def _size_objections(claim: NodeClaim) -> Iterator[Objection]:
    wanted = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE)
    example = f"add {labels.INSTANCE_TYPE} In [Standard_NC24ads_A100_v4], say"
    if not wanted:
        problem = "spec.requirements names no instance type"
        yield Objection(
            reason=reasons.INSTANCE_TYPE_MISSING, field="spec.requirements", problem=problem, remedy=example
        )
        return
    sizes = _sizes(claim)
    if not sizes:
        yield Objection(
            reason=reasons.INSTANCE_TYPE_INVALID,
            field=f"spec.requirements[{SKU_NAME}]",
            value=", ".join(wanted),
            problem=f"spec.requirements[{SKU_NAME}] allows none of {', '.join(wanted)[:80]}",
            remedy="name the same size in both",
        )
    for size in sizes:
        if _SIZE.fullmatch(size) is None:
            yield Objection(
                reason=reasons.INSTANCE_TYPE_INVALID,
                field=f"spec.requirements[{labels.INSTANCE_TYPE}]",
                value=size,
                problem=f"spec.requirements[{labels.INSTANCE_TYPE}]: {size[:60]!r} is no Azure VM size",
                remedy=example,
            )


def _sizes(claim: NodeClaim) -> tuple[str, ...]:
    wanted = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE) or ()
    return tuple(size for size in wanted if allows(claim.spec.requirements, SKU_NAME, size))


def _zones(claim: NodeClaim) -> tuple[str, ...]:
    """`westeurope-1` and `1` both mean zone 1."""
    values = allowed_values(claim.spec.requirements, labels.ZONE) or ()
    return tuple(dict.fromkeys(match[1] for value in values if (match := _ZONE.fullmatch(value))))


def _capacity_types(claim: NodeClaim) -> tuple[CapacityType, ...]:
    listed = allowed_values(claim.spec.requirements, labels.CAPACITY_TYPE)
    if listed is not None:
        return tuple(kind for value in listed for kind in (ON_DEMAND, SPOT) if value == kind)
    # Without a list spot is only what is left when on-demand is excluded.
    return tuple(k for k in (ON_DEMAND, SPOT) if allows(claim.spec.requirements, labels.CAPACITY_TYPE, k))[:1]
