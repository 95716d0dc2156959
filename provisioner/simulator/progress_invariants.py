"""Checks that every NodePool with work makes progress (I21), and that voluntary commands leave no pod waiting (I19).

Both judge by objects of the API server, and only report what is certain.

I21: a pod that only one dynamic NodePool can take is pending, or a static NodePool has fewer NodeClaims than replicas.
Then within `PROGRESS_SECONDS` a NodeClaim of that NodePool is created, changed or deleted, the pod is bound, or an
Event about the pod or the NodePool states why not: a limit, the purchase brake, a shortage. Only time counts in which
controllers lead and their requests succeed.

I19: a controller deletes the NodeClaim of a healthy machine, and evicts its pods. The pod that their owner creates in
the place of each of them is bound within `RESTART_SECONDS`. A place exists, or its replacement was Initialized, before
the eviction, so that the simulated scheduler binds it in its next pass, after hundredths of a second; the minute is for
a Node whose taint is being removed. What others do in that time may take the place: then nothing is reported.

Source: docs/references/rules.md#invariants.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provisioner.api import labels

from .audit_log import Call
from .azure import sizes
from .disruption_invariants import CACHE_SECONDS, has_ended, is_of_daemon_set, node_of, owner_of
from .scheduling.requests import pod_requests
from .snapshot import Snapshot, condition, deleting, is_disrupted, is_expired, labels_of

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# As long as most delays after a refusal, and far above those of a controller that has nothing to wait for.
PROGRESS_SECONDS = 900.0
RESTART_SECONDS = 60.0
# An owner creates the next pod at once, or, of a StatefulSet, when the grace period of the last one has ended.
RECREATED_SECONDS = 120.0
# A leader lists the agent pools at least so often.
LEADING_SECONDS = 150.0
# A machine that is created for longer is no progress.
CREATING_SECONDS = 3600.0
CHECK_SECONDS = 30.0
# What a pod may state for I21 to know which NodePool takes it.
_CONSTRAINTS = (
    "affinity",
    "topologySpreadConstraints",
    "resourceClaims",
    "schedulingGates",
    "volumes",
    "initContainers",
    "priority",
    "overhead",
)
_OWN_SCHEDULER = "default-scheduler"


@dataclass(kw_only=True)
class _Successor:
    """A pod that was created in the place of one that a controller evicted. `at`: when; `command`: the NodeClaim."""

    pod: str
    at: float
    command: str


class ProgressInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._pods: dict[str, Json] = {}
        self._node_pools: dict[str, Json] = {}
        # I21: since when a NodePool has not made progress, and since when controllers lead without errors.
        self._idle_since: dict[str, float] = {}
        self._pending_since: dict[str, float] = {}
        self._stated: dict[str, None] = {}
        self._undisturbed_since = math.inf
        self._led_at = -math.inf
        self._calls: list[Call] = []
        self._checked_at = -math.inf
        # I19: the machines that a voluntary command ends, by Node, and the pods evicted from them, by owner.
        self._commands: dict[str, str] = {}
        self._evicted: dict[str, deque[tuple[float, str]]] = {}
        self._successors: dict[str, _Successor] = {}
        self._disturbed_at = -math.inf

    # what changes

    def called(self, call: Call) -> None:
        """A controller sends a request."""
        now = self._time()
        failed = [one for one in self._calls if one.status is not None and _failed(one)]
        self._calls = [one for one in self._calls if one.status is None]
        if call.verb != "WATCH":
            self._calls.append(call)
        if call.system == "arm":
            if now - self._led_at > LEADING_SECONDS:
                self._undisturbed_since = now
            self._led_at = now
        if failed:
            self._undisturbed_since = now
        self.check()

    def event_recorded(self, event: Json) -> None:
        """An Event was created or counted: it states to users what an object waits for."""
        uid = event["involvedObject"].get("uid", "")
        if event.get("reportingComponent") != _OWN_SCHEDULER and (uid in self._pods or uid in self._node_pools):
            self._stated[uid] = None

    def node_pool_changed(self, node_pool: Json, before: Json | None, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted."""
        uid = node_pool["metadata"]["uid"]
        if gone:
            self._node_pools.pop(uid, None)
            return
        self._node_pools[uid] = node_pool
        if before is None or before["spec"] != node_pool["spec"]:
            self._idle_since[uid] = self._time()
            self._stated.pop(uid, None)

    def claim_changed(self, claim: Json) -> None:
        """A NodeClaim was created, changed or deleted: its NodePool makes progress."""
        self._idle_since[owner_of(claim)] = self._time()

    def claim_deleted(self, claim: Json) -> None:
        """A controller begins to delete this NodeClaim; call it before the deletion is in the snapshot."""
        uid = claim["metadata"]["uid"]
        snapshot = self._snapshot
        # `spec.replicas` was lowered by a user, who wants fewer places.
        forced = snapshot.is_requested(uid) or is_expired(claim) or snapshot.is_surplus(uid)
        recent = self._time() - self._disturbed_at < CACHE_SECONDS
        if not snapshot.healthy(uid) or forced or recent:
            return
        for name, node in snapshot.nodes.items():
            if snapshot.claim_of_node(node) == uid:
                self._commands[name] = claim["metadata"]["name"]

    def node_changed(self, node: Json, before: Json | None, *, gone: bool) -> None:
        """A Node was created, changed or deleted: one that others take away is a place no longer."""
        name = node["metadata"]["name"]
        lost = gone or (
            before is not None
            and condition(before, "Ready") == "True"
            and (condition(node, "Ready") != "True" or _cordoned(node) > _cordoned(before))
        )
        if lost and name not in self._commands:
            self._disturbed()
        if gone:
            self._commands.pop(name, None)

    def pod_changed(self, pod: Json, before: Json | None, *, gone: bool, controller: bool) -> None:
        """A pod was created, bound, changed or deleted; `controller`: by a controller's request."""
        uid = pod["metadata"]["uid"]
        if is_of_daemon_set(pod):
            return
        if controller and _owner(pod) and node_of(pod) in self._commands and _leaves(pod, before, gone=gone):
            self._evicted.setdefault(_owner(pod), deque()).append((self._time(), self._commands[node_of(pod)]))
        if gone or has_ended(pod) or deleting(pod):
            for known in (self._pods, self._pending_since, self._successors, self._stated):
                known.pop(uid, None)
            return
        self._pods[uid] = pod
        if before is None:
            self._created(pod)
        if node_of(pod):
            bound = before is not None and not node_of(before)
            if bound and uid not in self._successors:
                self._disturbed()
            self._pending_since.pop(uid, None)
            self._successors.pop(uid, None)
        elif before is None or _shape(before) != _shape(pod):
            self._pending_since[uid] = self._time()
            self._stated.pop(uid, None)

    def check(self) -> None:
        """Report what has not happened in time."""
        now = self._time()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        for uid, one in list(self._successors.items()):
            if now - one.at > RESTART_SECONDS:
                del self._successors[uid]
                self._violated(
                    "I19",
                    f"pod {one.pod} is pending for {now - one.at:.0f} s, because claim {one.command} was deleted",
                )
        if now - self._led_at > LEADING_SECONDS:
            self._undisturbed_since = math.inf
        for uid, node_pool in self._node_pools.items():
            self._check_progress(uid, node_pool, now)

    # I19

    def _created(self, pod: Json) -> None:
        """A pod in the place of one that was evicted, or one that may take such a place."""
        evicted = self._evicted.get(_owner(pod), deque())
        while evicted and self._time() - evicted[0][0] > RECREATED_SECONDS:
            evicted.popleft()
        if not evicted:
            self._disturbed()
            return
        _, command = evicted.popleft()
        if not node_of(pod) and not pod["spec"].get("schedulingGates"):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            self._successors[uid] = _Successor(pod=name, at=self._time(), command=command)

    def _disturbed(self) -> None:
        """Places are lost, or may be, by something else than the commands of now."""
        self._disturbed_at = self._time()
        self._commands.clear()
        self._successors.clear()

    # I21

    def _check_progress(self, uid: str, node_pool: Json, now: float) -> None:
        """The NodePool has work and makes no progress, though nothing disturbs the controllers."""
        since = max(self._undisturbed_since, self._idle_since.get(uid, now))
        if now - since <= PROGRESS_SECONDS or deleting(node_pool) or condition(node_pool, "Ready") != "True":
            return
        if uid in self._stated or self._is_busy(uid, now):
            return
        name = node_pool["metadata"]["name"]
        replicas = node_pool["spec"].get("replicas")
        if replicas is not None:
            have = sum(owner_of(one) == uid for one in self._snapshot.claims.values())
            limit = (node_pool["spec"].get("limits") or {}).get("nodes")
            if have < (replicas if limit is None else min(replicas, int(limit))):
                self._idle_since[uid] = now
                words = f"has {have} NodeClaims of {replicas} replicas"
                self._violated("I21", f"NodePool {name} {words} and made no progress for {now - since:.0f} s")
            return
        for pod_uid, pending_since in self._pending_since.items():
            waited = now - max(since, pending_since)
            pod = self._pods[pod_uid]
            if waited > PROGRESS_SECONDS and pod_uid not in self._stated and _takes(node_pool, pod):
                self._idle_since[uid] = now
                words = f"pod {pod['metadata']['name']} waits for it"
                self._violated("I21", f"NodePool {name} made no progress for {waited:.0f} s, and {words}")
                return

    def _is_busy(self, uid: str, now: float) -> bool:
        """Whether a machine of the NodePool is being created, or may take pods soon without a purchase."""
        claims = {one: claim for one, claim in self._snapshot.claims.items() if owner_of(claim) == uid}
        if any(condition(one, "Initialized") != "True" or deleting(one) for one in claims.values()):
            return now - self._idle_since.get(uid, now) < CREATING_SECONDS
        nodes = (node for node in self._snapshot.nodes.values() if self._snapshot.claim_of_node(node) in claims)
        return any(condition(node, "Ready") != "True" or _cordoned(node) or is_disrupted(node) for node in nodes)


