"""What a pod is to a drain: whether it must leave, whether it may be asked to, in which tier, and whose it is.

Pure; one predicate each. A pod that tolerates the disrupted taint, a mirror pod, a finished pod and a pod
that is stuck past its own grace hold nothing up.

Source: docs/references/karpenter.md#pods.
"""

from datetime import datetime, timedelta

from provisioner.api import labels
from provisioner.api.pod import Pod, Toleration
from provisioner.api.time import parse_duration

STUCK_SECONDS = 60.0
DEFAULT_GRACE_SECONDS = 30
CRITICAL = ("system-cluster-critical", "system-node-critical")


def is_waiting_eviction(pod: Pod, now: datetime) -> bool:
    """Whether the machine waits for this pod to be gone."""
    return is_drainable(pod, now) and pod.status.phase not in ("Succeeded", "Failed")


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Whether this pod is to leave at all; one that is not keeps its volumes until the machine goes."""
    return not (
        _is_mirror_pod(pod)
        or _is_stuck_terminating(pod, now)
        or any(_tolerates_disruption(t) for t in pod.spec.tolerations)
    )


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether this pod may be asked to leave: not already going, and not protected by its owner."""
    return not pod.metadata.deleting and not is_do_not_disrupt_active(pod, now)


def is_do_not_disrupt_active(pod: Pod, now: datetime) -> bool:
    """Whether its owner asked that it should not be disrupted yet."""
    written = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    if written == "true":
        return True
    seconds = parse_duration(written)
    if seconds is None or seconds <= 0:
        return False
    started = pod.status.start_time
    return started is None or now < started + timedelta(seconds=seconds)


def do_not_disrupt_until(pod: Pod) -> datetime | None:
    """When a protection by a duration ends; None: not by itself, or not yet known."""
    seconds = parse_duration(pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, ""))
    started = pod.status.start_time
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def has_invalid_do_not_disrupt(pod: Pod) -> bool:
    """Whether do-not-disrupt says something that is neither yes, no, nor a positive duration; it then says nothing."""
    written = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT)
    if written is None or written in ("true", "false"):
        return False
    seconds = parse_duration(written)
    return seconds is None or seconds <= 0


def tier(pod: Pod) -> int:
    """When it leaves: 0 ordinary pods, 1 daemons, 2 critical pods, 3 critical daemons."""
    critical = pod.spec.priority_class_name in CRITICAL
    owners = pod.metadata.owner_references
    daemon = any(owner.kind == "DaemonSet" and owner.api_version.startswith("apps/") for owner in owners)
    return 2 * critical + daemon


def grace_seconds(pod: Pod) -> int:
    """How long it may take to end, once asked."""
    own = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if own is None else own


def volume_claims(pod: Pod) -> tuple[tuple[str, str], ...]:
    """(namespace, name) of the PersistentVolumeClaims that it uses."""
    meta, found = pod.metadata, list[tuple[str, str]]()
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((meta.namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append((meta.namespace, f"{meta.name}-{volume.name}"))
    return tuple(found)


def _is_mirror_pod(pod: Pod) -> bool:
    return any(owner.kind == "Node" and owner.api_version == "v1" for owner in pod.metadata.owner_references)


def _is_stuck_terminating(pod: Pod, now: datetime) -> bool:
    """Deleting for over a minute past its grace, which deletionTimestamp already includes."""
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is not None and (now - gone_by).total_seconds() > STUCK_SECONDS


def _tolerates_disruption(toleration: Toleration) -> bool:
    if toleration.effect not in ("", "NoSchedule"):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", labels.DISRUPTED_TAINT)
    return toleration.key == labels.DISRUPTED_TAINT and toleration.value == ""
