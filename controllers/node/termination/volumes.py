"""Wait for the volumes of a drained Node to be detached before its machine is deleted.

Attachments without a PersistentVolume, and volumes of pods that the drain does not evict, are not waited for. The wait
ends at the deadline of the drain.

Source: docs/references/karpenter.md#volume-detachment.
"""

from datetime import datetime

from controllers.model.facts import Facts
from controllers.model.steps import ReadVolumes, Step, Wait
from provisioner.api.node import Node

from . import drain
from .pod_predicates import is_drainable


def step(f: Facts, node: Node, by: datetime | None) -> Step | None:
    """The next step for the volumes of a drained Node; None if its machine can be deleted."""
    if by is not None and f.now >= by:
        return None
    known = f.drain_of(node)
    failure = known.volumes.read_failure
    if failure is not None and (left := failure.retry_in(f.loop_now)) > 0:
        return Wait(after=left, why=f"failed to read the volumes of Node {node.name}")
    poll = drain.poll_seconds(f, known)
    # Attachments that are older than the pods may lack those of a pod that has ended since.
    if known.volumes.age(f.loop_now) > min(poll, known.age(f.loop_now)):
        return ReadVolumes(node=node, claims=staying(f, node))
    blocking = attached(f, node)
    if not blocking:
        return None
    left = (by - f.now).total_seconds() if by is not None else poll
    return Wait(after=min(poll, left), why=f"{len(blocking)} volumes are attached to Node {node.name}")


def attached(f: Facts, node: Node) -> tuple[str, ...]:
    """The PersistentVolumes, as last read, that must be detached."""
    known = f.drain_of(node).volumes
    names = {one.spec.source.persistent_volume_name for one in known.attachments if one.spec.node_name == node.name}
    return tuple(sorted(names - {""} - known.kept))


def staying(f: Facts, node: Node) -> tuple[str, ...]:
    """The volume claims, as `namespace/name`, of pods that are not evicted from this Node."""
    stay = (pod for pod in f.drain_of(node).pods if not is_drainable(pod, f.now))
    return tuple(sorted({claim for pod in stay for claim in pod.volume_claims}))
