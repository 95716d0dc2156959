"""Why a machine must not be disrupted voluntarily now, in Karpenter's words where it has them, as pure functions.

Besides Karpenter's rules, pods that request GPUs are protected unless their controller creates an equal pod elsewhere
(`MOVABLE`): the pods of a Job, JobSet, PyTorchJob, MPIJob, RayCluster, Volcano Job or Workflow, and those without a
controller, lose their work, and the end of one pod of a LeaderWorkerSet restarts its whole group. On a machine with
GPUs only such pods and those that request GPUs are a use of it.

Source: https://karpenter.sh/docs/concepts/disruption/#controls, docs/references/karpenter.md#what-blocks-disruption.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controllers.provisioning.eviction import NO_OWNER
from controllers.provisioning.pods import CachedPod
from provisioner.api import labels
from provisioner.api.causes import Reason
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import parse_quantity
from provisioner.vendors import is_gpu

from .machine import Machine
from .pod_budgets import PodBudgets

# Controllers whose pods serve requests: each creates an equal pod elsewhere, and no result is lost.
MOVABLE = frozenset({("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")})
STATEFUL = ("apps/v1", "StatefulSet")

DO_NOT_DISRUPT = f'Disruption is blocked through the "{labels.DO_NOT_DISRUPT}" annotation'
NO_NODE = "NodeClaim does not have an associated node"
NOT_INITIALIZED = "Node isn't initialized"
GOING = "Node is deleting or marked for deletion"
SEVERAL_NODES = "Several Nodes belong to its agent pool"
REFUSED = "The API server refused the deletion of its NodeClaim, which is repeated ten minutes later"


class Unreported(str):
    """A cause of which no Event is recorded: it is over within seconds, or the NodePool states it itself."""

    __slots__ = ()


NOMINATED = Unreported("Node is nominated for a pending pod")


def with_blockers(machine: Machine, bound: Iterable[CachedPod], budgets: PodBudgets, now: datetime) -> Machine:
    """The machine with what blocks it. `bound`: all pods of its Node, those of DaemonSets too.

    Pods do not block the drift of a NodeClaim whose terminationGracePeriod bounds the drain.
    """
    why = blocked(machine, bound, budgets, now)
    if not why:
        return machine
    bounded = machine.claim.spec.termination_grace_period is not None
    return msgspec.structs.replace(machine, blocked=why, blocked_eventually=blocked_itself(machine) if bounded else why)


def blocked(machine: Machine, bound: Iterable[CachedPod], budgets: PodBudgets, now: datetime) -> str:
    """Why the machine must not be disrupted, "" if it may."""
    return blocked_itself(machine) or next((why for pod in bound if (why := blocked_by(pod, budgets, now))), "")


def blocked_itself(machine: Machine) -> str:
    """What blocks the machine whatever pods it has."""
    if machine.node is None:
        return NO_NODE
    if machine.going or machine.node.deleting:
        return GOING
    if machine.claim.condition(INITIALIZED, "True") is None:
        return NOT_INITIALIZED
    if machine.several_nodes:
        return SEVERAL_NODES  # all of them would go, with their pods
    if machine.nominated_seconds > 0:
        return NOMINATED
    return DO_NOT_DISRUPT if _is_annotated(machine) else ""


def protected(machine: Machine, bound: Iterable[CachedPod], reason: Reason, now: datetime) -> str:
    """Why a command under way must not remove the machine, "" if it may. `bound`: all pods of its Node.

    A pod can be bound before the taint, a user can annotate the machine or a pod until it goes, and AKS can begin to
    upgrade its agent pool, with a further Node. A drain obeys PodDisruptionBudgets, which change from minute to minute.
    """
    if machine.several_nodes:
        return SEVERAL_NODES
    if _is_annotated(machine):
        return DO_NOT_DISRUPT
    if reason == "Drifted" and machine.claim.spec.termination_grace_period is not None:
        return ""
    return next((why for pod in bound if (why := ends_work(pod, now))), "")


def blocked_by(pod: CachedPod, budgets: PodBudgets, now: datetime) -> str:
    """Why this pod prevents the disruption of its machine, "" if it does not."""
    if why := ends_work(pod, now):
        return why
    if pod.metadata.deleting or pod.eviction.static or pod.eviction.tolerates:
        return ""  # a drain leaves it
    if found := budgets.blocking(pod):
        return f"Pdb prevents pod evictions (PodDisruptionBudget=[{', '.join(one.name for one in found)}])"
    return ""


def ends_work(pod: CachedPod, now: datetime) -> str:
    """Why the eviction of this pod ends what it does, "" if it does not."""
    if pod.metadata.deleting:
        return ""
    if pod.protects(now):
        return f'Pod has "{labels.DO_NOT_DISRUPT}" annotation (Pod={pod.name})'
    if pod.own and pod.eviction.gpus and pod.eviction.group:
        return f"Pod requests GPUs and is of a LeaderWorkerSet, whose group would restart (Pod={pod.name})"
    if pod.own and pod.eviction.gpus and pod.eviction.owner not in MOVABLE:
        owner = " ".join(pod.eviction.owner) if pod.eviction.owner != NO_OWNER else "none"
        return f"Pod requests GPUs and is not created again elsewhere (Pod={pod.name}, Controller={owner})"
    return ""


def empty(machine: Machine) -> bool:
    """Whether no pod uses the machine."""
    return is_unused(machine.claim, machine.node, machine.pods)


def is_unused(claim: NodeClaim, node: Node | None, pods: Iterable[CachedPod]) -> bool:
    """Whether no pod uses the machine of this NodeClaim. `pods`: those of its Node.

    Pods of DaemonSets and static pods never count, nor do those whose eviction has no cost and terminating pods whose
    controller has already created another one.
    """
    found = [pod for pod in pods if counts(pod, gpus=False)]
    return not found or (has_gpus(claim, node) and not any(counts(pod, gpus=True) for pod in found))


def counts(pod: CachedPod, *, gpus: bool) -> bool:
    """Whether this pod uses its machine. `gpus`: the machine has GPUs."""
    if not pod.own or (pod.metadata.deleting and pod.eviction.owner != STATEFUL):
        return False
    if pod.eviction.owner not in MOVABLE:
        return True
    return pod.eviction.cost > 0 and (pod.eviction.gpus or not gpus)


def left_over(machine: Machine) -> tuple[CachedPod, ...]:
    """The pods of an empty machine that need another place when it is removed."""
    return tuple(pod for pod in machine.pods if pod.own and not pod.metadata.deleting)


def has_gpus(claim: NodeClaim, node: Node | None) -> bool:
    """Whether the machine has GPUs, by the capacity of its Node or, if that shows none, of its NodeClaim."""
    known = [claim.status.capacity, *([node.status.capacity] if node is not None else ())]
    return any(is_gpu(name) and _some(amount) for capacity in known for name, amount in capacity.items())


def _is_annotated(machine: Machine) -> bool:
    abouts = (machine.claim, *([machine.node] if machine.node is not None else ()))
    return any(one.metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true" for one in abouts)


def _some(amount: str | float) -> bool:
    try:
        return parse_quantity(amount) > 0
    except ValueError:
        return True
