"""Checks that a machine is deleted only when its pods and volumes are gone, and which pods a controller evicts.

The rules of a drain, implemented independently of the controller. A pod counts after it has run for a minute: pods that
a scheduler binds while a Node is being tainted are not in the list that the controller has read. So does a volume after
it was attached for a minute; volumes of a Node with pods that stay and have volumes are not waited for.

Source: docs/references/rules.md#invariants, docs/references/karpenter.md#drain.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from provisioner.api import labels

from .audit_log import caller
from .snapshot import Snapshot, annotations_of, condition, deleting, duration_seconds, is_disrupted

Json = dict[str, Any]
Violated = Callable[[str, str], None]

SETTLED_SECONDS = 60.0
# A scheduler whose cache lags binds pods for so long after the taint.
BINDING_SECONDS = 5.0
CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class _RunningPod:
    """`since`: seconds of the loop."""

    pod: Json
    since: float


class DrainInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's; `now`: the wall clock."""

    def __init__(
        self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._now = now
        # Pods that run, are not terminating, and do not tolerate the taint of a removal, by UID.
        self._pods: dict[str, _RunningPod] = {}
        # The Nodes of pods with volumes that a drain leaves, by UID of the pod.
        self._kept: dict[str, str] = {}
        # The Nodes with the taint of a removal that had pods then, with the time of the taint.
        self._tainted: dict[str, float] = {}
        # The process that evicted pods of each Node: a successor cannot know of those that are gone.
        self._evicted: dict[str, str] = {}
        # The Node of each VolumeAttachment of a PersistentVolume, and since when it is there.
        self._attached: dict[str, tuple[str, float]] = {}

    def pod_changed(self, pod: Json, *, gone: bool, controller: bool) -> None:
        """A pod was created, bound, changed or deleted; `controller`: by one.

        I22: it was evicted although it must not be disrupted, or before a pod of an earlier tier.
        """
        uid = pod["metadata"]["uid"]
        known = self._pods.get(uid)
        self._kept.pop(uid, None)
        if not gone and pod["spec"].get("volumes") and _is_left(pod):
            self._kept[uid] = pod["spec"].get("nodeName", "")
        runs = not gone and not deleting(pod) and (pod.get("status") or {}).get("phase") == "Running"
        if runs and not _is_left(pod):
            self._pods[uid] = _RunningPod(pod=pod, since=self._time() if known is None else known.since)
            return
        self._pods.pop(uid, None)
        if known is not None and controller and (gone or deleting(pod)):
            self._check_eviction(known.pod)

    def node_changed(self, node: Json, before: Json | None, *, gone: bool) -> None:
        """A Node was created, changed or deleted."""
        name = node["metadata"]["name"]
        if gone or not is_disrupted(node):
            self._tainted.pop(name, None)
            self._evicted.pop(name, None)
        elif (before is None or not is_disrupted(before)) and self._on(name):
            self._tainted[name] = self._time()

    def attachment_changed(self, attachment: Json, *, gone: bool) -> None:
        """A VolumeAttachment was created, changed or deleted."""
        name, spec = attachment["metadata"]["name"], attachment["spec"]
        if gone or not spec["source"].get("persistentVolumeName"):
            self._attached.pop(name, None)
        else:
            self._attached.setdefault(name, (spec["nodeName"], self._time()))

    def pool_deleted(self, uid: str) -> None:
        """I22: a controller began to delete the agent pool of this claim.

        Pods of a Node that was never registered count while it is Ready: nothing drains one that is not.
        """
        claim = self._snapshot.claims.get(uid)
        if claim is None or not deleting(claim) or ((by := _deadline(claim)) is not None and by <= self._now()):
            return
        name = claim["metadata"]["name"]
        for node in self._snapshot.nodes.values():
            drained = labels.REGISTERED in node["metadata"].get("labels", {}) or condition(node, "Ready") == "True"
            own = self._snapshot.claim_of_node(node) == uid
            if own and drained and (what := self._remaining(node["metadata"]["name"])):
                self._violated("I22", f"the machine of claim {name} was deleted while {what}")

    def _remaining(self, node: str) -> str:
        """What keeps the machine of this Node; "" if nothing does."""
        now = self._time()
        if pods := self._settled(node):
            return f"pod {pods[0]['metadata']['name']} runs there"
        if self._evicted.get(node) == caller() and now - self._tainted.get(node, -math.inf) < BINDING_SECONDS:
            return "a scheduler could bind pods there"
        volumes = [name for name, (where, since) in self._attached.items() if where == node and self._lasts(since)]
        return f"volume {volumes[0]} is attached" if volumes and node not in self._kept.values() else ""

    def _check_eviction(self, pod: Json) -> None:
        self._evicted[pod["spec"].get("nodeName", "")] = caller()
        node = self._snapshot.nodes.get(pod["spec"].get("nodeName", ""))
        claim = self._snapshot.claims.get(self._snapshot.claim_of_node(node)) if node is not None else None
        if claim is None or _deadline(claim) is not None:
            return  # pods that would outlast the deadline are deleted in time for it, in any order
        name = pod["metadata"]["name"]
        if annotations_of(pod).get(labels.DO_NOT_DISRUPT) == "true":
            self._violated("I22", f"pod {name}, which must not be disrupted, was evicted")
        earlier = [one for one in self._settled(pod["spec"]["nodeName"]) if _tier(one) < _tier(pod)]
        if earlier:
            self._violated("I22", f"pod {name} was evicted before pod {earlier[0]['metadata']['name']}")

    def _settled(self, node: str) -> list[Json]:
        """The pods that have run there for a while."""
        return [one.pod for one in self._on(node) if self._lasts(one.since)]

    def _on(self, node: str) -> list[_RunningPod]:
        return [one for one in self._pods.values() if one.pod["spec"].get("nodeName") == node]

    def _lasts(self, since: float) -> bool:
        return since <= self._time() - SETTLED_SECONDS


def _deadline(claim: Json) -> datetime | None:
    """The time by which the pods of this claim must have ended, None without one."""
    deleted, period = claim["metadata"].get("deletionTimestamp"), claim["spec"].get("terminationGracePeriod", "")
    by, seconds = annotations_of(claim).get(labels.TERMINATION_TIMESTAMP, ""), duration_seconds(period)
    if (stated := _read(by)) is not None:
        return stated
    if deleted is None or seconds is None:
        return None
    return datetime.fromisoformat(deleted) + timedelta(seconds=seconds)


def _read(time: str) -> datetime | None:
    """A time that somebody may have written; None for one that cannot be read."""
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def _is_left(pod: Json) -> bool:
    """Whether a drain leaves the pod on its Node: a mirror pod, or one that tolerates the taint of a removal."""
    tolerations = pod["spec"].get("tolerations") or ()
    keys = {one.get("key", "") for one in tolerations if one.get("effect") in {None, "", "NoSchedule"}}
    return MIRROR in annotations_of(pod) or bool(keys & {"", labels.DISRUPTED_TAINT})


def _tier(pod: Json) -> int:
    """The order of eviction: ordinary pods, daemons, critical pods, critical daemons."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    return 2 * (pod["spec"].get("priorityClassName") in CRITICAL) + ("DaemonSet" in owners)
