"""Checks the removals that a controller infers: from deleted Nodes, from claims that are deleted with their CRD, and
from unhealthy Nodes.

A removal counts as inferred if nobody deleted the claim: a user or the cluster deleted its Node only. What a user has
confirmed on the Lease is not restricted. A repair replaces a machine whose Node was usable and is faulty, or one that
never became usable.

Source: docs/references/rules.md#invariants, docs/references/rules.md#circuit-breaker.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from provisioner.api import labels

from .audit_log import CURRENT_CALL, Call
from .snapshot import (
    Snapshot,
    annotations_of,
    condition,
    deleting,
    has_no_gpus,
    is_expired,
    labels_of,
    lacks_gpus,
    owner_name,
)

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# How many inferred removals one process may make within so many seconds, of so many claims.
MOST_REMOVALS, MOST_SHARE, WINDOW_SECONDS = 3, 0.2, 600.0
CONFIRMED_SECONDS = 3600.0
# How many machines are repaired at the same time, of so many usable ones, while the removals take no longer than this.
MOST_REPAIRS, REPAIRS_SHARE, REPAIR_SECONDS = 1, 0.2, 300.0
# How many machines that never became usable are replaced in a row.
MOST_IN_A_ROW = 2
CRDS = frozenset({"nodeclaims.karpenter.sh", "nodepools.karpenter.sh"})
# Whose machines, their size and node image, and how they failed.
Row = tuple[str, str, str, str]


class InferenceInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._confirmed_at = float("-inf")
        # The CRDs that are being deleted, and the claims that were deleted with them, by UID.
        self._crds: set[str] = set()
        self._with_crd: set[str] = set()
        # The Nodes that Kubernetes' garbage collector deletes, because no claim owns them, by UID.
        self._collected: set[str] = set()
        self._removals: dict[str, deque[float]] = {}
        # When the claims of faulty machines were deleted, by UID.
        self._repairs: dict[str, float] = {}
        # How many machines in a row failed alike, never became usable and were replaced.
        self._rows: dict[Row, int] = {}

    def crd_changed(self, crd: Json, *, gone: bool) -> None:
        """A CRD was created, changed or deleted."""
        name = crd["metadata"]["name"]
        if not gone and deleting(crd) and name in CRDS:
            self._crds.add(name)
        else:
            self._crds.discard(name)

    def lease_changed(self, lease: Json) -> None:
        """A Lease was created or changed."""
        if labels.CONFIRMED_REMOVALS in annotations_of(lease):
            self._confirmed_at = self._time()

    def node_changed(self, node: Json, before: Json | None, call: Call | None) -> None:
        """A Node was created, changed or deleted; `call`: by this request of a controller.

        I31: a controller began to delete the Node of a claim that was deleted with its CRD.
        """
        if not deleting(node) or before is None or deleting(before):
            return
        if call is not None:
            self._check_crd(self._snapshot.claim_of_node(node))
        if CURRENT_CALL.get() is not None:
            return
        owners = {one["uid"] for one in node["metadata"].get("ownerReferences") or () if one["kind"] == "NodeClaim"}
        if owners and not owners & set(self._snapshot.claims):
            self._collected.add(node["metadata"]["uid"])

    def claim_changed(self, claim: Json, before: Json | None, call: Call | None) -> None:
        """A claim was created, changed or deleted; `call`: by this request of a controller.

        I31: a controller began to delete it because of its Node, beyond the limit or though a collector deletes that.
        I32: it began to delete it because its Node is faulty, beyond the limit.
        I34: because its machine never became usable, like others before it.
        """
        if condition(claim, "Initialized") == "True" != condition(before, "Initialized"):
            self._worked(claim)
        if before is None or deleting(before) or not deleting(claim):
            return
        if CURRENT_CALL.get() is None and self._crds:
            self._with_crd.add(claim["metadata"]["uid"])
        if call is None or self._is_confirmed() or not self._is_unasked(claim, before):
            return
        uid, inferred = claim["metadata"]["uid"], self._is_inferred(claim)
        if condition(before, "Initialized") != "True" and not inferred and not self._snapshot.healthy(uid):
            self._check_row(call, claim)
        if self._snapshot.is_empty(uid):
            return
        if self._is_repair(claim) and not self._snapshot.healthy(uid):
            self._check_repairs(call, claim)
        if inferred:
            self._check_removals(call, claim)

    def _check_repairs(self, call: Call, claim: Json) -> None:
        """I32: a controller began to delete the claim of a faulty machine."""
        now = self._time()
        usable = [node for node in self._snapshot.nodes.values() if labels.INITIALIZED in labels_of(node)]
        self._repairs = {
            uid: at for uid, at in self._repairs.items() if uid in self._snapshot.claims and now - at < REPAIR_SECONDS
        }
        self._repairs[claim["metadata"]["uid"]] = now
        if (count := len(self._repairs)) > max(MOST_REPAIRS, int(REPAIRS_SHARE * len(usable))):
            name = claim["metadata"]["name"]
            self._violated("I32", f"{call.who} repairs claim {name}, with {count - 1} others of {len(usable)}")

    def _check_row(self, call: Call, claim: Json) -> None:
        """I34: a controller began to delete the claim of a machine that never became usable."""
        row = self._row(claim)
        self._rows[row] = self._rows.get(row, 0) + 1
        if self._rows[row] > MOST_IN_A_ROW:
            name, (_, size, image, how) = claim["metadata"]["name"], row
            words = f"the {self._rows[row]}th machine {size} in a row with image {image} that was never usable ({how})"
            self._violated("I34", f"{call.who} deleted claim {name}, {words}")

    def _worked(self, claim: Json) -> None:
        """A machine became usable: the row of its owner ends, and those of machines without an owner."""
        ended = {"", owner_name(claim)}
        self._rows = {row: count for row, count in self._rows.items() if row[0] not in ended}

    def _row(self, claim: Json) -> Row:
        pool = next((one for one in self._snapshot.pools.values() if self._snapshot.belongs(one, claim)), None)
        node = next(iter(self._nodes(claim)), None)
        if pool is None or node is None:
            return owner_name(claim), pool.size if pool is not None else "", "", "no Node"
        parts = {
            "not registered": labels.REGISTERED not in labels_of(node),
            "not Ready": condition(node, "Ready") != "True",
            "without its GPUs": has_no_gpus(node, pool) and lacks_gpus(node, pool),
            "with some of its GPUs": not has_no_gpus(node, pool) and lacks_gpus(node, pool),
        }
        how = ", ".join(part for part, holds in parts.items() if holds) or "not Initialized"
        return owner_name(claim), pool.size, labels_of(node).get(labels.AKS_IMAGE_VERSION, ""), how

    def _check_removals(self, call: Call, claim: Json) -> None:
        name = claim["metadata"]["name"]
        nodes = self._nodes(claim)
        if any(one["metadata"]["uid"] in self._collected and condition(one, "Ready") == "True" for one in nodes):
            self._violated("I31", f"{call.who} deleted claim {name}, whose Node no user deleted")
        removals, now = self._removals.setdefault(call.who, deque()), self._time()
        removals.append(now)
        while removals[0] < now - WINDOW_SECONDS:
            removals.popleft()
        if len(removals) > max(MOST_REMOVALS, int(MOST_SHARE * len(self._snapshot.claims))):
            self._violated("I31", f"{call.who} deleted claim {name}, the {len(removals)}th removal that it infers")

    def pool_deleted(self, uid: str) -> None:
        """I31: a controller began to delete the agent pool of this claim."""
        self._check_crd(uid)

    def _check_crd(self, uid: str) -> None:
        claim = self._snapshot.claims.get(uid)
        if claim is not None and uid in self._with_crd and not self._is_confirmed():
            self._violated(
                "I31", f"claim {claim['metadata']['name']} was deleted with its CRD, and its machine is removed"
            )

    def _is_confirmed(self) -> bool:
        return self._time() - self._confirmed_at < CONFIRMED_SECONDS

    def _is_unasked(self, claim: Json, before: Json) -> bool:
        """Whether neither a user nor a NodePool is a reason to delete the claim of a machine that Azure has."""
        snapshot, uid = self._snapshot, claim["metadata"]["uid"]
        requested = snapshot.is_requested(uid) or snapshot.is_surplus(uid) or is_expired(claim)
        disrupted = condition(before, "DisruptionReason") == "True" or snapshot.is_outdated(uid)
        allowed = labels.REPAIR in annotations_of(claim)
        pools = [pool for pool in snapshot.pools.values() if snapshot.belongs(pool, claim) and pool.priority != "Spot"]
        runs = any(pool.state == "Succeeded" and pool.count for pool in pools)
        return not requested and not disrupted and not allowed and runs

    def _nodes(self, claim: Json) -> list[Json]:
        uid = claim["metadata"]["uid"]
        return [node for node in self._snapshot.nodes.values() if self._snapshot.claim_of_node(node) == uid]

    def _is_inferred(self, claim: Json) -> bool:
        nodes = self._nodes(claim)
        return bool(nodes) and all(deleting(node) for node in nodes)

    def _is_repair(self, claim: Json) -> bool:
        nodes = self._nodes(claim)
        return bool(nodes) and all(labels.INITIALIZED in labels_of(one) and not deleting(one) for one in nodes)
