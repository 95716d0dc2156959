"""Validation of a NodePool beyond its CRD: contradictions, restricted labels, unknown sizes and capacity types.

Source: docs/references/karpenter.md#nodepool.
"""

from collections.abc import Iterator

from cloudprovider.cloud import Cloud
from cloudprovider.interface import ON_DEMAND, SPOT
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity
from provisioner.api.requirements import Requirement, allowed_values, conflicting, invalid
from provisioner.api.restricted_labels import (
    grants_privileges,
    is_excluded,
    is_reserved_by_aks,
    refused_key,
    refused_value,
)

from . import cost_limit

TEMPLATE = "spec.template"


def errors(pool: NodePool, cloud: Cloud) -> Iterator[FieldError]:
    """The errors for which no NodeClaim of this NodePool could be launched."""
    for field in pool.metadata.unreadable:
        yield FieldError(field, "FieldValueInvalid", "it cannot be decoded", remedy="correct the field")
    yield from _requirements(pool, cloud)
    yield from _labels(pool)
    yield from _privileged(pool)
    yield from _taints(pool)
    for resource, amount in pool.spec.limits.items():
        try:
            parse_quantity(amount)
        except ValueError as error:
            remedy = "write a quantity such as 8 or 512Gi"
            yield FieldError(f"spec.limits[{resource}]", "FieldValueInvalid", str(error), str(amount), remedy)
    yield from cost_limit.errors(pool)


def exhausted_limits(pool: NodePool) -> tuple[str, ...]:
    """The resources with a limit of 0 or less, by which no NodeClaim is ever created.

    A machine can cost nothing, so that a limit on the cost is none of them.
    """
    limits = ((resource, amount) for resource, amount in pool.spec.limits.items() if resource != labels.COST_PER_HOUR)
    return tuple(resource for resource, amount in limits if _is_zero(amount))


def _is_zero(amount: str | int | float) -> bool:
    try:
        return parse_quantity(amount) <= 0
    except ValueError:
        return False


def _requirements(pool: NodePool, cloud: Cloud) -> Iterator[FieldError]:
    written = pool.spec.template.spec.requirements
    field = f"{TEMPLATE}.spec.requirements"
    wrong = invalid(written)
    for text in wrong:
        yield FieldError(field, "FieldValueInvalid", text, remedy="correct the requirement")
    if wrong:
        return  # requirements that cannot be read cannot be compared
    fixed = [
        Requirement(key=key, operator="In", values=(value,))
        for key, value in pool.spec.template.metadata.labels.items()
    ]
    for text in conflicting([*fixed, *written]).values():
        remedy = "change one of the requirements or labels, so that a value satisfies all of them"
        yield FieldError(field, "FieldValueInvalid", f"no value satisfies all requirements: {text}", remedy=remedy)
    sizes = allowed_values(written, labels.INSTANCE_TYPE)
    if sizes and not any(map(cloud.is_known_size, sizes)):
        shown = ", ".join(sizes[:3])
        meant = ", ".join(dict.fromkeys(filter(None, map(cloud.nearest_size, sizes[:3]))))
        remedy = f"did you mean {meant}?" if meant else "check the spelling, such as Standard_NC24ads_A100_v4"
        yield FieldError(f"{field}[{labels.INSTANCE_TYPE}]", "FieldValueNotSupported", f"{shown}: unknown sizes",
                         shown, remedy)  # fmt: skip
    terms = allowed_values([*fixed, *written], labels.CAPACITY_TYPE)
    if terms and not {*terms} & {ON_DEMAND, SPOT}:
        shown = ", ".join(terms[:3])
        yield FieldError(f"{field}[{labels.CAPACITY_TYPE}]", "FieldValueNotSupported",
                         f"{shown}: unknown capacity types", shown, f"use {ON_DEMAND} or {SPOT}")  # fmt: skip


def _labels(pool: NodePool) -> Iterator[FieldError]:
    for key, value in pool.spec.template.metadata.labels.items():
        for why in () if is_excluded(key) else (refused_key(key), refused_value(value)):
            if why is not None:
                cause, remedy = why
                field = f"{TEMPLATE}.metadata.labels[{key}]"
                yield FieldError(field, "FieldValueInvalid", f"{value[:40]!r}: {cause}", value, remedy)


def _privileged(pool: NodePool) -> Iterator[FieldError]:
    """The labels that a decision would count on and that no Node ever gets."""
    template = pool.spec.template
    found = {key: f"{TEMPLATE}.metadata.labels[{key}]" for key in template.metadata.labels}
    found |= {one.key: f"{TEMPLATE}.spec.requirements[{one.key}]" for one in template.spec.requirements}
    for key, field in found.items():
        if grants_privileges(key):
            message = f"{key}: it would grant a Node privileges, so it is never copied to one"
            yield FieldError(field, "FieldValueInvalid", message, key, "use a key with another prefix")


def _taints(pool: NodePool) -> Iterator[FieldError]:
    spec = pool.spec.template.spec
    seen: set[tuple[str, str]] = set()
    for taint in (*spec.taints, *spec.startup_taints):
        if (taint.key, taint.effect) in seen:
            remedy = "keep one of them"
            message = f"{taint}: another taint or startup taint has the same key and effect"
            yield FieldError(f"{TEMPLATE}.spec.taints", "FieldValueDuplicate", message, str(taint), remedy)
        seen.add((taint.key, taint.effect))
    for taint in spec.taints:
        if is_reserved_by_aks(taint.key) and taint.key != labels.AKS_SPOT:
            message = f"{taint}: AKS reserves this key"
            yield FieldError(f"{TEMPLATE}.spec.taints", "FieldValueInvalid", message, str(taint), "use another prefix")
