"""What a NodeClaim was bought for, and what its machine was to offer: one annotation of the NodeClaim.

The pods are recorded by UID below their shape, which is equal for pods that no machine can tell apart. A process that
has just started finds there what earlier ones have bought.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Iterable, Mapping

import msgspec

from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

from .pods import CachedPod
from .solver.model import NewMachine

# AKS allows so many pods on a Node. A NodeClaim with more pods states the first of each shape, and so many in all.
PODS_MAX = 250


class Purchase(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`pods`: the UIDs by shape. `namespaces`: of the pods.

    `allocatable` and `daemons`: what the decision counted on, in thousandths.
    """

    pods: Mapping[str, tuple[str, ...]] = {}
    namespaces: tuple[str, ...] = ()
    instance_type: str = ""
    allocatable: Mapping[str, int] = {}
    daemons: Mapping[str, int] = {}


NOTHING = Purchase()
_DECODER = msgspec.json.Decoder(Purchase)


def annotation(machine: NewMachine, pods: Mapping[str, CachedPod]) -> dict[str, str]:
    """The annotation of a NodeClaim that is created. `pods`: the pods of the decision by name."""
    by_shape: dict[str, list[str]] = {}
    named = [pods[name] for name in machine.pods if name in pods]
    for pod in named:
        by_shape.setdefault(pod.shape, []).append(pod.metadata.uid)
    purchase = Purchase(
        pods=_bounded(by_shape),
        namespaces=tuple(sorted({pod.metadata.namespace for pod in named})),
        instance_type=machine.instance_types[0] if machine.instance_types else "",
        allocatable=machine.allocatable,
        daemons=machine.daemon_requests,
    )
    return {labels.BOUGHT_FOR: msgspec.json.encode(purchase).decode()}


def purchase_of(claim: NodeClaim) -> Purchase:
    """The purchase that a NodeClaim states; an empty one without the annotation, or for one that others changed."""
    text = claim.metadata.annotations.get(labels.BOUGHT_FOR, "")
    if not text:
        return NOTHING
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return NOTHING


def _bounded(by_shape: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The first pod of each shape, then the others, up to the bound."""
    kept: dict[str, list[str]] = {}
    queues = {shape: [*uids] for shape, uids in by_shape.items()}
    left = PODS_MAX
    while left and queues:
        for shape in [*queues]:
            if left:
                kept.setdefault(shape, []).append(queues[shape].pop(0))
                left -= 1
            if not queues[shape]:
                del queues[shape]
    return {shape: tuple(uids) for shape, uids in kept.items()}
