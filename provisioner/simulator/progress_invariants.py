"""Checks that every NodePool with work makes progress (I21).

It judges by objects of the API server, and only reports what is certain. Work is a pod that only one dynamic NodePool
can take and that is pending, fewer NodeClaims of a static NodePool than replicas, or a machine that has drifted. Then
within `PROGRESS_SECONDS` a NodeClaim of that NodePool is created, changed or deleted, the pod is bound, or an Event of
the controller states why not: a limit, the purchase brake, a shortage, a budget. The controller repeats such Events
every 1 to 5 minutes while their cause lasts, so that one counts for as long as progress does.

Only time counts in which controllers lead and their requests succeed.

Source: docs/references/rules.md#invariants, docs/references/karpenter.md#events.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from provisioner.api import labels

from .audit_log import Call
from .azure import sizes
from .disruption_invariants import has_ended, is_of_daemon_set, node_of, owner_of
from .scheduling.requests import Amounts, pod_requests
from .snapshot import Snapshot, condition, deleting, is_disrupted, labels_of

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# As long as most delays after a refusal, and far above those of a controller that has nothing to wait for.
PROGRESS_SECONDS = 900.0
# A leader lists the agent pools at least so often.
LEADING_SECONDS = 150.0
# A machine that is created for longer is no progress.
CREATING_SECONDS = 3600.0
CHECK_SECONDS = 30.0
# The part of a machine that pods surely get: the kubelet reserves at most a quarter of the memory and 0.2 vCPUs, and
# the rest is for DaemonSets.
CPU_PART, MEMORY_PART = 0.75, 0.5
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
_CONTROLLER = "gpu-provisioner"
# Events that state no cause for a purchase that is not made: where a pod should run, and why machines are kept.
_NOT_OF_PURCHASES = frozenset({"Nominated", "DisruptionBlocked"})


class ProgressInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._pods: dict[str, Json] = {}
        self._node_pools: dict[str, Json] = {}
        # Since when a NodePool has not made progress, and since when controllers lead without errors.
        self._idle_since: dict[str, float] = {}
        self._pending_since: dict[str, float] = {}
        self._undisturbed_since = math.inf
        # When a controller last stated a cause, by the UID of the object: of any kind, and for which nothing is bought.
        self._stated_at: dict[str, float] = {}
        self._not_bought_at: dict[str, float] = {}
        # Since when a Node takes no pods, by name.
        self._unusable_since: dict[str, float] = {}
        self._led_at = -math.inf
        self._calls: list[Call] = []
        self._checked_at = -math.inf

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
        """An Event was created or counted: the controller's state to users what an object waits for."""
        uid = event["involvedObject"].get("uid", "")
        known = uid in self._pods or uid in self._node_pools or uid in self._snapshot.claims
        if known and event.get("reportingComponent") == _CONTROLLER:
            self._stated_at[uid] = self._time()
            if event.get("reason") not in _NOT_OF_PURCHASES:
                self._not_bought_at[uid] = self._time()

    def node_pool_changed(self, node_pool: Json, before: Json | None, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted."""
        uid = node_pool["metadata"]["uid"]
        if gone:
            for known in (self._node_pools, self._idle_since, self._stated_at, self._not_bought_at):
                known.pop(uid, None)
            return
        self._node_pools[uid] = node_pool
        if before is None or before["spec"] != node_pool["spec"]:
            self._idle_since[uid] = self._time()

    def claim_changed(self, claim: Json, *, gone: bool) -> None:
        """A NodeClaim was created, changed or deleted: its NodePool makes progress."""
        self._idle_since[owner_of(claim)] = self._time()
        if gone:
            for known in (self._stated_at, self._not_bought_at):
                known.pop(claim["metadata"]["uid"], None)

    def node_changed(self, node: Json, *, gone: bool) -> None:
        """A Node was created, changed or deleted."""
        name = node["metadata"]["name"]
        if gone or _is_usable(node):
            self._unusable_since.pop(name, None)
        else:
            self._unusable_since.setdefault(name, self._time())

    def pod_changed(self, pod: Json, before: Json | None, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid = pod["metadata"]["uid"]
        if gone or has_ended(pod) or deleting(pod) or is_of_daemon_set(pod):
            for known in (self._pods, self._pending_since, self._stated_at, self._not_bought_at):
                known.pop(uid, None)
            return
        self._pods[uid] = pod
        if node_of(pod):
            self._pending_since.pop(uid, None)
        elif before is None or _shape(before) != _shape(pod):
            self._pending_since[uid] = self._time()

    def check(self) -> None:
        """Report what has not happened in time."""
        now = self._time()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        if now - self._led_at > LEADING_SECONDS:
            self._undisturbed_since = math.inf
        for uid, node_pool in self._node_pools.items():
            if not deleting(node_pool) and condition(node_pool, "Ready") == "True":
                self._check_progress(uid, node_pool, now)

    def _check_progress(self, uid: str, node_pool: Json, now: float) -> None:
        """Whether the NodePool has work and makes no progress, though nothing disturbs the controllers."""
        since = max(self._undisturbed_since, self._idle_since.get(uid, now))
        if now - since <= PROGRESS_SECONDS:
            return
        claims = {one: claim for one, claim in self._snapshot.claims.items() if owner_of(claim) == uid}
        if any(_is_under_way(one) for one in claims.values()) and now - since < CREATING_SECONDS:
            return
        kept_since = max(since, self._stated_at.get(uid, -math.inf))
        found = self._drifted(claims, kept_since, now) or self._lacking(node_pool, claims, since, now)
        if found:
            self._idle_since[uid] = now
            self._violated("I21", f"NodePool {node_pool['metadata']['name']} {found}")

    # work

    def _lacking(self, node_pool: Json, claims: dict[str, Json], since: float, now: float) -> str:
        """What the NodePool has to buy and does not; "" for nothing."""
        replicas = node_pool["spec"].get("replicas")
        since = max(since, self._not_bought_at.get(node_pool["metadata"]["uid"], -math.inf), *self._unusable(claims))
        if now - since <= PROGRESS_SECONDS:
            return ""
        if replicas is not None:
            limit = (node_pool["spec"].get("limits") or {}).get("nodes")
            if len(claims) < (replicas if limit is None else min(replicas, int(limit))):
                words = f"has {len(claims)} NodeClaims of {replicas} replicas"
                return f"{words} and made no progress for {now - since:.0f} s"
            return ""
        for uid, pending_since in self._pending_since.items():
            pod = self._pods[uid]
            waited = now - max(since, pending_since, self._not_bought_at.get(uid, -math.inf))
            if waited > PROGRESS_SECONDS and _takes(node_pool, pod):
                return f"made no progress for {waited:.0f} s, and pod {pod['metadata']['name']} waits for it"
        return ""

    def _unusable(self, claims: dict[str, Json]) -> Iterator[float]:
        """Since when Nodes of these NodeClaims take no pods; each may take them soon without a purchase."""
        for name, since in self._unusable_since.items():
            if self._snapshot.claim_of_node(self._snapshot.nodes[name]) in claims:
                yield since

    def _drifted(self, claims: dict[str, Json], since: float, now: float) -> str:
        """The machine that has drifted and that nothing is done about; "" if there is none.

        Whatever keeps it is stated on it or on its NodePool: budgets, pods, places that are lacking.
        """
        if any(_is_under_way(one) or condition(one, "DisruptionReason") == "True" for one in claims.values()):
            return ""
        for uid, claim in claims.items():
            waited = now - max(since, self._stated_at.get(uid, -math.inf))
            drifted = condition(claim, "Drifted") == "True" and condition(claim, "Initialized") == "True"
            # Its health last: that looks at all Nodes and agent pools.
            if waited > PROGRESS_SECONDS and drifted and self._snapshot.healthy(uid):
                return f"made no progress for {waited:.0f} s, and claim {claim['metadata']['name']} has drifted"
        return ""


def _is_under_way(claim: Json) -> bool:
    """Whether the machine of the NodeClaim is being created or removed."""
    return condition(claim, "Initialized") not in ("True", "False") or deleting(claim)


def _is_usable(node: Json) -> bool:
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return condition(node, "Ready") == "True" and not cordoned and not is_disrupted(node)


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
    comparable = "nvidia.com/gpu" in wanted and {"cpu", "memory", "nvidia.com/gpu"} >= set(wanted)
    return bool(found) and comparable and all(_fits(wanted, one) for one in found)


def _fits(wanted: Amounts, size: sizes.Size | None) -> bool:
    """Whether a machine of the size surely has room for these requests."""
    return (
        size is not None
        and wanted.get("nvidia.com/gpu", 0) <= size.gpus
        and wanted.get("cpu", 0) <= CPU_PART * size.vcpus
        and wanted.get("memory", 0) <= MEMORY_PART * size.memory_gib * 2**30
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    effect = toleration.get("effect") in (None, "", taint["effect"])
    same = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return effect and toleration.get("key") == taint["key"] and same


def _failed(call: Call) -> bool:
    """Whether a request had no response, or one that another attempt may not have."""
    status = call.status or 0
    return status == 0 or status in (401, 403, 408, 429) or status >= 500


def _shape(pod: Json) -> Json:
    return {key: value for key, value in pod["spec"].items() if key != "nodeName"}
