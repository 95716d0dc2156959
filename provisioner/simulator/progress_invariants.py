"""Checks that every NodePool with work makes progress (I21).

It judges by objects of the API server, and only reports what is certain. Work is a pod that only one dynamic NodePool
can take and that is pending, fewer NodeClaims of a static NodePool than replicas, or a machine that has drifted or is
being replaced. Then within `PROGRESS_SECONDS` a NodeClaim of that NodePool is created, launched, initialized, chosen
for a disruption or deleted, the pod is bound, or an Event of the controller states why not: a limit, the purchase
brake, a shortage, a budget. The controller repeats such Events every 1 to 5 minutes while their cause lasts, so that
one counts for as long as progress does. Other changes of NodeClaims are none: pods that come and go change them. A
NodeClaim without an owner counts for the NodePool that its label names, as the pods that it takes do.

Only time counts in which controllers lead and their requests succeed. A write that is refused (403) counts for the
NodePool of the object only, if it has one.

Source: docs/references/rules.md#invariants, docs/references/karpenter.md#events.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from provisioner.api import labels

from .audit_log import WRITES, Call
from .disruption_invariants import has_ended, is_of_daemon_set, node_of, owner_of
from .snapshot import Snapshot, condition, deleting, is_disrupted
from .sure_places import takes

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# As long as most delays after a refusal, and far above those of a controller that has nothing to wait for.
PROGRESS_SECONDS = 900.0
# A leader lists the agent pools at least so often.
LEADING_SECONDS = 150.0
# A machine that is created for longer is no progress.
CREATING_SECONDS = 3600.0
# Nor is a replacement without a step for longer: one that does not start is waited for up to 90 minutes.
REPLACING_SECONDS = 6000.0
# The conditions of a NodeClaim whose status changes when its NodePool makes progress.
_STEPS = ("Launched", "Initialized", "DisruptionReason")
CHECK_SECONDS = 30.0
FORBIDDEN = 403
# What the role of a cluster need not permit.
_OPTIONAL_READS = frozenset({"skus", "usages"})
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
        # Since when a NodeClaim has drifted or is being replaced and its machine is healthy, as far as that is known.
        self._due_since: dict[str, float] = {}
        self._unhealthy: set[str] = set()
        # Since when a Node takes no pods, by name.
        self._unusable_since: dict[str, float] = {}
        self._led_at = -math.inf
        self._calls: list[Call] = []
        self._checked_at = -math.inf

    @property
    def undisturbed_since(self) -> float:
        """Since when controllers lead and no request of theirs failed; infinite if none leads."""
        return self._undisturbed_since if self._time() - self._led_at <= LEADING_SECONDS else math.inf

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
        for one in failed:
            concerned = self._refused(one)
            self._idle_since |= dict.fromkeys(concerned, now)
            if not concerned:
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

    def claim_changed(self, claim: Json, before: Json | None, *, gone: bool) -> None:
        """A NodeClaim was created, changed or deleted."""
        uid, now = claim["metadata"]["uid"], self._time()
        if gone or before is None or _step(before) != _step(claim):
            self._idle_since[self._counted_in(claim)] = now
        if gone or not _is_due(claim):
            self._due_since.pop(uid, None)
            self._unhealthy.discard(uid)
        else:
            self._due_since.setdefault(uid, now)
        if gone:
            for known in (self._stated_at, self._not_bought_at):
                known.pop(uid, None)

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
            else:
                self._idle_since[uid] = now

    def _check_progress(self, uid: str, node_pool: Json, now: float) -> None:
        """Whether the NodePool has work and makes no progress, though nothing disturbs the controllers."""
        since = max(self._undisturbed_since, self._idle_since.get(uid, now))
        if now - since <= PROGRESS_SECONDS:
            return
        counted = {one: claim for one, claim in self._snapshot.claims.items() if self._counted_in(claim) == uid}
        if any(_is_under_way(one) for one in counted.values()) and now - since < CREATING_SECONDS:
            return
        claims = {one: claim for one, claim in counted.items() if owner_of(claim) == uid}
        found = self._due(uid, claims, since, now) or self._lacking(node_pool, claims, since, now)
        if found:
            self._idle_since[uid] = now
            self._violated("I21", f"NodePool {node_pool['metadata']['name']} {found}")

    def _counted_in(self, claim: Json) -> str:
        """The UID of the NodePool for whose pods the NodeClaim counts; "" for none.

        One that was restored from a backup without its owner has the label of the NodePool, and takes its pods.
        """
        name = claim["metadata"].get("labels", {}).get(labels.NODEPOOL, "")
        named = (uid for uid, one in self._node_pools.items() if one["metadata"]["name"] == name)
        return owner_of(claim) or next(named, "")

    # work

    def _lacking(self, node_pool: Json, claims: dict[str, Json], since: float, now: float) -> str:
        """What the NodePool has to buy and does not; "" for nothing."""
        replicas = self._snapshot.least_replicas(node_pool)
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
            if waited > PROGRESS_SECONDS and takes(node_pool, pod):
                return f"made no progress for {waited:.0f} s, and pod {pod['metadata']['name']} waits for it"
        return ""

    def _unusable(self, claims: dict[str, Json]) -> Iterator[float]:
        """Since when Nodes of these NodeClaims take no pods; each may take them soon without a purchase."""
        for name, since in self._unusable_since.items():
            if self._snapshot.claim_of_node(self._snapshot.nodes[name]) in claims:
                yield since

    def _due(self, node_pool: str, claims: dict[str, Json], since: float, now: float) -> str:
        """The machine that has drifted or is being replaced and that nothing is done about; "" if there is none.

        Whatever keeps it is stated on it or on its NodePool: budgets, pods, places that are lacking.
        """
        if now - since < REPLACING_SECONDS and any(_is_replaced(one) for one in claims.values()):
            return ""
        since = max(since, self._stated_at.get(node_pool, -math.inf))
        for uid, claim in claims.items():
            waited = now - max(since, self._stated_at.get(uid, -math.inf), self._due_since.get(uid, now))
            late = waited > PROGRESS_SECONDS
            if condition(claim, "Initialized") != "True" or not (late or uid in self._unhealthy):
                continue
            # Its health last: that looks at all Nodes and agent pools.
            if not self._snapshot.healthy(uid):
                self._due_since[uid] = now
                self._unhealthy.add(uid)
                continue
            self._unhealthy.discard(uid)
            if late:
                what = "is being replaced" if _is_replaced(claim) else "has drifted"
                return f"made no progress for {waited:.0f} s, and claim {claim['metadata']['name']} {what}"
        return ""

    def _refused(self, call: Call) -> set[str]:
        """The UIDs of the NodePools whose object a write was refused for; none if all may be concerned."""
        if call.status != FORBIDDEN or call.verb not in WRITES:
            return set()
        kind, name, _ = call.target
        nodes = {name} if kind == "nodes" else set[str]()
        if kind == "pods":
            nodes = {node_of(pod) for pod in self._pods.values() if pod["metadata"]["name"] == name}
        found = [node for one in nodes if (node := self._snapshot.nodes.get(one)) is not None]
        uids = {self._snapshot.claim_of_node(node) for node in found}
        claims = [
            claim
            for uid, claim in self._snapshot.claims.items()
            if uid in uids or (kind == "nodeclaims" and claim["metadata"]["name"] == name)
        ]
        pools = [
            uid for uid, one in self._node_pools.items() if kind == "nodepools" and one["metadata"]["name"] == name
        ]
        return {owner_of(claim) for claim in claims} | set(pools)


def _step(claim: Json) -> tuple[object, ...]:
    """What of a NodeClaim changes when its NodePool makes progress."""
    return deleting(claim), *(condition(claim, kind) for kind in _STEPS)


def _is_replaced(claim: Json) -> bool:
    """Whether a command to replace the machine of the NodeClaim has begun."""
    return condition(claim, "DisruptionReason") == "True"


def _is_due(claim: Json) -> bool:
    """Whether the machine of the NodeClaim has drifted, or is being replaced."""
    return condition(claim, "Drifted") == "True" or _is_replaced(claim)


def _is_under_way(claim: Json) -> bool:
    """Whether the machine of the NodeClaim is being created or removed."""
    return condition(claim, "Initialized") not in ("True", "False") or deleting(claim)


def _is_usable(node: Json) -> bool:
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return condition(node, "Ready") == "True" and not cordoned and not is_disrupted(node)


def _failed(call: Call) -> bool:
    """Whether a request had no response, or one that another attempt may not have."""
    status = call.status or 0
    if status == FORBIDDEN and call.target.kind in _OPTIONAL_READS:
        return False
    return status == 0 or status in (401, 403, 408, 429) or status >= 500


def _shape(pod: Json) -> Json:
    return {key: value for key, value in pod["spec"].items() if key != "nodeName"}
