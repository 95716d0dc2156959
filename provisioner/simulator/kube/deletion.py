"""Pure functions from the stored object and a DELETE to the next version: deletionTimestamp, grace period, finalizers.

Source: https://github.com/kubernetes/apiserver/tree/master/pkg/registry/rest (delete),
https://github.com/kubernetes/kubernetes/tree/master/pkg/registry/core/pod (strategy).
"""

from datetime import datetime
from typing import Literal, NamedTuple

from .objects import Json, dig, parse_time, rfc3339
from .resources import Resource
from .times import go_duration

Propagation = Literal["Background", "Foreground", "Orphan"]
_POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Deletion(NamedTuple):
    """The result of a DELETE: the last version, and whether the object was deleted."""

    obj: Json
    gone: bool


def is_released(obj: Json) -> bool:
    """Whether a deleting object can be deleted now."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")


def grace_of(resource: Resource, old: Json, requested: int | None) -> int:
    """The grace period of a DELETE in seconds; only bound, running pods have one."""
    if (
        resource.key != "pods"
        or not dig(old, "spec", "nodeName")
        or dig(old, "status", "phase") in {"Succeeded", "Failed"}
    ):
        return 0
    if requested is not None:
        return requested if requested >= 0 else 1
    default = dig(old, "spec", "terminationGracePeriodSeconds")
    return 30 if default is None else int(default)


def marked_for_deletion(
    resource: Resource, old: Json, *, now: datetime, grace: int | None, policy: Propagation
) -> Json:
    """`old` after a DELETE, deleting or with a shorter grace period; equal to `old` if nothing changes.

    If the result is released (`is_released`), the object is deleted at once.
    """
    meta = dict(old["metadata"])
    finalizers = list(meta.get("finalizers") or [])
    added = _POLICY_FINALIZERS.get(policy)
    if added and added not in finalizers:
        meta["finalizers"] = [*finalizers, added]
    seconds = grace_of(resource, old, grace)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = rfc3339(now + go_duration(seconds))
        meta["deletionGracePeriodSeconds"] = seconds
        if resource.counts_generation:
            meta["generation"] = meta.get("generation", 0) + 1
    elif (grace is not None or seconds == 0) and seconds < meta.get("deletionGracePeriodSeconds", 0):
        started = parse_time(meta["deletionTimestamp"]) - go_duration(meta["deletionGracePeriodSeconds"])
        meta["deletionTimestamp"] = rfc3339(started + go_duration(seconds))
        meta["deletionGracePeriodSeconds"] = seconds
    deleted = {**old, "metadata": meta}
    if resource.key == "namespaces":
        deleted["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    return deleted
