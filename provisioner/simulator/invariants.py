"""Checks the invariants after every write to the cluster and to Azure.

The checker subscribes to both, so that it also sees states that last no time. It attributes a change to a controller
only if the controller's own request made it; users may delete anything. A violation is kept with its time and the
preceding requests and changes.

    I1  every pool with the controller's mark has a live claim of that UID, or its deletion begins within the bound
    I2  a termination deletes the pool, then releases the Node's finalizer, which it has once it is registered, then
        the claim's
    I3  a claim's UID has at most one pool
    I4  no controller changes a pool or a Node that it does not own, nor evicts a Pod from such a Node
    I5  the system converges: see `World.settled`
    I6  no controller writes without holding the Lease, once there is one, for as long as the request may take
    I7  no controller deletes the pool, the Node or the claim of a live, healthy claim, unless its static NodePool has
        more claims than replicas, or no pod uses the machine of its NodePool, or its NodePool let it expire, or it is
        replaced or consolidated, or a TerminateNode requests another machine
    I10 no controller sends a write for the same pool again and again
    I11 no condition of a claim states its deadline twice
    I13 a controller buys no more machines than pods wait for
    I14 no disruption moves a pod with GPUs to another GPU model, unless the pod's own constraints list several
    I15 a controller disrupts no more machines of a NodePool at the same time than its budgets allow
    I16 a claim that is replaced is deleted only after its replacements were Initialized, that of a static NodePool only
        while they are Ready
    I17 at most two machines that become Ready are bought for one pod before it runs
    I18 no controller deletes a Ready machine whose GPUs the kubelet does not report as unhealthy while pods with GPUs
        run there, unless they are moved, a user requested or dated it, Azure has announced its eviction, or it was
        cordoned for them for a day
    I19 no pod that a voluntary command evicted is pending for longer than its restart takes
    I20 no cordon of a controller remains on a healthy machine
    I21 each NodePool with work makes progress, or an Event states why not for as long as it does not
    I22 the machine of a deleted claim is deleted after its pods, which are evicted in their order, unless protected
    I23 a machine of a NodePool that no pod uses, or that is more than `spec.replicas`, is removed in time
    I24 a machine is disrupted only when its NodePool permits it, and unless it is annotated not to be
    I25 no controller buys more than the limits of a NodePool permit
    I26 machines have a size and a capacity type that their claim and its NodePool state
    I27 the machine of a deleted claim begins to go in time, and a claim is requested from Azure in time
    I28 a controller creates a pool only where there is none, and deletes what it has read
    I29 a controller creates a pool only for a claim that has its finalizer, is not deleted, and is not to adopt the
        machine of another one
    I30 no controller's write is refused because of a write of its own whose answer it has
    I31 a controller infers few removals at the same time, and none from what Kubernetes deletes by itself
    I32 a controller repairs few machines at the same time
    I33 what Azure has no capacity for is requested again later each time, and for one claim at a time
    I34 a controller replaces few machines in a row that never become usable

I6 is in `lease_invariants`, I10, I28 to I30 and a part of I2 in
`request_invariants`, I13 and I17 in `purchase_invariants`, I14 to
I16 in `disruption_invariants`, I18 and I20 in `gate_invariants`, I19 in `successor_invariants`, I21 in
`progress_invariants`, I22 in `drain_invariants`, I23 and I27 in `overdue_invariants`, I24 to I26 in
`node_pool_invariants`, I31, I32 and I34 in `inference_invariants`, I33 in `offering_invariants`.

Source: docs/references/rules.md#invariants.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .audit_log import CURRENT_CALL, AuditLog, Call, current_write
from .azure.agentpool import Pool
from .azure.cloud import AzureCloud
from .disruption_invariants import DisruptionInvariants
from .drain_invariants import DrainInvariants
from .gate_invariants import GateInvariants
from .inference_invariants import InferenceInvariants
from .kube.store import Store
from .lease_invariants import LeaseInvariants
from .node_pool_invariants import NodePoolInvariants
from .offering_invariants import OfferingInvariants
from .overdue_invariants import OverdueInvariants
from .progress_invariants import ProgressInvariants
from .purchase_invariants import PurchaseInvariants
from .request_invariants import RequestInvariants
from .snapshot import (
    Snapshot,
    condition,
    deleting,
    has_finalizer,
    is_disrupted,
    is_expired,
    pool_mark,
    pool_stamp,
)
from .successor_invariants import SuccessorInvariants

Json = dict[str, Any]

GC_BOUND_SECONDS = 20 * 60.0
LOG_LINES = 60


class InvariantError(AssertionError):
    """At least one invariant was violated; the message has the preceding requests and changes."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`invariant`: one of those above; `at`: seconds of the loop; `log`: the preceding requests and changes."""

    invariant: str
    at: float
    what: str
    log: str

    def __str__(self) -> str:
        return f"{self.invariant} violated at {self.at:.3f} s: {self.what}"


