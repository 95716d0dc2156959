"""The NodePools and AgentPoolNodeClasses of this program, and what each waits for during an uninstall.

A NodePool would buy machines for the pods that a drain evicts, so it is deleted before the NodeClaims. NodePools with
the node class of another controller are not listed.

Source: docs/references/karpenter.md#nodepool.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from controllers.model.conditions import clock_text
from controllers.nodepool.nodepool import is_ours
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by, nodepool_of
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import KubeObject
from provisioner.runtime.resources import NODECLASSES, NODEPOOLS, Resource

from .refusal import by_api_server

T = TypeVar("T", bound=KubeObject)
ENABLE = "a controller with --node-pools=true, which removes the finalizer"
Kind = Literal["NodePool", "AgentPoolNodeClass", "NodeClaim", "Node", "AgentPool", "Lease"]


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object. `action`: how it is removed; `blocked`: it remains until a user acts, who may be the caller."""

    kind: Kind
    name: str
    claim: str = ""
    owner: str = ""
    action: str
    waits_for: str
    blocked: bool = False
    finalizer: bool = False


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What creates NodeClaims for pods, from one read, sorted by name."""

    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[AgentPoolNodeClass, ...] = ()


async def read_demand(kube: Kube) -> Demand:
    """Read both kinds completely; a kind that is not served has no objects. Raises Refused."""
    pools, classes = await _listed(kube, NODEPOOLS), await _listed(kube, NODECLASSES)
    return Demand(
        node_pools=tuple(sorted((one for one in pools if is_ours(one)), key=lambda one: one.name)),
        node_classes=tuple(sorted(classes, key=lambda one: one.name)),
    )


async def _listed(kube: Kube, resource: Resource[T]) -> Sequence[T]:
    try:
        return (await kube.list(resource, digest=whole)).items
    except KubeError as error:
        if error.not_found:
            return ()
        raise by_api_server(error) from None


def items_of(
    demand: Demand,
    claims: Sequence[NodeClaim],
    *,
    blocked_claims: Collection[str],
    deleted: Collection[str] | None,
    enabled: bool,
) -> Iterator[Item]:
    """NodePools, then node classes.

    `claims`: of this program; `blocked_claims`: the names of those that wait for a user. `deleted`: the UIDs of the
    objects that the command deleted, if any. `enabled`: whether the controller reconciles NodePools.
    """
    for pool in demand.node_pools:
        names = [claim.name for claim in claims if is_owned_by(claim, pool)]
        yield _item("NodePool", pool.metadata, names, deleted)
    for node_class in demand.node_classes:
        names = [claim.name for claim in claims if _refers(claim, node_class)]
        item = _item("AgentPoolNodeClass", node_class.metadata, names, deleted)
        if item.finalizer and not enabled:
            item = msgspec.structs.replace(item, waits_for=ENABLE, blocked=True)
        elif any(name in blocked_claims for name in names):
            item = msgspec.structs.replace(item, blocked=True)
        yield item


def of_deleted_pool(claim: NodeClaim, deleted: Collection[str] | None) -> str:
    """The name of the NodePool that owns the claim and that the command deleted; "" if there is none."""
    owner = nodepool_of(claim)
    return owner.name if owner is not None and owner.uid in (deleted or ()) else ""


def _item(kind: Kind, meta: ObjectMeta, claims: Sequence[str], deleted: Collection[str] | None) -> Item:
    action, waits_for, blocked = "delete", "its deletion", False
    if meta.deletion_timestamp is not None:
        action = f"deletion requested at {clock_text(meta.deletion_timestamp)}"
        waits_for = f"NodeClaims {', '.join(claims[:3])}" if claims else "the controller"
        if others := [one for one in meta.finalizers if one != labels.NODECLASS_FINALIZER]:
            waits_for = f"finalizers of other controllers: {', '.join(others)}"
    elif deleted is not None and meta.uid not in deleted:
        created = clock_text(meta.creation_timestamp)
        waits_for, blocked = f"its deletion: it was created at {created}, after this command began", True
    return Item(
        kind=kind,
        name=meta.name,
        action=action,
        waits_for=waits_for,
        blocked=blocked,
        finalizer=labels.NODECLASS_FINALIZER in meta.finalizers,
    )


def _refers(claim: NodeClaim, node_class: AgentPoolNodeClass) -> bool:
    reference = claim.spec.node_class_ref
    return is_own(reference) and reference.name == node_class.name
