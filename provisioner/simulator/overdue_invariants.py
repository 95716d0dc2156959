"""Checks that a controller ends what nobody needs any more, in time: machines cost money for as long as they exist.

I23: a machine of a dynamic NodePool that no pod uses is deleted `IDLE_SECONDS` after its `consolidateAfter`, and a
static NodePool has no more NodeClaims than replicas for so long. I27: the agent pool of a deleted NodeClaim without
pods begins to be deleted within `IDLE_SECONDS`, and a NodeClaim without an agent pool is requested from Azure, or
its condition states why not.

Only time counts in which controllers lead and their requests succeed. What is not certain is not reported.

Source: docs/references/rules.md#invariants.
"""

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from provisioner.api import labels

from .audit_log import Call
from .disruption_invariants import allowed, has_ended, is_of_daemon_set, node_of, owner_of
from .purchase_invariants import bought_for
from .snapshot import Snapshot, annotations_of, condition, conditions, deleting, duration_seconds, is_disrupted

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# A refused deletion is repeated ten minutes later.
IDLE_SECONDS = 1200.0
CHECK_SECONDS = 30.0
# A pod that waits for longer does so for something else than a machine that is there.
EXPECTED_SECONDS = 900.0
# What a NodeClaim states before a controller has decided anything about it.
_UNDECIDED = "AwaitingReconciliation"


class OverdueInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's; `now`: the wall clock.

    `undisturbed_since()`: since when controllers lead and their requests succeed; infinite if none leads.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        violated: Violated,
        *,
        time: Callable[[], float],
        now: Callable[[], datetime],
        undisturbed_since: Callable[[], float],
    ) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._now = now
        self._undisturbed_since = undisturbed_since
        self._node_pools: dict[str, Json] = {}
        # Pods that no DaemonSet owns: the Node of each, and since when one without a Node waits.
        self._places: dict[str, str] = {}
        self._waits_since: dict[str, float] = {}
        # Since when something is overdue, by what it is and the UID.
        self._since: dict[tuple[str, str], float] = {}
        self._refused_at = -math.inf
        # When the deletion of each pool was requested last, and the Nodes to which volumes are attached.
        self._requested_at: dict[str, float] = {}
        self._attached: dict[str, str] = {}
        self._writes: list[Call] = []
        self._with_crd: set[str] = set()
        self._checked_at = -math.inf

    # what changes

    def called(self, call: Call) -> None:
        """A controller sends a request: one of an earlier write that was refused is repeated later."""
        if any(one.status is not None and (one.status == 0 or one.status >= 400) for one in self._writes):
            self._refused_at = self._time()
        self._writes = [one for one in self._writes if one.status is None]
        if call.is_write and not call.is_bookkeeping:
            self._writes.append(call)
        if call.verb == "DELETE" and call.target.kind == "pools":
            self._requested_at[call.target.name] = self._time()
        self.check()

    def node_pool_changed(self, node_pool: Json, before: Json | None, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted."""
        uid = node_pool["metadata"]["uid"]
        if gone:
            self._node_pools.pop(uid, None)
        else:
            self._node_pools[uid] = node_pool
        if gone or before is None or before["spec"] != node_pool["spec"]:
            self._forget(lambda claim: owner_of(claim) == uid)
            self._since.pop(("surplus", uid), None)

    def crd_changed(self, crd: Json) -> None:
        """A CRD is being deleted, and all its objects with it: their machines are kept until a person confirms that."""
        if deleting(crd) and crd["metadata"]["name"].startswith("nodeclaims."):
            self._with_crd |= {*self._snapshot.claims}

    def attachment_changed(self, attachment: Json, *, gone: bool) -> None:
        """A VolumeAttachment was created, changed or deleted."""
        if gone:
            self._attached.pop(attachment["metadata"]["name"], None)
        else:
            self._attached[attachment["metadata"]["name"]] = attachment["spec"]["nodeName"]

    def pod_changed(self, pod: Json, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid, over = pod["metadata"]["uid"], gone or has_ended(pod)
        place = "" if over else node_of(pod)
        if over or is_of_daemon_set(pod) or place:
            self._waits_since.pop(uid, None)
        else:
            self._waits_since.setdefault(uid, self._time())
        if is_of_daemon_set(pod):
            return
        if place:
            self._places[uid] = place
        else:
            self._places.pop(uid, None)

    def check(self) -> None:
        """Report what has not happened in time."""
        now = self._time()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        used = Counter(self._places.values())
        nodes: dict[str, list[Json]] = {}
        for node in self._snapshot.nodes.values():
            nodes.setdefault(self._snapshot.claim_of_node(node), []).append(node)
        pools = {self._snapshot.owner_of(pool): pool for pool in self._snapshot.pools.values()}
        awaited = any(now - since < EXPECTED_SECONDS for since in self._waits_since.values())
        attached = {*self._attached.values()}
        for uid, claim in self._snapshot.claims.items():
            own, name, pool = nodes.get(uid, []), claim["metadata"]["name"], pools.get(uid)
            occupied = any(used[node["metadata"]["name"]] for node in own)
            # Its pods may wait for something else than the machine; while they exist it is theirs.
            expected = awaited or not bought_for(claim).isdisjoint(self._waits_since)
            if self._lasts(not occupied and not expected and self._is_idle(claim, own), "unused", uid,
                           self._idle_seconds(claim)):  # fmt: skip
                self._violated("I23", f"no pod uses the machine of claim {name}, which is kept")
            held = (
                pool is None
                or pool.busy
                or self._snapshot.in_maintenance(pool)
                or now - self._requested_at.get(pool.name, -math.inf) < IDLE_SECONDS
                or any(node["metadata"]["name"] in attached for node in own)
            )
            if self._lasts(deleting(claim) and uid not in self._with_crd and not (occupied or held), "deleted", uid):
                self._violated("I27", f"claim {name} is deleted, and its machine is kept")
            reason = next((one.get("reason") for one in conditions(claim) if one["type"] == "Launched"), _UNDECIDED)
            if self._lasts(
                _is_ours(claim) and not deleting(claim) and pool is None and reason == _UNDECIDED, "requested", uid
            ):
                self._violated("I27", f"claim {name} has no agent pool, and nothing states why")
        for uid, node_pool in self._node_pools.items():
            if self._lasts(self._has_surplus(node_pool), "surplus", uid):
                self._violated("I23", f"NodePool {node_pool['metadata']['name']} has more NodeClaims than replicas")
        for key in [key for key in self._since if key[1] not in self._snapshot.claims and key[0] != "surplus"]:
            del self._since[key]

    # what is overdue

    def _lasts(self, holds: bool, what: str, uid: str, seconds: float = IDLE_SECONDS) -> bool:
        """Whether this holds for longer; once for each time."""
        now = self._time()
        if not holds:
            self._since.pop((what, uid), None)
            return False
        since = max(self._since.setdefault((what, uid), now), self._undisturbed_since(), self._refused_at)
        if now - since <= seconds:
            return False
        self._since[what, uid] = now
        return True

    def _is_idle(self, claim: Json, nodes: list[Json]) -> bool:
        """Whether the machine is to be removed because no pod uses it, and nothing keeps it."""
        node_pool = self._node_pools.get(owner_of(claim))
        if node_pool is None or len(nodes) != 1 or deleting(claim) or not self._is_usable(node_pool):
            return False
        (node,) = nodes
        kept = any(annotations_of(one).get(labels.DO_NOT_DISRUPT) == "true" for one in (claim, node))
        replaced = annotations_of(claim).get(labels.REPLACES, "").split(",")
        moving = is_disrupted(node) or not self._snapshot.claims.keys().isdisjoint(replaced)
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        dynamic = "replicas" not in node_pool["spec"] and math.isfinite(self._idle_seconds(claim))
        if not dynamic or kept or moving or cordoned or condition(claim, "Initialized") != "True":
            return False
        return self._budget_left(node_pool) and self._snapshot.healthy(claim["metadata"]["uid"])

    def _idle_seconds(self, claim: Json) -> float:
        """For how long a machine of the NodePool may be unused; infinite if its machines are kept."""
        disruption = (self._node_pools.get(owner_of(claim)) or {"spec": {}})["spec"].get("disruption") or {}
        after = duration_seconds(disruption.get("consolidateAfter", "0s"))
        return math.inf if after is None else after + IDLE_SECONDS

    def _budget_left(self, node_pool: Json) -> bool:
        own = [one for one in self._snapshot.claims.values() if owner_of(one) == node_pool["metadata"]["uid"]]
        going = sum(deleting(one) or condition(one, "DisruptionReason") == "True" for one in own)
        machines = sum(condition(one, "Initialized") in ("True", "False") for one in own)
        return allowed(node_pool, "Empty", machines, self._now()) > going

    def _has_surplus(self, node_pool: Json) -> bool:
        replicas, uid = node_pool["spec"].get("replicas"), node_pool["metadata"]["uid"]
        if replicas is None or not self._is_usable(node_pool):
            return False
        own = [one for one in self._snapshot.claims.values() if owner_of(one) == uid and not deleting(one)]
        return bool(sum(condition(one, "DisruptionReason") != "True" for one in own) > replicas)

    def _is_usable(self, node_pool: Json) -> bool:
        return not deleting(node_pool) and condition(node_pool, "Ready") == "True"

    def _forget(self, which: Callable[[Json], bool]) -> None:
        for uid, claim in self._snapshot.claims.items():
            if which(claim):
                self._since.pop(("unused", uid), None)


def _is_ours(claim: Json) -> bool:
    """Whether the NodeClaim has a node class of this controller."""
    group = (claim["spec"].get("nodeClassRef") or {}).get("group", "")
    return group in (labels.KAITO_NODECLASS_GROUP, labels.OWN_DOMAIN)
