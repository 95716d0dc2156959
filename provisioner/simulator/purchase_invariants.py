"""Checks what a controller buys for pending pods: no more machines than pods wait for, and no machines without end.

I17 counts twice. For each pod: the machines that state it, in the annotation of their NodeClaim. And for all pods
together, whatever NodeClaims state: each machine that no pod uses was bought for one of the pods that waited then.

Source: docs/references/rules.md#invariants.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provisioner.api import labels

from .disruption_invariants import has_ended, is_of_daemon_set, node_of, owner_of
from .scheduling.nodes import snapshot as node_infos
from .scheduling.requests import pod_requests
from .snapshot import Snapshot, annotations_of, condition, deleting, labels_of

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# Machines that become Ready for one pod before it runs.
MOST = 2
# A controller does not see a pod bound while its request is on its way.
RACE_SECONDS = 1.0
# A Node that is not initialized after so long is not waited for.
START_SECONDS = 1200.0


@dataclass(kw_only=True)
class _Purchase:
    """A NodeClaim that a controller created for pods. `stated`: the UIDs in its annotation; `waited`: of all that did.

    `ready`: it was Initialized. `used`: a pod that no DaemonSet owns was bound to its Node. `lost`: others deleted it,
    or its Node stopped being Ready. `node_at`: when its Node appeared.
    """

    name: str
    pool: str
    stated: frozenset[str]
    waited: frozenset[str]
    ready: bool = False
    used: bool = False
    lost: bool = False
    node_at: float = math.inf
    forgiven: set[str] = field(default_factory=set)

    @property
    def useless(self) -> bool:
        return self.ready and not self.used and not self.lost


class PurchaseInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._bound_at: dict[str, float] = {}
        self._dynamic: dict[str, Json] = {}
        # All pods that are on Nodes, and all that no DaemonSet owns.
        self._on_nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._purchases: dict[str, _Purchase] = {}
        self._since_change = 0
        self._recent: list[str] = []

    # what changes

    def node_pool_changed(self, node_pool: Json, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted: what was bought for it before no longer counts."""
        uid = node_pool["metadata"]["uid"]
        before = self._dynamic.get(uid)
        if gone:
            self._dynamic.pop(uid, None)
        else:
            self._dynamic[uid] = node_pool
        if before is None or _stated(before) != _stated(node_pool):
            self._recent.clear()
            self._forgive(lambda one: one.pool == uid)

    def node_class_changed(self, new: Json, before: Json | None) -> None:
        """A node class was changed: what was bought before no longer counts."""
        if before is not None and before.get("spec") != new.get("spec"):
            self._forgive(lambda _: True)

    def pod_changed(self, pod: Json, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid = pod["metadata"]["uid"]
        before = self._pods.get(uid)
        self._on_nodes.pop(uid, None)
        if node_of(pod) and not gone and not has_ended(pod):
            self._on_nodes[uid] = pod
        if gone or has_ended(pod) or is_of_daemon_set(pod):
            if before is not None:
                self._recent.clear()
            self._pods.pop(uid, None)
            self._bound_at.pop(uid, None)
            return
        self._pods[uid] = pod
        if before is not None and _shape(before) != _shape(pod):
            self._forgive_pod(uid)
        if node_of(pod) and (before is None or not node_of(before)):
            self._recent.clear()
            self._bound_at[uid] = self._time()
            self._bound(pod)

    def node_changed(self, node: Json, *, gone: bool) -> None:
        """A Node was created, changed or deleted."""
        one = self._purchases.get(self._snapshot.claim_of_node(node))
        if one is not None:
            one.node_at = min(one.node_at, self._time())
        if one is not None and one.ready and (gone or condition(node, "Ready") != "True"):
            one.lost = True

    def claim_changed(self, claim: Json, before: Json | None, *, gone: bool, controller: bool) -> None:
        """A NodeClaim was created, changed or deleted; `controller`: by a controller. Call it before `gone` is seen."""
        uid = claim["metadata"]["uid"]
        if before is None and controller:
            self._bought(claim)
        one = self._purchases.get(uid)
        if one is not None and condition(claim, "Initialized") == "True":
            one.ready = True
        if (deleting(claim) or gone) and before is not None and not deleting(before):
            self._recent.clear()
            if one is not None and not controller:
                one.lost = True

    # what is bought

    def _bought(self, claim: Json) -> None:
        node_pool = self._dynamic.get(owner_of(claim))
        if node_pool is None or "replicas" in node_pool["spec"] or labels.REPLACES in annotations_of(claim):
            return
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        waiting = self._waiting()
        self._recent = [one for one in self._recent if not self._is_too_small(one, waiting)]
        self._recent.append(uid)
        if len(self._recent) > len(waiting):
            self._violated("I13", f"claim {name} is number {len(self._recent)} bought for {len(waiting)} waiting pods")
        unbound = frozenset(pod["metadata"]["uid"] for pod in waiting if not node_of(pod))
        stated = bought_for(claim)
        self._check(name, stated & unbound)
        self._purchases[uid] = _Purchase(name=name, pool=owner_of(claim), stated=stated, waited=unbound)

    def _check(self, name: str, pods: frozenset[str]) -> None:
        """I17: for one pod, and for all pods together."""
        for pod in sorted(pods):
            before = [
                one.name
                for one in self._purchases.values()
                if pod in one.stated and pod not in one.forgiven and one.useless
            ]
            if len(before) >= MOST:
                words = f"after {' and '.join(before)}, which became Ready and which no pod uses"
                self._violated("I17", f"claim {name} was bought for pod {pod} {words}")
        useless = [one for one in self._purchases.values() if one.useless and not one.forgiven]
        candidates = pods.union(*(one.waited for one in useless))
        if candidates and len(useless) >= MOST * len(candidates):
            words = f"after {len(useless)} machines that no pod uses, for {len(candidates)} pods"
            self._violated("I17", f"claim {name} was bought {words}")

    def _waiting(self) -> list[Json]:
        """The pods without a Node, those that got one at this moment, and those whose Node is being removed."""
        leaving = {
            name
            for name, node in self._snapshot.nodes.items()
            if deleting(node)
            or deleting(self._snapshot.claims.get(self._snapshot.claim_of_node(node)) or node)
            or condition(node, "Ready") != "True"
        }
        since = self._time() - RACE_SECONDS
        return [
            pod
            for uid, pod in self._pods.items()
            if not node_of(pod) or node_of(pod) in leaving or self._bound_at.get(uid, 0.0) > since
        ]

    def _is_too_small(self, claim: str, waiting: list[Json]) -> bool:
        """Whether the Node of a NodeClaim is Ready, or shows that a pod cannot run on it which it was bought for.

        One that has not become Ready in time is no capacity either.
        """
        known = self._purchases.get(claim)
        if known is not None and not known.ready and self._time() - known.node_at >= START_SECONDS:
            return True
        nodes = [node for node in self._snapshot.nodes.values() if self._snapshot.claim_of_node(node) == claim]
        ready = (claim in self._purchases and self._purchases[claim].ready) or any(
            labels_of(node).get(labels.INITIALIZED) == "true" and condition(node, "Ready") != "True" for node in nodes
        )
        for info in node_infos(nodes, self._on_nodes.values()):
            free = {name: amount - info.requested.get(name, 0) for name, amount in info.allocatable.items() if amount}
            stated = self._purchases[claim].stated if claim in self._purchases else frozenset()
            for pod in [one for one in waiting if one["metadata"]["uid"] in stated] or waiting:
                wanted = pod_requests(pod["spec"])
                lacks = any(wanted[name] > left for name, left in free.items() if name in wanted)
                if not lacks and not ready:
                    return False
        return bool(nodes)

    # what is over

    def _bound(self, pod: Json) -> None:
        node = self._snapshot.nodes.get(node_of(pod))
        uid = self._snapshot.claim_of_node(node) if node is not None else ""
        if uid not in self._purchases:
            return
        self._purchases[uid].used = True
        alike = {key for key, one in self._pods.items() if _shape(one) == _shape(pod)}
        for one in self._purchases.values():
            one.forgiven |= alike

    def _forgive(self, which: Callable[[_Purchase], bool]) -> None:
        for uid in [uid for uid, one in self._purchases.items() if which(one)]:
            del self._purchases[uid]

    def _forgive_pod(self, uid: str) -> None:
        for one in self._purchases.values():
            one.forgiven.add(uid)


def _stated(node_pool: Json) -> tuple[object, ...]:
    return node_pool["spec"], annotations_of(node_pool)


def _shape(pod: Json) -> Json:
    """The constraints and requests of a pod, without its place."""
    return {key: value for key, value in pod["spec"].items() if key != "nodeName"}


def bought_for(claim: Json) -> frozenset[str]:
    """The UIDs of the pods that the NodeClaim states it was created for."""
    text = annotations_of(claim).get(labels.BOUGHT_FOR, "{}")
    return frozenset(uid for uids in json.loads(text).get("pods", {}).values() for uid in uids)
