"""The sizes that a NodePool may buy in a region, and which of its requirements no size satisfies."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import msgspec

from cloudprovider.cloud import Cloud, InstanceType
from controllers.nodepool.validation import TEMPLATE
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes
from controllers.provisioning.nodepools import node_pool, with_capacity_type
from controllers.provisioning.solver.candidates import offers
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirement, normalise_key

from .validation import MEANT

REQUIREMENTS = f"{TEMPLATE}.spec.requirements"
SHOWN_VALUES = 8


def sizes(pool: NodePool, region: str, cloud: Cloud) -> tuple[str, ...]:
    """The names of the sizes that the NodePool may buy."""
    return tuple(kind.name for kind in _fitting(pool, InstanceTypeCache(cloud).in_region(region)))


def errors(pool: NodePool, region: str, cloud: Cloud) -> tuple[FieldError, ...]:
    """Why the NodePool may buy no size: each label of which other values would do, or all requirements together."""
    found = InstanceTypeCache(cloud).in_region(region)
    keys = dict.fromkeys(one.key for one in pool.spec.template.spec.requirements)
    single = tuple(filter(None, (_error(pool, key, found, region) for key in keys)))
    if single:
        return single
    remedy = f"change the requirements, or the region; az vm list-skus --location {region} prints its sizes"
    return (FieldError(REQUIREMENTS, "FieldValueInvalid", none_satisfies(region), remedy=remedy),)


def none_satisfies(region: str) -> str:
    """The message about a NodePool that may buy no size."""
    return f"no GPU or CPU size of {region} satisfies all requirements"


def misspelt(pool: NodePool, cloud: Cloud) -> Iterator[str]:
    """A note on each label that no size has, and that is nearly the name of one that sizes have."""
    known = sorted(InstanceTypeCache(cloud).in_region(cloud.default_region).well_known)
    for key in dict.fromkeys(normalise_key(one.key) for one in pool.spec.template.spec.requirements):
        near = get_close_matches(key, known, n=1, cutoff=MEANT) if key not in known else []
        for meant in near:
            yield (
                f"{REQUIREMENTS}[{key}]: no size has this label, so it selects none and is only copied to the Nodes;"
                f" did you mean {meant}?"
            )


def _fitting(pool: NodePool, found: InstanceTypes) -> Iterator[InstanceType]:
    wanted = node_pool(with_capacity_type(pool), (), found.cloud)
    return (kind for kind in found.types if offers(wanted, (kind,), found.well_known))


def _error(pool: NodePool, key: str, found: InstanceTypes, region: str) -> FieldError | None:
    """The error of the requirements on a label without which the NodePool may buy sizes; None if it is not one."""
    entries = pool.spec.template.spec.requirements
    fitting = [*_fitting(_with(pool, (one for one in entries if one.key != key)), found)]
    if not fitting:
        return None
    written = ", ".join(f"{one.operator} [{', '.join(one.values)}]" for one in entries if one.key == key)
    others = "that satisfies the other requirements " if len({one.key for one in entries}) > 1 else ""
    message = f"{written}: no size of {region} {others}has such a value"
    return FieldError(
        f"{REQUIREMENTS}[{key}]", "FieldValueInvalid", message, written, f"use {_listed(_values(fitting, key))}"
    )


def _with(pool: NodePool, requirements: Iterable[Requirement]) -> NodePool:
    spec = msgspec.structs.replace(pool.spec.template.spec, requirements=tuple(requirements))
    template = msgspec.structs.replace(pool.spec.template, spec=spec)
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, template=template))


def _values(kinds: Iterable[InstanceType], key: str) -> list[str]:
    """The values of a label that these sizes have, integers in their order."""
    name, found = normalise_key(key), set[str]()
    for kind in kinds:
        of_offerings = [one.requirements for one in kind.offerings]
        found |= {value for one in (kind.requirements, *of_offerings) if name in one for value in one[name].values}
        if name == labels.ZONE:
            found |= {one.zone for one in kind.offerings if one.zone}
        elif name == labels.CAPACITY_TYPE:
            found |= {one.capacity_type for one in kind.offerings}
    return sorted(found, key=lambda value: (int(value) if value.isdigit() else -1, value))


def _listed(values: list[str]) -> str:
    if len(values) > SHOWN_VALUES:
        return f"{', '.join(values[:SHOWN_VALUES])} or one of {len(values) - SHOWN_VALUES} more"
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1] if values else "another label")))
