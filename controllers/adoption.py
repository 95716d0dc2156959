"""A claim that a person gave a vanished claim's machine to.

Promise: pure. An annotation `labels.ADOPT` holds if no claim that is there has that UID, and if the machine under this
claim's key bears it; elsewhere the rules do not see it, so that verdicts, registration and removal all agree.
A machine is never moved: the pool's name must be this claim's key.
Left to others: writing the annotation (`gpu-provisioner adopt`), what ownership means (`ownership.py`).
"""

from collections.abc import Callable, Iterable

import msgspec

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .ownership import marks


def refusal(
    claim: NodeClaim,
    *,
    instance: Instance | None,
    nodes: Iterable[Node],
    living: Callable[[str], NodeClaim | None],
) -> str:
    """Why the adoption that is asked for on this claim does not hold, "" if it does or none is asked for."""
    wanted = claim.metadata.annotations.get(labels.ADOPT, "")
    if wanted in ("", claim.uid):
        return ""
    owner = living(wanted)
    if owner is not None:
        return f"claim {owner.name} is there and has UID {wanted}"
    born_for = {node.metadata.labels.get(labels.CLAIM_UID, "") for node in nodes}
    found = (marks(instance) if instance is not None else frozenset()) | born_for
    if instance is not None and wanted not in found:
        bears = ", ".join(sorted(uid for uid in found if uid)) or "no UID of ours"
        return f"agent pool {instance.name} bears {bears}, not {wanted}"
    return ""


def without(claim: NodeClaim) -> NodeClaim:
    """The claim as the rules see it when its adoption does not hold."""
    kept = {key: value for key, value in claim.metadata.annotations.items() if key != labels.ADOPT}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=kept))
