"""What is recorded of a machine that did not take the pods that it was bought for: the difference, and whose it is.

Source: docs/adr/0063-purchase-brake.md.
"""

from provisioner.api import labels

from .bought_case import Case
from .bought_machine import Machine, Waiting
from .brake_records import Strike
from .fit import Fit, difference
from .learned import LEARNED

REMOVED = Fit("fits")
# Labels in which machines of one instance type differ.
OF_MACHINE = frozenset({labels.ZONE, labels.CAPACITY_TYPE, labels.HOSTNAME})
NOT_READY = "its Node is NotReady"


def strike_of(case: Case) -> Strike:
    """That of a machine that does not take the pods of a case."""
    one, found, first = case.one, case.found or REMOVED, case.pods[0]
    waiting = {pod.pod.metadata.uid for pod in case.pods}
    stated = (uid for uid in case.uids if uid in waiting)
    lost = one.initialized_seconds is not None and not one.healthy and found.verdict in ("fits", "taint")
    if lost:
        found, message = REMOVED, NOT_READY
    elif (found.verdict == "fits" and one.leaves) or one.machine is None:
        found, message = REMOVED, "it expired" if one.expired else "it was removed"
        message += " before its Node was Ready" if one.initialized_seconds is None else " before a pod was bound to it"
    else:
        message = difference(one.machine, one.purchase, found, first.spec)
    return Strike(
        node_pool=one.node_pool,
        namespace=first.pod.metadata.namespace,
        shape=first.shape,
        pod=first.pod.name,
        uids=(*stated, *_heirs(case)) if _counts(one, found) else (),
        claim_uid=one.claim.uid,
        created=one.claim.metadata.creation_timestamp,
        instance_type=one.instance_type if _of_the_type(one, found) else "",
        message=message,
        round_end=case.round_end,
        cause=found.verdict,
    )


def _counts(one: Machine, found: Fit) -> bool:
    """Whether it is one of the two machines of its pods; one that is not is a round of their shape.

    Pods that others may run there are no difference: the shape waits longer each time, and no pod for good. A machine
    that a person deletes before it has a Node is replaced by one of the same type before that Node shows what it lacks.
    """
    if found.verdict == "taken":
        return one.is_taken_by_agents
    deleted = one.claim.metadata.deletion_timestamp
    return one.expired or deleted is None or one.node is None or one.node.metadata.creation_timestamp < deleted


def _heirs(case: Case) -> list[str]:
    """As many pods that wait as pods were deleted that the machine was bought for: their controller created them."""
    if not case.replaced:
        return []
    stated = frozenset(case.uids)
    others = [pod.pod.metadata.uid for pod in case.pods if not pod.pod.moves and pod.pod.metadata.uid not in stated]
    return others[: len(case.replaced)]


def _of_the_type(one: Machine, found: Fit) -> bool:
    """Whether another machine of the instance type would not take the pod either.

    Taints come from people, controllers and Nodes in trouble, devices are lost with one machine, zone and capacity type
    differ between machines of a type, and a kube-scheduler that does not bind a pod says nothing about its type.
    """
    match found.verdict:
        case "resources":
            return not LEARNED.isdisjoint(found.keys)
        case "label":
            return OF_MACHINE.isdisjoint(found.keys)
        case "taken":
            return one.agents
        case _:
            return False


def abandoned(one: Machine, namespace: str, pod: Waiting) -> Strike:
    """A machine whose pods are gone, while others of their namespace wait that it does not take."""
    created = one.claim.metadata.creation_timestamp
    return Strike(
        node_pool=one.node_pool,
        namespace=namespace,
        shape="",
        pod=pod.pod.name,
        uids=(),
        claim_uid=one.claim.uid,
        created=created,
        instance_type="",
        message="the pods that it was bought for were deleted before it was Ready",
        round_end=created,
        cause="abandoned",
    )
