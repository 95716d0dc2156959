"""Checks that a controller obeys what users state in a NodePool: when machines may go, how many, and of which kind.

It counts from the objects, independently of the controller. A controller reads caches: what a NodePool stated in the
last seconds is permitted too.

Source: docs/references/rules.md#invariants, https://karpenter.sh/docs/concepts/nodepools/,
https://karpenter.sh/docs/concepts/disruption/.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from provisioner.api import labels

from .azure import sizes
from .azure.agentpool import Pool
from .disruption_invariants import CACHE_SECONDS, forget_old, has_ended, is_of_daemon_set, node_of, owner_of
from .scheduling.requests import Amounts, amounts
from .snapshot import Snapshot, annotations_of, condition, conditions, deleting, duration_seconds

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# The policies by which a machine that pods use may be removed for its price.
_OF_USED_MACHINES = frozenset({"WhenEmptyOrUnderutilized", "Balanced"})


class NodePoolInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's; `now`: the wall clock."""

    def __init__(
        self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._now = now
        # The last specs of each NodePool, each with the time from which it holds.
        self._versions: dict[str, deque[tuple[float, Json]]] = {}
        self._names: dict[str, str] = {}
        # The Node of each pod that no DaemonSet owns, and when one was bound to a Node or left it.
        self._places: dict[str, str] = {}
        self._quiet_since: dict[str, datetime] = {}
        # Since when a NodeClaim has been Initialized: the condition has the time of a clock that may be wrong.
        self._initialized_since: dict[str, datetime] = {}
        # Since when a NodeClaim must not be disrupted, and since when controllers may not know it.
        self._kept_since: dict[str, float] = {}
        self._known_since: dict[str, float] = {}
        self._begun: set[str] = set()

    # what changes

    def node_pool_changed(self, node_pool: Json, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted."""
        uid = node_pool["metadata"]["uid"]
        if gone:
            self._versions.pop(uid, None)
            return
        self._names[uid] = node_pool["metadata"]["name"]
        versions = self._versions.setdefault(uid, deque())
        if not versions or versions[-1][1] != node_pool["spec"]:
            versions.append((self._time(), node_pool["spec"]))

    def pod_changed(self, pod: Json, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid, place = pod["metadata"]["uid"], "" if gone or has_ended(pod) else node_of(pod)
        if is_of_daemon_set(pod) or self._places.get(uid, "") == place:
            return
        for node in {self._places.pop(uid, ""), place} - {""}:
            self._quiet_since[node] = self._now()
        if place:
            self._places[uid] = place

    def claim_changed(self, claim: Json, before: Json | None, *, gone: bool, controller: bool) -> None:
        """A NodeClaim was created, changed or deleted; `controller`: by a controller. Call it before `gone` is seen."""
        uid, leaves = claim["metadata"]["uid"], gone or deleting(claim)
        if before is None:
            # Of its own, controllers know at once.
            self._known_since[uid] = -math.inf if controller else self._time()
            if controller:
                self._check_purchase(claim)
        if annotations_of(claim).get(labels.DO_NOT_DISRUPT) == "true":
            self._kept_since.setdefault(uid, self._time())
        else:
            self._kept_since.pop(uid, None)
        if condition(claim, "Initialized") == "True":
            self._initialized_since.setdefault(uid, self._now())
        else:
            self._initialized_since.pop(uid, None)
        reason = _reason(claim)
        if reason and not leaves and controller and uid not in self._begun:
            self._check_disruption(claim, [reason])
        if controller and leaves and before is not None and not deleting(before) and uid not in self._begun:
            self._deleted(claim, before)
        if reason and not leaves:
            self._begun.add(uid)
        else:
            self._begun.discard(uid)
        if gone:
            for times in (self._known_since, self._kept_since, self._initialized_since):
                times.pop(uid, None)

    def pool_created(self, pool: Pool, uid: str) -> None:
        """I26: a controller has created this agent pool for the NodeClaim."""
        claim = self._snapshot.claims.get(uid)
        if claim is None:
            return
        stated = _required(claim["spec"].get("requirements"))
        kind = "spot" if pool.priority == "Spot" else "on-demand"
        found = {labels.INSTANCE_TYPE: pool.size, labels.CAPACITY_TYPE: kind}
        for key, value in found.items():
            permitted = stated.get(key, {"on-demand"} if key == labels.CAPACITY_TYPE else {value})
            if value.lower() not in _lower(permitted):
                words = f"agent pool {pool.name} of claim {claim['metadata']['name']} was created with {key} {value}"
                self._violated("I26", f"{words}, and not one of {', '.join(sorted(permitted))}")

    # I24

    def _deleted(self, claim: Json, before: Json) -> None:
        uid, snapshot = claim["metadata"]["uid"], self._snapshot
        versions = self._specs(claim)
        forced = snapshot.is_requested(uid) or snapshot.is_surplus(uid) or self._has_expired(claim)
        if not versions or "replicas" in versions[-1] or forced or not snapshot.healthy(uid):
            return
        reasons = ["Empty"] if snapshot.is_empty(uid) else ["Underutilized"]
        self._check_disruption(claim, [*reasons, *(["Drifted"] if condition(before, "Drifted") == "True" else ())])

    def _check_disruption(self, claim: Json, reasons: list[str]) -> None:
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        if self._kept_since.get(uid, self._time()) < self._time() - CACHE_SECONDS:
            self._violated("I24", f"claim {name} is disrupted ({' or '.join(reasons)}), and is not to be disrupted")
        versions = self._specs(claim)
        if not versions or any(one not in ("Empty", "Underutilized") for one in reasons):
            return
        quiet = self._quiet_seconds(claim)
        gpus = any(size.gpus for size in self._sizes(claim))
        if not any(_permits(spec, one, quiet + CACHE_SECONDS, gpus=gpus) for spec in versions for one in reasons):
            pool, disruption = self._names[owner_of(claim)], versions[-1].get("disruption")
            words = f"claim {name} is disrupted ({' or '.join(reasons)}), which pods left {quiet:.0f} s ago"
            self._violated("I24", f"{words}, and NodePool {pool} has {disruption}")

    def _specs(self, claim: Json) -> list[Json]:
        """Those of its NodePool that controllers may have in their caches, the newest last."""
        versions = self._versions.get(owner_of(claim), deque())
        forget_old(versions, self._time())
        return [spec for _, spec in versions]

    def _quiet_seconds(self, claim: Json) -> float:
        """Since the machine was initialized, and a pod was bound to its Node or left it."""
        uid = claim["metadata"]["uid"]
        times = [
            min(datetime.fromisoformat(one["lastTransitionTime"]), self._initialized_since.get(uid, self._now()))
            for one in conditions(claim)
            if (one["type"], one["status"]) == ("Initialized", "True")
        ]
        nodes = (name for name, node in self._snapshot.nodes.items() if self._snapshot.claim_of_node(node) == uid)
        times += [self._quiet_since[name] for name in nodes if name in self._quiet_since]
        return (self._now() - max(times)).total_seconds() if times else 0.0

    def _has_expired(self, claim: Json) -> bool:
        after = duration_seconds(claim["spec"].get("expireAfter", ""))
        created = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
        return after is not None and (self._now() - created).total_seconds() >= after

    # I25, I26

    def _check_purchase(self, claim: Json) -> None:
        versions, uid = self._specs(claim), claim["metadata"]["uid"]
        if not versions:
            return
        mine = [
            one
            for one in self._snapshot.claims.values()
            if owner_of(one) == owner_of(claim) and self._counts(one) and one["metadata"]["uid"] != uid
        ]
        used = _total([self._least(one) for one in (*mine, claim)])
        over = [_exceeded(used, spec.get("limits")) for spec in versions]
        if all(over):
            words = f"claim {claim['metadata']['name']} is number {len(mine) + 1} of NodePool"
            self._violated("I25", f"{words} {self._names[owner_of(claim)]}, above its limit on {over[-1]}")
        stated = _required(claim["spec"].get("requirements"))
        for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE):
            permitted = [_required(spec["template"]["spec"].get("requirements")).get(key) for spec in versions]
            listed = _lower(stated.get(key, ()))
            if None not in permitted and not any(listed <= _lower(one) for one in permitted if one):
                self._violated("I26", f"claim {claim['metadata']['name']} has {key} {sorted(stated.get(key, ()))}, "
                               f"which NodePool {self._names[owner_of(claim)]} does not allow")  # fmt: skip

    def _counts(self, claim: Json) -> bool:
        """Whether the NodeClaim surely uses the limits: it is not replaced or deleted, and a controller has seen it."""
        uid = claim["metadata"]["uid"]
        known = self._known_since[uid] < self._time() - CACHE_SECONDS
        return known and not deleting(claim) and not _reason(claim) and not self._snapshot.replacements(uid)

    def _sizes(self, claim: Json) -> list[sizes.Size]:
        named = _required(claim["spec"].get("requirements")).get(labels.INSTANCE_TYPE, ())
        return [one for one in map(sizes.find, named) if one is not None]

    def _least(self, claim: Json) -> Amounts:
        """What a machine of the NodeClaim has at least."""
        found = self._sizes(claim)
        return {
            "nodes": Decimal(1),
            "cpu": Decimal(min((one.vcpus for one in found), default=0)),
            "nvidia.com/gpu": Decimal(min((one.gpus for one in found), default=0)),
        }


def _reason(claim: Json) -> str:
    """Why a command disrupts the machine, "" if none does."""
    found = (one for one in conditions(claim) if (one["type"], one["status"]) == ("DisruptionReason", "True"))
    return next((str(one["reason"]) for one in found), "")


def _permits(spec: Json, reason: str, quiet_seconds: float, *, gpus: bool) -> bool:
    """Whether a machine may be removed for this reason, which pods have neither taken nor left for so long."""
    disruption = spec.get("disruption") or {}
    after, policy = disruption.get("consolidateAfter", "0s"), disruption.get("consolidationPolicy")
    seconds = duration_seconds(after)
    if seconds is None or quiet_seconds < seconds:
        return False
    return reason == "Empty" or policy in _OF_USED_MACHINES or (policy is None and not gpus)


def _required(requirements: Iterable[Json] | None) -> dict[str, set[str]]:
    """The values that `In` lists, by key."""
    found = dict[str, set[str]]()
    for one in requirements or ():
        if one["operator"] == "In":
            values = {*one["values"]}
            found[one["key"]] = found.get(one["key"], values) & values
    return found


def _lower(values: Iterable[str]) -> set[str]:
    """Azure's names of sizes are the same in whatever case."""
    return {one.lower() for one in values}


def _total(parts: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Decimal(0)) + amount
    return found


def _exceeded(used: Amounts, limits: Json | None) -> str:
    """A resource of which more is used than the limit, "" if there is none."""
    most = amounts(limits)
    return next((name for name, amount in used.items() if name in most and amount > most[name]), "")
