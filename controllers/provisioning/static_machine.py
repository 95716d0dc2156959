"""The machine of a static NodePool: what the template allows, the cheapest size first.

No pod narrows it. Its NodeClaim lists every size that the requirements allow, whether or not one is available now: the
launch tries them in this order, and a NodeClaim that finds none keeps the cause.

Source: docs/references/karpenter.md#static-nodepools.
"""

import msgspec

from provisioner.api import labels
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.nodepool import NodePool
from provisioner.api.value_sets import one_of

from .instances import InstanceTypes
from .nodepools import node_pool, with_capacity_type
from .offered import WHOLE_GPUS, offered_types
from .solver import model
from .solver.candidates import UNKNOWN_PRICE, candidates
from .solver.requirements import combine

# As many as Karpenter passes to a cloud provider.
INSTANCE_TYPES_MOST = 60


def static_machine(pool: NodePool, types: InstanceTypes, settings: GpuSettings = WHOLE_GPUS) -> model.NewMachine | None:
    """None if no instance type satisfies the NodePool and its node class, which has these settings.

    Raises ValueError that names an invalid field.
    """
    template = node_pool(with_capacity_type(pool), ())
    kinds = offered_types(types.types, settings)
    offered = candidates(
        model.Snapshot(
            pods=(),
            node_pools=(template,),
            instance_types=tuple(_all_offered(kind) for kind in (types.types if kinds is None else kinds)),
            well_known=types.well_known,
        )
    )
    if not offered:
        return None
    names = tuple(dict.fromkeys(one.type_name for one in offered))[:INSTANCE_TYPES_MOST]
    kept = [one for one in offered if one.type_name in names]
    zones = {one.zone for one in kept}
    narrowed = {
        labels.INSTANCE_TYPE: one_of(names),
        labels.CAPACITY_TYPE: one_of(one.capacity_type for one in kept),
        # Without a requirement on the zone, Azure chooses where the machine is.
        **({} if "" in zones else {labels.ZONE: one_of(zones)}),
    }
    return model.NewMachine(
        node_pool=pool.name,
        pods=(),
        instance_types=names,
        requirements=combine(template.requirements, narrowed),
        requests={},
        price=None if kept[0].price >= UNKNOWN_PRICE else kept[0].price,
    )


def _all_offered(kind: model.InstanceType) -> model.InstanceType:
    offerings = tuple(msgspec.structs.replace(one, available=True) for one in kind.offerings)
    return msgspec.structs.replace(kind, offerings=offerings)
