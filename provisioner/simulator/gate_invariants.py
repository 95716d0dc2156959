"""Checks what a controller deletes or cordons against the state of the pods and of the machine itself.

The rules of the deletion gate, implemented independently of the controller: it judges by what the kubelet reports and
by the pods that run, not by the controller's conditions.

Source: docs/references/rules.md#invariants, docs/reference/deletion-gate.md.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from provisioner.api import labels

from .snapshot import Snapshot, annotations_of, condition, conditions, deleting, is_disrupted, is_expired, requests_gpus

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# A machine that works is cordoned for its pods at most so long, unless a row of the repair policy says otherwise.
POD_SECONDS = 24 * 3600.0
# The messages of the conditions by which AKS reports the announcement of an eviction.
ANNOUNCEMENTS = ("Preempt Scheduled", "Preempt Started")
# Controllers that create an equal pod in the place of one that is evicted.
MOVABLE = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class GateInvariants:
    """`violated(invariant, what)` is called for each violation. `now`: the wall clock."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, now: Callable[[], datetime]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._now = now
        # Running pods that request GPUs or claim devices, by UID.
        self._pods: dict[str, Json] = {}

    def pod_changed(self, pod: Json, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid = pod["metadata"]["uid"]
        runs = (pod.get("status") or {}).get("phase") == "Running" and not deleting(pod)
        if gone or not runs or not requests_gpus(pod) or "DaemonSet" in _owners(pod):
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod

    def claim_deleted(self, claim: Json, before: Json) -> None:
        """I18: a controller began to delete this claim."""
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        snapshot = self._snapshot
        if snapshot.is_requested(uid) or is_expired(claim) or snapshot.is_surplus(uid):
            return
        for node in snapshot.nodes.values():
            if snapshot.claim_of_node(node) != uid or condition(node, "Ready") != "True" or deleting(node):
                continue
            pods = [pod for pod in self._pods.values() if pod["spec"].get("nodeName") == node["metadata"]["name"]]
            voluntary = condition(before, "DisruptionReason") == "True" or snapshot.is_outdated(uid)
            ended = [pod for pod in pods if not (voluntary and _owners(pod) & MOVABLE)]
            if ended and not _has_faulty_gpus(node) and not self._waited(node) and not self._is_taken(claim, node):
                pod = ended[0]["metadata"]["name"]
                self._violated("I18", f"claim {name} was deleted, on whose Ready machine pod {pod} runs with GPUs")

    def check_quiescent(self) -> None:
        """I20: no cordon by a controller is left on a machine that is not removed and shows nothing unusual."""
        for name, node in self._snapshot.nodes.items():
            claim = self._snapshot.claims.get(self._snapshot.claim_of_node(node))
            if claim is None or deleting(claim) or not _is_cordoned(node) or is_disrupted(node):
                continue
            uid = claim["metadata"]["uid"]
            if self._snapshot.healthy(uid) and condition(claim, "NodeHealthy") != "False":
                self._violated("I20", f"after convergence, Node {name} is cordoned by the controller without a cause")

    def _is_taken(self, claim: Json, node: Json) -> bool:
        """Whether Azure has announced that it evicts the spot machine."""
        pools = (pool for pool in self._snapshot.pools.values() if self._snapshot.belongs(pool, claim))
        return any(pool.priority == "Spot" for pool in pools) and any(
            one["status"] == "True" and (one.get("message") or "").startswith(ANNOUNCEMENTS) for one in conditions(node)
        )

    def _waited(self, node: Json) -> bool:
        """Whether the Node has been cordoned for as long as the controller waits for pods."""
        notes = annotations_of(node)
        since = notes.get(labels.CORDONED_AT) or notes.get(labels.CORDON_SEEN_AT, "")
        return bool(since) and (self._now() - datetime.fromisoformat(since)).total_seconds() >= POD_SECONDS


def _is_cordoned(node: Json) -> bool:
    """Whether a controller keeps pods from the Node: for a fault, or because the kubelet rejected pods."""
    notes = annotations_of(node)
    rejects = not notes.get(labels.REJECTS_PODS, "released").startswith("released")
    return labels.CORDONED_AT in notes or (rejects and bool(node["spec"].get("unschedulable")))


def _has_faulty_gpus(node: Json) -> bool:
    """Whether the device plugin serves, and reports unhealthy GPUs."""
    status = node.get("status") or {}
    offered = status.get("allocatable") or {}
    amounts = {name: int(amount) for name, amount in (status.get("capacity") or {}).items() if _is_gpu(name)}
    return any(int(offered.get(name, "0")) < amount for name, amount in amounts.items())


def _owners(pod: Json) -> set[str]:
    return {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}


def _is_gpu(resource: str) -> bool:
    return resource.startswith(("nvidia.com/", "amd.com/"))
