"""Predicates on pods for a drain: which pods it waits for, which can be evicted, and in which tier.

A drain does not wait for mirror pods, pods that tolerate the disrupted taint, finished pods, and pods that are stuck
terminating.

Source: docs/references/karpenter.md#pods.
"""

from datetime import datetime

from provisioner.api import labels
from provisioner.api.pod import Pod, Toleration, Volume
from provisioner.api.time import LATEST, parse_duration, shifted

STUCK_SECONDS = 60.0
# A longer period overflows in the API server, so that the deletionTimestamp can be in the past
# (https://pkg.go.dev/time#Duration).
LONGEST_GRACE_SECONDS = 9_223_372_036
DEFAULT_GRACE_SECONDS = 30
CRITICAL = ("system-cluster-critical", "system-node-critical")


def is_waiting_eviction(pod: Pod, now: datetime) -> bool:
    """Whether the machine is deleted only after this pod has ended."""
    return is_drainable(pod, now) and not pod.ended


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Whether a drain evicts this pod at all; other pods keep their volumes until the machine is deleted."""
    return not (
        pod.metadata.mirrored_by is not None
        or _is_stuck_terminating(pod, now)
        or any(tolerates_disruption(t) for t in pod.spec.tolerations)
    )


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether this pod can be evicted: not terminating, and not annotated `do-not-disrupt`."""
    return not pod.metadata.deleting and not is_do_not_disrupt_active(pod, now)


def is_do_not_disrupt_active(pod: Pod, now: datetime) -> bool:
    """Whether the annotation `do-not-disrupt` applies: "true", or a duration since the pod's start."""
    return is_protecting(pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, ""), pod.status.start_time, now)


def is_protecting(do_not_disrupt: str, started: datetime | None, now: datetime) -> bool:
    """Whether this value of `do-not-disrupt` applies to a pod that started then."""
    if do_not_disrupt in ("", "true"):
        return bool(do_not_disrupt)
    seconds = parse_duration(do_not_disrupt)
    if seconds is None or seconds <= 0:
        return False
    return started is None or now < shifted(started, seconds)


def do_not_disrupt_until(pod: Pod) -> datetime | None:
    """When a `do-not-disrupt` duration ends; None without a duration, or before the pod has started."""
    seconds = parse_duration(pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, ""))
    started = pod.status.start_time
    return None if seconds is None or started is None else shifted(started, seconds)


def has_invalid_do_not_disrupt(pod: Pod) -> bool:
    """Whether `do-not-disrupt` is neither "true", "false" nor a positive duration; it is then ignored."""
    value = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT)
    if value is None or value in ("true", "false"):
        return False
    seconds = parse_duration(value)
    return seconds is None or seconds <= 0


def tier(pod: Pod) -> int:
    """The order of eviction: 0 ordinary pods, 1 daemons, 2 critical pods, 3 critical daemons."""
    return 2 * (pod.spec.priority_class_name in CRITICAL) + (pod.metadata.daemon_set is not None)


def grace_seconds(pod: Pod) -> int:
    """The pod's termination grace period."""
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if seconds is None else seconds


def terminates_by(pod: Pod) -> datetime | None:
    """When a terminating pod has used up its grace period; None if it is not terminating."""
    meta = pod.metadata
    if meta.deletion_timestamp is not None and (meta.deletion_grace_period_seconds or 0) > LONGEST_GRACE_SECONDS:
        return LATEST
    return meta.deletion_timestamp


def has_claim(volume: Volume) -> bool:
    """Whether the volume has a PersistentVolumeClaim."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _is_stuck_terminating(pod: Pod, now: datetime) -> bool:
    """More than a minute past its deletionTimestamp, which includes the grace period."""
    ends_by = terminates_by(pod)
    return ends_by is not None and (now - ends_by).total_seconds() > STUCK_SECONDS


def tolerates_disruption(toleration: Toleration) -> bool:
    """Whether it tolerates the disrupted taint."""
    if toleration.effect not in ("", "NoSchedule"):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", labels.DISRUPTED_TAINT)
    return toleration.key == labels.DISRUPTED_TAINT and toleration.value == ""