class Invariants:
    """`controllers`: the callers that are checked; `time`: the loop's; `now`: the wall clock of the world.

    `gc_bound_seconds`: how long a pool may exist without a claim before its deletion begins (I1). `delayed(call)`:
    whether the network may have held this request back (I6).
    """

    def __init__(
        self,
        store: Store,
        cloud: AzureCloud,
        audit_log: AuditLog,
        time: Callable[[], float],
        now: Callable[[], datetime],
        *,
        gc_bound_seconds: float = GC_BOUND_SECONDS,
        delayed: Callable[[Call], bool] = lambda _: False,
    ) -> None:
        self.controllers: dict[str, None] = {}
        self.violations: list[Violation] = []
        self.gc_bound_seconds = gc_bound_seconds
        self._audit_log = audit_log
        self._time = time
        self._snapshot = Snapshot(lambda: (cloud.cluster_power, cloud.cluster_state) == ("Running", "Succeeded"), now)
        self._disruption = DisruptionInvariants(self._snapshot, self._violated, time=time, now=now)
        self._drain = DrainInvariants(self._snapshot, self._violated, time=time, now=now)
        self._gate = GateInvariants(self._snapshot, self._violated, now=now)
        self._inference = InferenceInvariants(self._snapshot, self._violated, time=time)
        self._leases = LeaseInvariants(self._violated, time=time, controllers=self.controllers, delayed=delayed)
        self._offerings = OfferingInvariants(self._snapshot, self._violated, time=time)
        self._requests = RequestInvariants(self._snapshot, self._violated, time=time)
        self._purchases = PurchaseInvariants(self._snapshot, self._violated, time=time)
        self._progress = ProgressInvariants(self._snapshot, self._violated, time=time)
        self._successors = SuccessorInvariants(self._snapshot, self._violated, time=time)
        self._stated = NodePoolInvariants(self._snapshot, self._violated, time=time, now=now)
        self._overdue = OverdueInvariants(
            self._snapshot,
            self._violated,
            time=time,
            now=now,
            undisturbed_since=lambda: self._progress.undisturbed_since,
        )
        self._orphan_since: dict[str, float] = {}
        store.subscribe(self._on_store)
        cloud.subscribe(self._on_cloud)

    def raise_if_violated(self) -> None:
        """Raise InvariantError with all violations so far, and what preceded the first one."""
        self._check_orphans()
        self._progress.check()
        self._successors.check()
        self._overdue.check()
        if self.violations:
            violations = "\n".join(str(violation) for violation in self.violations)
            raise InvariantError(
                f"{violations}\n\nRequests and changes before the first one:\n{self.violations[0].log}"
            )

    def claim_of_node(self, name: str) -> str:
        """The UID of the claim whose machine this Node is; "" if there is none."""
        node = self._snapshot.nodes.get(name)
        return self._snapshot.claim_of_node(node) if node is not None else ""

    def check_quiescent(self) -> None:
        """I1 without the bound: no pool with the controller's mark lacks a live claim. No taint is left (I5).

        Raises InvariantError.
        """
        for pool in self._snapshot.pools.values():
            if (uid := self._snapshot.owner_of(pool)) and uid not in self._snapshot.claims:
                self._violated("I1", f"after convergence, pool {pool.name} ({pool.state}) of claim {uid} remains")
        for name, node in self._snapshot.nodes.items():
            claim = self._snapshot.claims.get(self._snapshot.claim_of_node(node))
            if claim is not None and not deleting(claim) and is_disrupted(node) and not self._is_marked(claim):
                self._violated("I5", f"after convergence, Node {name} has the taint of a removal that does not happen")
        self._gate.check_quiescent()
        self.raise_if_violated()

    def _is_marked(self, claim: Json) -> bool:
        return condition(claim, "DisruptionReason") == "True"

    def on_call(self, call: Call, headers: Mapping[str, str]) -> None:
        """Check a request before it is served."""
        if call.who not in self.controllers:
            return
        self._overdue.called(call)
        self._progress.called(call)
        self._requests.called(call)
        self._successors.check()
        if call.is_write and not call.is_bookkeeping:
            self._requests.arrived(call, headers)
            self._leases.written(call)

    def on_answer(self, call: Call, status: int, body: bytes, delivered: Callable[[], bool]) -> None:
        """Check a request that was served with this body."""
        if call.who in self.controllers and call.is_write and not call.is_bookkeeping:
            self._requests.answered(call, status, body, delivered)

    # the cluster

    def _on_store(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        kind = resource.partition(".")[0]
        gone = event == "DELETED"
        if kind in ("nodes", "nodeclaims"):
            self._requests.object_changed(kind, obj, gone=gone)
        if kind == "nodeclaims":
            self._on_claim(obj, before, gone=gone)
        elif kind == "nodes":
            self._on_node(obj, before, gone=gone)
        elif kind == "pods":
            by_controller = self._on_pod(obj)
            self._progress.pod_changed(obj, before, gone=gone)
            self._successors.pod_changed(obj, before, gone=gone, controller=by_controller)
            self._snapshot.set_pod(obj, gone=gone)
            self._disruption.pod_changed(obj, gone=gone)
            self._drain.pod_changed(obj, gone=gone, controller=by_controller)
            self._gate.pod_changed(obj, gone=gone)
            self._purchases.pod_changed(obj, gone=gone)
            self._stated.pod_changed(obj, gone=gone)
            self._overdue.pod_changed(obj, gone=gone)
        elif kind == "nodepools":
            self._snapshot.set_replicas(obj, gone=gone)
            self._disruption.node_pool_changed(obj, gone=gone)
            self._purchases.node_pool_changed(obj, gone=gone)
            self._progress.node_pool_changed(obj, before, gone=gone)
            self._stated.node_pool_changed(obj, gone=gone)
            self._overdue.node_pool_changed(obj, before, gone=gone)
        elif kind == "agentpoolnodeclasses":
            self._snapshot.set_node_class(obj, gone=gone)
            self._purchases.node_class_changed(obj, before)
        elif kind == "customresourcedefinitions":
            self._overdue.crd_changed(obj)
            self._inference.crd_changed(obj, gone=gone)
        elif kind == "terminatenodes" and before is None:
            self._snapshot.request_created(obj)
        elif kind == "volumeattachments":
            self._drain.attachment_changed(obj, gone=gone)
            self._overdue.attachment_changed(obj, gone=gone)
        elif kind == "events" and not gone:
            self._progress.event_recorded(obj)
        elif kind == "leases":
            self._leases.lease_changed(obj, before, gone=gone)
            self._inference.lease_changed(obj)
        # Only claims and pools make an orphan; one that exists ages.
        if kind == "nodeclaims" or self._orphan_since:
            self._check_orphans()

    def _on_claim(self, claim: Json, before: Json | None, *, gone: bool) -> None:
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        call = self._by_controller("claim", name)
        if (
            call
            and before is not None
            and not deleting(before)
            and (gone or deleting(claim))
            and self._snapshot.healthy(uid)
            and not self._snapshot.is_surplus(uid)
            and not self._snapshot.is_empty(uid)
            and not self._snapshot.is_requested(uid)
            and not self._is_disrupted(claim)
            and not is_expired(claim)
        ):
            self._violated("I7", f"{call.who} deleted claim {name}, which is healthy")
        if call and before is not None and not deleting(before) and (gone or deleting(claim)):
            self._gate.claim_deleted(claim, before)
            self._successors.claim_deleted(claim)
        self._inference.claim_changed(claim, before, call)
        self._progress.claim_changed(claim, before, gone=gone)
        self._check_messages(claim)
        by_controller = call is not None or (before is None and self._is_created_by_controller())
        self._stated.claim_changed(claim, before, gone=gone, controller=by_controller)
        self._disruption.claim_changed(claim, before, gone=gone, controller=by_controller)
        self._purchases.claim_changed(claim, before, gone=gone, controller=by_controller)
        if call and has_finalizer(before) and not has_finalizer(claim):
            self._check_claim_release(claim)
        if call and condition(claim, "Registered") == "True" != condition(before, "Registered"):
            self._check_registration(claim)
        if before is None:
            self._audit_log.change(self._time(), "claim", name, "created", uid=uid)
        elif deleting(claim) and not deleting(before):
            self._audit_log.change(self._time(), "claim", name, "deleting", uid=uid)
        if gone:
            self._snapshot.claims.pop(uid, None)
            self._audit_log.change(self._time(), "claim", name, "gone", uid=uid)
        else:
            self._snapshot.claims[uid] = claim

    def _check_messages(self, claim: Json) -> None:
        for one in (claim.get("status") or {}).get("conditions") or ():
            if one.get("message", "").count("; overdue: ") > 1:
                name, kind = claim["metadata"]["name"], one["type"]
                self._violated("I11", f"{kind} of claim {name} states its deadline repeatedly: {one['message']}")

    def _is_disrupted(self, claim: Json) -> bool:
        """Whether a controller may delete this claim, because others replace it or its pods fit elsewhere."""
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        new = self._snapshot.replacements(uid)
        waiting = [one["metadata"]["name"] for one in new if condition(one, "Initialized") != "True"]
        if waiting:
            self._violated("I16", f"claim {name} was deleted before its replacement {waiting[0]} was Initialized")
        return bool(new) or self._snapshot.is_outdated(uid)

    def _check_claim_release(self, claim: Json) -> None:
        name = claim["metadata"]["name"]
        self._requests.claim_released(claim)
        if pools := [pool.name for pool in self._snapshot.pools.values() if self._snapshot.belongs(pool, claim)]:
            self._violated("I2", f"claim {name} was released while its pool {pools[0]} exists")
        nodes = [
            node
            for node, obj in self._snapshot.nodes.items()
            if self._snapshot.claim_of_node(obj) == claim["metadata"]["uid"]
        ]
        if nodes:
            self._violated("I2", f"claim {name} was released while its Node {nodes[0]} exists")

    def _check_registration(self, claim: Json) -> None:
        for name, node in self._snapshot.nodes.items():
            if self._snapshot.claim_of_node(node) == claim["metadata"]["uid"] and not has_finalizer(node):
                self._violated(
                    "I2", f"claim {claim['metadata']['name']} is Registered, and Node {name} has no finalizer"
                )

    def _on_node(self, node: Json, before: Json | None, *, gone: bool) -> None:
        name = node["metadata"]["name"]
        uid = self._snapshot.claim_of_node(before or node)
        call = self._by_controller("node", name)
        if call and before is not None:
            if not self._snapshot.is_ours(before):
                self._violated("I4", f"{call.who} changed Node {name}, which is not ours")
            if not deleting(before) and (gone or deleting(node)) and self._snapshot.healthy(uid):
                self._violated("I7", f"{call.who} deleted Node {name} of a healthy claim")
            if has_finalizer(before) and not has_finalizer(node):
                self._check_node_release(before)
        self._drain.node_changed(node, before, gone=gone)
        self._inference.node_changed(node, before, call)
        if before is None:
            self._offerings.node_created()
        self._purchases.node_changed(node, gone=gone)
        self._progress.node_changed(node, gone=gone)
        self._successors.node_changed(node, before, gone=gone)
        if before is None:
            self._audit_log.change(self._time(), "node", name, "created", uid=uid)
        elif deleting(node) and not deleting(before):
            self._audit_log.change(self._time(), "node", name, "deleting", uid=uid)
        if gone:
            self._snapshot.nodes.pop(name, None)
            self._audit_log.change(self._time(), "node", name, "gone", uid=uid)
        else:
            self._snapshot.nodes[name] = node

    def _check_node_release(self, node: Json) -> None:
        name, pool = node["metadata"]["name"], self._snapshot.pool_of_node(node)
        if pool is None:
            return
        claim = self._snapshot.claims.get(self._snapshot.claim_of_node(node))
        # During maintenance, or if its machine is outlived, the finalizer of a live claim's Node is removed and the
        # pool is kept.
        kept = self._snapshot.in_maintenance(pool) or self._snapshot.is_outlived(node, pool)
        allowed = claim is not None and not deleting(claim) and kept
        if not allowed:
            self._violated("I2", f"Node {name} was released while its pool {pool.name} ({pool.state}) exists")

    def _on_pod(self, pod: Json) -> bool:
        """Check a change of a pod; whether a controller made it."""
        name, node = pod["metadata"]["name"], self._snapshot.nodes.get((pod.get("spec") or {}).get("nodeName", ""))
        call = self._by_controller("pod", name)
        if call and node is not None and not self._snapshot.is_ours(node):
            self._violated(
                "I4", f"{call.who} evicted Pod {name} from Node {node['metadata']['name']}, which is not ours"
            )
        return call is not None

    # the cloud

    def _on_cloud(self, event: str, pool: Pool) -> None:
        prior, uid = self._snapshot.pools.get(pool.name), self._snapshot.owner_of(pool)
        call = self._by_controller("pool", pool.name)
        if event == "gone" or pool.state != "Deleting":
            self._requests.deletion_ended(pool.name)
        self._offerings.pool_changed(pool, event, call)
        if call and prior is not None:
            self._check_pool_write(call, prior, pool, event)
        elif call and event != "gone":
            self._requests.pool_created(call, pool)
            self._stated.pool_created(pool, uid or self._snapshot.owner_of(pool))
        if event == "gone":
            self._snapshot.pools.pop(pool.name, None)
        else:
            self._snapshot.pools[pool.name] = pool
            if uid or pool_stamp(pool):
                self._snapshot.our_pool_names[pool.name] = None
        if prior is None or event == "gone" or prior.state != pool.state:
            self._audit_log.change(self._time(), "pool", pool.name, event if event == "gone" else pool.state, uid=uid)
        twins = [other.name for other in self._snapshot.pools.values() if uid and self._snapshot.owner_of(other) == uid]
        if len(twins) > 1:
            self._violated("I3", f"claim {uid} has {len(twins)} pools: {', '.join(twins)}")
        self._check_orphans()

    def _check_pool_write(self, call: Call, prior: Pool, pool: Pool, event: str) -> None:
        mark, uid = pool_mark(prior), self._snapshot.owner_of(prior)
        if event == "deleting":
            self._drain.pool_deleted(uid)
            self._inference.pool_deleted(uid)
        if not mark and not pool_stamp(prior):
            self._violated("I4", f"{call.who} changed pool {pool.name}, which is not ours: {call}")
        elif mark and pool_mark(pool) != mark:
            self._violated("I4", f"{call.who} changed the owner of pool {pool.name}, claim {mark}: {call}")
        elif event == "deleting" and self._snapshot.healthy(
            uid or self._snapshot.legacy_claim(prior.name, pool_stamp(prior))
        ):
            self._violated("I7", f"{call.who} deleted pool {pool.name} of a healthy claim")

    def _check_orphans(self) -> None:
        now = self._time()
        for name, pool in self._snapshot.pools.items():
            uid = "" if pool.state == "Deleting" else self._snapshot.owner_of(pool)
            if not uid or uid in self._snapshot.claims:
                self._orphan_since.pop(name, None)
                continue
            since = self._orphan_since.setdefault(name, now)
            if self._snapshot.in_maintenance(pool):
                self._orphan_since[name] = now
            elif now - since > self.gc_bound_seconds:
                self._orphan_since[name] = now
                self._violated("I1", f"pool {name} has had no claim for {now - since:.0f} s (its claim was {uid})")
        for name in [name for name in self._orphan_since if name not in self._snapshot.pools]:
            del self._orphan_since[name]

    # helpers

    def _by_controller(self, kind: str, name: str) -> Call | None:
        call = current_write(kind, name)
        return call if call is not None and call.who in self.controllers else None

    def _is_created_by_controller(self) -> bool:
        """Whether a controller's request, which does not name it, creates an object."""
        call = CURRENT_CALL.get()
        return call is not None and call.status is None and call.verb == "POST" and call.who in self.controllers

    def _violated(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant, self._time(), what, self._audit_log.tail(LOG_LINES)))