def _takes(node_pool: Json, pod: Json) -> bool:
    """Whether the pod names the NodePool, and surely fits an empty machine of each size that it states."""
    spec = pod["spec"]
    if any(spec.get(one) for one in _CONSTRAINTS) or "finalizers" in pod["metadata"]:
        return False
    if spec.get("schedulerName", _OWN_SCHEDULER) != _OWN_SCHEDULER:
        return False
    template = node_pool["spec"]["template"]
    known = {
        labels.NODEPOOL: node_pool["metadata"]["name"],
        **(labels_of({"metadata": template.get("metadata") or {}})),
    }
    selected = spec.get("nodeSelector") or {}
    if labels.NODEPOOL not in selected or any(known.get(key) != value for key, value in selected.items()):
        return False
    tolerations = spec.get("tolerations") or ()
    taints = [*(template["spec"].get("taints") or ()), *(template["spec"].get("startupTaints") or ())]
    if any(not any(_tolerates(one, taint) for one in tolerations) for taint in taints):
        return False
    requirements = template["spec"].get("requirements") or ()
    named = [one for one in requirements if one["key"] == labels.INSTANCE_TYPE and one["operator"] == "In"]
    found = [sizes.find(value) for one in named for value in one["values"]]
    wanted = pod_requests(spec)
    gpus = wanted.get("nvidia.com/gpu", 0)
    small = wanted.get("cpu", 0) <= 2 and wanted.get("memory", 0) <= 4 * 2**30
    others = set(wanted) - {"cpu", "memory", "nvidia.com/gpu"}
    return bool(found) and gpus > 0 and small and not others and all(one and one.gpus >= gpus for one in found)


def _tolerates(toleration: Json, taint: Json) -> bool:
    effect = toleration.get("effect") in (None, "", taint["effect"])
    same = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return effect and toleration.get("key") == taint["key"] and same


def _failed(call: Call) -> bool:
    """Whether a request had no response, or one that another attempt may not have."""
    status = call.status or 0
    return status == 0 or status in (401, 403, 408, 429) or status >= 500


def _leaves(pod: Json, before: Json | None, *, gone: bool) -> bool:
    """Whether the pod begins to leave its Node."""
    return before is not None and not deleting(before) and not has_ended(before) and (gone or deleting(pod))


def _cordoned(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _owner(pod: Json) -> str:
    return next((one["uid"] for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")), "")


def _shape(pod: Json) -> Json:
    return {key: value for key, value in pod["spec"].items() if key != "nodeName"}
