"""What the request for a machine consists of besides its offering: its launch template.

A request that Azure or the API server refuses would be refused for every NodeClaim with the same launch template, and
possibly for no other. The NodeClaims of a NodePool share one, until its template or its node class changes. That of
another NodeClaim is its own, until its labels, its annotations or its node class change.

Source: docs/references/rules.md#unavailable-offerings.
"""

from controllers.model.failures import metadata_digest
from controllers.model.offering_scope import LaunchTemplate
from controllers.nodeclass.hash import spec_hash
from controllers.nodepool.hash import template_hash
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of


def of_claim(claim: NodeClaim, node_class: AgentPoolNodeClass | None) -> LaunchTemplate:
    """The launch template of a NodeClaim. `node_class`: the one that it refers to; None if that is of another kind."""
    owner = nodepool_of(claim)
    if owner is None:
        return _made(f"NodeClaim {claim.uid} {metadata_digest(claim)}", node_class)
    return _of_pool(owner.name, claim.metadata.annotations.get(labels.NODEPOOL_HASH, ""), node_class)


def of_pool(pool: NodePool, node_class: AgentPoolNodeClass | None) -> LaunchTemplate:
    """The launch template of the NodeClaims that a NodePool creates now."""
    return _of_pool(pool.name, template_hash(pool), node_class)


def _of_pool(name: str, hashed: str, node_class: AgentPoolNodeClass | None) -> LaunchTemplate:
    return _made(f"NodePool {name} {hashed}", node_class)


def _made(owner: str, node_class: AgentPoolNodeClass | None) -> LaunchTemplate:
    """Azure does not distinguish the case of resource IDs."""
    subnet = node_class.spec.vnet_subnet_id.casefold() if node_class is not None else ""
    return LaunchTemplate(f"{owner} {spec_hash(node_class) if node_class is not None else ''}", subnet)
