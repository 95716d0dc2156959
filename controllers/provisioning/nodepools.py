"""NodePools as the solver reads them.

Source: docs/references/karpenter.md#nodepool.
"""

from collections.abc import Iterable

import msgspec

from cloudprovider.cloud import Cloud, InstanceType
from cloudprovider.interface import ON_DEMAND
from provisioner.api import labels, reasons
from provisioner.api.conditions import READY
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirement, combine, normalise_key, of_labels
from provisioner.api.value_sets import ValueSet, value_set

from .solver import model
from .solver.resources import parse, total


def provisions(pool: NodePool) -> bool:
    """Whether machines may be bought from a NodePool: it is dynamic, not being deleted, and not known to be unready."""
    ready = pool.condition(READY)
    return pool.spec.replicas is None and not pool.metadata.deleting and (ready is None or ready.status == "True")


def why_unusable(pool: NodePool) -> str:
    """Why no machine may be bought from a NodePool of this controller now; "" if it may."""
    if pool.metadata.deleting:
        return "it is being deleted"
    causes = map(pool.condition, (reasons.VALIDATION_SUCCEEDED, reasons.NODECLASS_READY, READY))
    wrong = next((one for one in causes if one is not None and one.status != "True"), None)
    if wrong is not None:
        return wrong.message or f"{wrong.type} is {wrong.status}"
    return "" if pool.condition(READY) is not None else "it is not yet known whether it is Ready"


def node_pool(
    pool: NodePool,
    nodes: Iterable[model.ExistingNode],
    cloud: Cloud,
    types: tuple[InstanceType, ...] | None = None,
) -> model.NodePool:
    """The NodePool as the solver reads it. `nodes`: all machines. Raises ValueError that names the field.

    `types`: the instance types as its machines offer them; None: as others do.
    """
    template = pool.spec.template
    fixed = {
        **template.metadata.labels,
        labels.NODEPOOL: pool.name,
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    reference = template.spec.node_class_ref
    if reference.kind:
        fixed[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    try:
        allowed = combine(of_labels(fixed), requirements(template.spec.requirements, cloud))
        limits = parse(pool.spec.limits)
    except ValueError as error:
        raise ValueError(f"NodePool {pool.name}: {error}") from None
    own = [node for node in nodes if node.node_pool == pool.name]
    return model.NodePool(
        name=pool.name,
        requirements=allowed,
        taints=template.spec.taints,
        weight=pool.spec.weight or 0,
        limits=limits,
        used={**total(node.capacity for node in own), "nodes": 1000 * len(own)},
        types=types,
    )


def requirements(found: Iterable[Requirement], cloud: Cloud) -> dict[str, ValueSet]:
    """The intersection of requirements, key by key; VM sizes in any case. Raises ValueError for an invalid one."""
    combined: dict[str, ValueSet] = {}
    for one in found:
        key = normalise_key(one.key)
        values = tuple(map(cloud.canonical_name, one.values)) if key in cloud.size_labels else one.values
        try:
            wanted = value_set(one.operator, values, one.min_values or 0)
        except ValueError as error:
            raise ValueError(f"{one.key}: {error}") from None
        combined = combine(combined, {key: wanted})
    return combined


def with_capacity_type(pool: NodePool) -> NodePool:
    """Without a requirement on the capacity type, or a label, a NodePool buys on demand, so that nothing is evicted."""
    template = pool.spec.template
    if labels.CAPACITY_TYPE in {*template.metadata.labels, *(one.key for one in template.spec.requirements)}:
        return pool
    added = Requirement(key=labels.CAPACITY_TYPE, operator="In", values=(ON_DEMAND,))
    spec = msgspec.structs.replace(template.spec, requirements=(*template.spec.requirements, added))
    changed = msgspec.structs.replace(pool.spec, template=msgspec.structs.replace(template, spec=spec))
    return msgspec.structs.replace(pool, spec=changed)
