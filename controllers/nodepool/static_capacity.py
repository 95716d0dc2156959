"""How many NodeClaims a static NodePool lacks, and which ones it has too many, as a pure function.

A static NodePool has `spec.replicas` NodeClaims, or what a schedule of its node class allows, whether or not pods need
them. A NodeClaim whose launch fails counts
too: it tries its offerings again, so that a shortage leads to one NodeClaim with a cause and not to a series of them.
It is replaced once the NodePool or its node class was corrected.
NodeClaims that are being deleted count towards `spec.limits` only. One that is being replaced is neither lacking nor
too many, so that the NodePool has one more until the replacement is Initialized.

Source: docs/references/karpenter.md#static-nodepools.
"""

from collections.abc import Sequence

import msgspec

from provisioner.api.conditions import DISRUPTION_REASON, READY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity

from .replica_schedules import Desired

NODES = "nodes"


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One NodeClaim, and what its end costs.

    `protected`: it, its Node or a pod there has the annotation do-not-disrupt. `work`: pods lose their work, because no
    controller creates them again elsewhere. `gpus`: pods use its GPUs. `cost`: the eviction costs of the pods, summed.
    `outdated`: it has no machine, and the NodePool would create another NodeClaim now.
    """

    claim: NodeClaim
    protected: bool = False
    work: bool = False
    gpus: bool = False
    cost: float = 0.0
    outdated: bool = False


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """`create`: the number of NodeClaims to create. `delete`: those to delete, in this order.

    `replace`: those to delete because others are created instead. `limited`: how many further ones the limit on Nodes
    does not allow now.
    """

    create: int = 0
    limited: int = 0
    delete: tuple[NodeClaim, ...] = ()
    replace: tuple[NodeClaim, ...] = ()


def scale(pool: NodePool, replicas: Sequence[Replica], desired: Desired) -> Scale:
    """What leads to the desired NodeClaims. `replicas`: all of the NodePool, including those being deleted.

    A schedule deletes no NodeClaim that is protected.
    """
    wanted = desired.replicas
    running = [one for one in replicas if not one.claim.deleting]
    active = [one for one in running if one.claim.condition(DISRUPTION_REASON, "True") is None]
    surplus, outdated = len(active) - wanted, tuple(one.claim for one in active if one.outdated)
    if surplus > 0:
        chosen = sorted(active, key=_last_to_keep)[:surplus]
        return Scale(delete=tuple(one.claim for one in chosen if not (desired.scheduled and one.protected)))
    if outdated:
        return Scale(replace=outdated)
    room = max(0, node_limit(pool, default=wanted + len(replicas)) - len(replicas))
    missing = max(0, wanted - len(running))
    return Scale(create=min(missing, room), limited=max(0, missing - room))


def beyond_limit(pool: NodePool) -> str:
    """That the limit on Nodes is less than `spec.replicas`; "" if it is not."""
    wanted = pool.spec.replicas or 0
    surplus = wanted - node_limit(pool, default=wanted)
    if surplus <= 0:
        return ""
    return f"spec.limits[{NODES}] does not allow {surplus} of spec.replicas: raise it, or lower spec.replicas"


def limited(pool: NodePool, count: int) -> str:
    """Why the limit on Nodes does not allow `count` NodeClaims now."""
    limit = f"spec.limits[{NODES}] is {pool.spec.limits.get(NODES)} and counts NodeClaims that are being deleted"
    return beyond_limit(pool) or f"{limit}: {count} of spec.replicas {pool.spec.replicas} can be created after them"


def _last_to_keep(one: Replica) -> tuple[bool, bool, bool, bool, float, float]:
    """The order of deletion: the machine whose end costs least, of these one that is not Ready, then the youngest.

    A machine that is not Ready can return with the pods that it runs: they count as on any other.
    """
    ready = one.claim.condition(READY, "True") is not None
    return one.protected, one.work, one.gpus, ready, one.cost, -one.claim.metadata.creation_timestamp.timestamp()


def node_limit(pool: NodePool, *, default: int) -> int:
    """The limit on the number of Nodes; an invalid one is a condition of the NodePool and not obeyed."""
    try:
        return int(parse_quantity(pool.spec.limits[NODES]))
    except (KeyError, ValueError):
        return default
