"""The machine of a static NodePool: what the template allows, the cheapest size first.

No pod narrows it. Its NodeClaim lists every size that the requirements allow, whether or not one is available now: the
launch tries them in this order, and a NodeClaim that finds none keeps the cause.

Source: docs/references/karpenter.md#static-nodepools.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from cloudprovider.cloud import InstanceType
from provisioner.api import labels
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirement, combine
from provisioner.api.value_sets import one_of
from provisioner.api.zones import is_regional

from .instances import InstanceTypes
from .nodeclaims import hashes, required
from .nodepools import node_pool, with_capacity_type
from .offered import DEFAULTS, offered_types
from .solver import model
from .solver.candidates import candidates

# As many as Karpenter passes to a cloud provider.
INSTANCE_TYPES_MOST = 60
# A NodeClaim that an admission policy changes would be created again for ever, and not more often than this.
OUTDATED_SECONDS = 300.0
# The annotations with hashes, each after the one with its version.
HASHES = (
    (labels.NODEPOOL_HASH_VERSION, labels.NODEPOOL_HASH),
    (labels.NODECLASS_HASH_VERSION, labels.NODECLASS_HASH),
)


def static_machine(pool: NodePool, types: InstanceTypes, settings: NodeClassSpec = DEFAULTS) -> model.NewMachine | None:
    """None if no instance type satisfies the NodePool and its node class, which has these settings.

    Raises ValueError that names an invalid field.
    """
    template = node_pool(with_capacity_type(pool), (), types.cloud)
    base = types.of_pool(pool.name)
    kinds = offered_types(base, settings, types.cloud)
    offered = candidates(
        model.Snapshot(
            pods=(),
            node_pools=(template,),
            instance_types=tuple(_all_offered(kind) for kind in (base if kinds is None else kinds)),
            well_known=types.well_known,
        )
    )
    if not offered:
        return None
    names = tuple(dict.fromkeys(one.type_name for one in offered))[:INSTANCE_TYPES_MOST]
    kept = [one for one in offered if one.type_name in names]
    zones = {one.zone for one in kept}
    outside = {zone for zone in zones if is_regional(zone)}
    narrowed = {
        labels.INSTANCE_TYPE: one_of(names),
        labels.CAPACITY_TYPE: one_of(one.capacity_type for one in kept),
        # Without a requirement on the zone, Azure chooses where the machine is.
        **({} if outside else {labels.ZONE: one_of(zones)}),
    }
    return model.NewMachine(
        node_pool=pool.name,
        pods=(),
        instance_types=names,
        requirements=combine(template.requirements, narrowed),
        requests={},
        price=kept[0].price if kept[0].priced else None,
    )


def is_outdated(
    claim: NodeClaim,
    pool: NodePool,
    types: InstanceTypes,
    *,
    node_class: AgentPoolNodeClass | None,
    settings: NodeClassSpec = DEFAULTS,
    now: datetime,
    replaces: bool = False,
) -> bool:
    """Whether a NodeClaim whose launch fails would be created otherwise now. `node_class`: None if it is not known.

    `replaces`: a command under way waits for it. The pods of another machine narrow its replacement, which its command
    deletes if it cannot be launched. The order of its instance types changes with their prices and is not compared.
    Raises as `static_machine`.
    """
    if replaces:
        return False
    if claim.deleting or claim.status.node_name or claim.condition(LAUNCHED, "False") is None:
        return False
    if (now - claim.metadata.creation_timestamp).total_seconds() < OUTDATED_SECONDS:
        return False
    machine = static_machine(pool, types, settings)
    if machine is None:
        return False  # the other one could not be created
    current, own = hashes(pool, node_class), claim.metadata.annotations
    for version, value in HASHES:
        if own.get(version) == current.get(version) and own.get(value) != current.get(value):
            return True
    return _compared(required(machine)) != _compared(claim.spec.requirements)


def _compared(found: Iterable[Requirement]) -> set[tuple[str, str, frozenset[str]]]:
    return {(one.key, one.operator, frozenset(one.values)) for one in found}


def _all_offered(kind: InstanceType) -> InstanceType:
    offerings = tuple(msgspec.structs.replace(one, available=True) for one in kind.offerings)
    return msgspec.structs.replace(kind, offerings=offerings)
