"""The instance types of one NodePool without what its launch template cannot have now.

An offering that the cloud or the API server refused for this launch template, or that the node class contradicts, is
not available to the NodePool, with the cause. Other NodePools are not concerned.

Source: docs/references/rules.md#unavailable-offerings.
"""

from collections.abc import Iterable, Sequence

import msgspec

from cloudprovider.cloud import Cloud, InstanceOffering, InstanceType
from cloudprovider.interface import ON_DEMAND, SPOT, Offering
from controllers.model.offering_scope import OfferingScope
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec
from provisioner.api.zones import zone_number

# What is refused, each with the cause.
Refusals = Sequence[tuple[OfferingScope, str]]
PLAIN = NodeClassSpec()


def launchable(
    types: Iterable[InstanceType], node_class: AgentPoolNodeClass | None, refused: Refusals, cloud: Cloud
) -> tuple[InstanceType, ...] | None:
    """The types as this NodePool can launch them; None: as they are. `node_class`: its own, None if it is not known."""
    settings = node_class.spec if node_class is not None else PLAIN
    if not refused and settings == PLAIN:
        return None
    return tuple(
        msgspec.structs.replace(
            kind, offerings=tuple(_launchable(kind, one, settings, refused, cloud) for one in kind.offerings)
        )
        for kind in types
    )


def _launchable(
    kind: InstanceType, one: InstanceOffering, settings: NodeClassSpec, refused: Refusals, cloud: Cloud
) -> InstanceOffering:
    if not one.available:
        return one
    terms = SPOT if one.capacity_type == SPOT else ON_DEMAND
    offering = Offering(size=kind.name, zone=zone_number(one.zone), capacity_type=terms)
    causes = (cause for scope, cause in refused if scope.includes(offering))
    cause = cloud.contradicts(offering, settings) or next(causes, "")
    return msgspec.structs.replace(one, available=False, cause=f"{kind.name}: {cause}") if cause else one
