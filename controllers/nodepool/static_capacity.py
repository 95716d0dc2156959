"""How many NodeClaims a static NodePool lacks, and which ones it has too many, as a pure function.

A static NodePool has `spec.replicas` NodeClaims, whether or not pods need them. A NodeClaim whose launch fails counts
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

    `replace`: those to delete because others are created instead.
    """

    create: int = 0
    delete: tuple[NodeClaim, ...] = ()
    replace: tuple[NodeClaim, ...] = ()


def scale(pool: NodePool, replicas: Sequence[Replica]) -> Scale:
    """What leads to `spec.replicas` NodeClaims. `replicas`: all of the NodePool, including those being deleted."""
    wanted = pool.spec.replicas
    if wanted is None:
        return Scale()
    running = [one for one in replicas if not one.claim.deleting]
    active = [one for one in running if one.claim.condition(DISRUPTION_REASON, "True") is None]
    surplus, outdated = len(active) - wanted, tuple(one.claim for one in active if one.outdated)
    if surplus > 0:
        return Scale(delete=tuple(one.claim for one in sorted(active, key=_last_to_keep)[:surplus]))
    if outdated:
        return Scale(replace=outdated)
    room = max(0, node_limit(pool, default=wanted + len(replicas)) - len(replicas))
    return Scale(create=max(0, min(wanted - len(running), room)))


def surplus_replicas(pool: NodePool) -> int:
    """How many of `spec.replicas` the limit on Nodes does not allow."""
    wanted = pool.spec.replicas or 0
    return max(0, wanted - node_limit(pool, default=wanted))


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
