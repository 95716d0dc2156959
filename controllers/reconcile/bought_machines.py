"""The machines that were bought for pods, as the caches show them, and which of them have taken a pod since.

Source: docs/adr/0063-purchase-brake.md.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.disruption.expiration import expiry
from controllers.model.storage import Storage
from controllers.provisioning.bought_machine import Machine
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.machines import machines
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.purchases import Purchase, purchase_of
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of
from provisioner.api.pod import Pod

from .demand_caches import DemandCaches

# Shapes of pods that are kept of what was bound to one Node.
SHAPES_MAX = 100
# A pod that is gone sooner may have been evicted.
STAYS_SECONDS = 60.0


class BoughtMachines:
    """`pod_changed` must see each change of the cached pods: pods that run and end between two passes count as well.

    `_ran`: the UIDs of pods that were bound to a Node. `_took`: the shapes of pods that stayed on a Node, by its name.
    `_bound`: since when a pod is bound, with its Node and shape, by its UID. `_placed`: the UIDs of pods that had a
    Node from the beginning.
    """

    def __init__(self, caches: DemandCaches) -> None:
        self._caches = caches
        self._read: dict[str, tuple[str, Purchase]] = {}
        self._used: set[str] = set()
        self._ran: set[str] = set()
        self._took: dict[str, dict[str, None]] = {}
        self._bound: dict[str, tuple[float, str, str]] = {}
        self._placed: set[str] = set()
        self._since: datetime | None = None

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that no DaemonSet owns, bound to a Node, shows that the machine is of use."""
        time = asyncio.get_running_loop().time()
        if new is None and old is not None:
            since, node, shape = self._bound.pop(old.metadata.uid, (time, "", ""))
            # One that is evicted at once was not taken.
            if time - since >= STAYS_SECONDS:
                self._take(node, shape)
        if not isinstance(new, CachedPod) or not (node := new.spec.node_name) or not new.own:
            return
        self._used.add(node)
        self._ran.add(new.metadata.uid)
        if isinstance(old, CachedPod):
            if not old.spec.node_name and old.shape:
                self._bound[new.metadata.uid] = time, node, old.shape
        elif self._since is not None and new.metadata.creation_timestamp >= self._since:
            self._placed.add(new.metadata.uid)

    def _take(self, node: str, shape: str) -> None:
        took = self._took.setdefault(node, {})
        took[shape] = None
        if len(took) > SHAPES_MAX:
            del took[next(iter(took))]

    def find(
        self,
        shapes: Collection[str],
        namespaces: Collection[str],
        types: InstanceTypes,
        storage: Storage,
        now: datetime,
        *,
        displaced: Collection[str] = (),
    ) -> Iterator[Machine]:
        """Those that were bought for pods of these shapes or of these namespaces.

        `displaced`: the UIDs of pods that are bound to Nodes which are removed: they have not run on their new machine.
        """
        # The API server states whole seconds.
        since = self._since = self._since or now.replace(microsecond=0)
        nodes = self._caches.nodes_by_claim()
        present = {node.name for node in nodes.values()}
        self._used &= present
        self._took = {name: shapes for name, shapes in self._took.items() if name in present}
        on_now: dict[str, set[str]] = {}
        for _, name, shape in self._bound.values():
            on_now.setdefault(name, set()).add(shape)
        purchases = self.purchases()
        stated = {uid for _, purchase in purchases for uids in purchase.pods.values() for uid in uids}
        every = {pod.metadata.uid for pod in self._caches.pods.items()}
        self._ran, self._placed = (self._ran & stated).difference(displaced), self._placed & every
        found = [
            (claim, purchase)
            for claim, purchase in purchases
            if nodepool_of(claim) is not None
            and not (purchase.pods.keys().isdisjoint(shapes) and set(purchase.namespaces).isdisjoint(namespaces))
        ]
        names = [node.name for claim, _ in found if (node := nodes.get(claim.uid)) is not None]
        on = {name: self._caches.pods_on(name) for name in names}
        compared = [claim for claim, purchase in found if not purchase.pods.keys().isdisjoint(shapes)]
        known = Observed(node_pools=(), nodes=(), claims=(), pods=(), storage=storage, now=now)
        read = self._shown(compared, nodes, on, types, known)
        for claim, purchase in found:
            node, owner = nodes.get(claim.uid), nodepool_of(claim)
            pods = on.get(node.name, ()) if node is not None else ()
            bound = frozenset(pod.metadata.uid for pod in pods)
            gone = frozenset(uid for uids in purchase.pods.values() for uid in uids if uid not in every)
            initialized = _initialized_seconds(claim, node, now)
            seen = initialized is not None and (now - since).total_seconds() >= initialized
            yield Machine(
                claim=claim,
                purchase=purchase,
                node_pool=owner.name if owner is not None else "",
                node=node,
                machine=read.get(node.name) if node is not None else None,
                node_seconds=(now - node.metadata.creation_timestamp).total_seconds() if node else 0.0,
                initialized_seconds=initialized,
                healthy=_healthy(claim, node),
                bound=bound,
                instance_type=_instance_type(claim, node) or purchase.instance_type,
                took=frozenset()
                if node is None
                else frozenset(self._took.get(node.name, ())) | on_now.get(node.name, set()),
                contended=not bound.isdisjoint(stated),
                placed=not bound.isdisjoint(self._placed),
                agents=any(pod.daemon_set and not pod.daemon for pod in pods),
                unused=seen and node is not None and node.name not in self._used,
                expired=_expired(claim),
                unhealthy_seconds=_unhealthy_seconds(claim, node, now),
                gone=gone,
                deserted=gone - self._ran if claim.metadata.creation_timestamp >= since else frozenset(),
            )

    def purchases(self) -> list[tuple[NodeClaim, Purchase]]:
        """The NodeClaims that state what they were bought for."""
        read = self._read
        self._read = {}
        for claim in self._caches.claims.items():
            text = claim.metadata.annotations.get(labels.BOUGHT_FOR, "")
            if text:
                before = read.get(claim.uid)
                found = before if before is not None and before[0] == text else (text, purchase_of(claim))
                self._read[claim.uid] = found
        return [(claim, self._read[claim.uid][1]) for claim in self._caches.claims.items() if claim.uid in self._read]

    def unproven(self) -> dict[str, dict[str, frozenset[str]]]:
        """The machines of each NodePool that are not initialized, by the name under which a decision counts them.

        Those that replace others were bought for the pods of these, which are among the waiting ones.
        """
        nodes, found = self._caches.nodes_by_claim(), dict[str, dict[str, frozenset[str]]]()
        for claim in self._caches.claims.items():
            if labels.REPLACEMENT_COMMAND in claim.metadata.annotations:
                continue
            owner, node = nodepool_of(claim), nodes.get(claim.uid)
            if owner is not None and (node is None or node.metadata.labels.get(labels.INITIALIZED) != "true"):
                name = node.name if node is not None else claim.name
                purchase = self._read[claim.uid][1] if claim.uid in self._read else purchase_of(claim)
                found.setdefault(owner.name, {})[name] = frozenset(purchase.pods)
        return found

    def _shown(
        self,
        claims: list[NodeClaim],
        nodes: Mapping[str, Node],
        on: Mapping[str, Sequence[CachedPod]],
        types: InstanceTypes,
        known: Observed,
    ) -> dict[str, model.ExistingNode]:
        """What the machines of these claims offer, by the names of their Nodes. `known`: the volumes, and the time."""
        present = [nodes[claim.uid] for claim in claims if claim.uid in nodes]
        observed = msgspec.structs.replace(
            known,
            nodes=present,
            claims=claims,
            pods=[pod for node in present for pod in on[node.name]],
            node_classes=self._caches.node_classes_of(claims),
            gpus_required=self._caches.gpus_required,
            slices=self._caches.slices.items(),
        )
        return {one.name: one for one, _ in machines(observed, types)[0]}


def _initialized_seconds(claim: NodeClaim, node: Node | None, now: datetime) -> float | None:
    if node is None or node.metadata.labels.get(labels.INITIALIZED) != "true":
        return None
    found = claim.condition(INITIALIZED, "True")
    return max(0.0, (now - found.last_transition_time).total_seconds()) if found is not None else 0.0


def _instance_type(claim: NodeClaim, node: Node | None) -> str:
    """The Node has it some seconds after its registration."""
    of_node = node.metadata.labels.get(labels.INSTANCE_TYPE, "") if node is not None else ""
    return of_node or claim.metadata.labels.get(labels.INSTANCE_TYPE, "")


def _expired(claim: NodeClaim) -> bool:
    at, deleted = expiry(claim), claim.metadata.deletion_timestamp
    return at is not None and deleted is not None and deleted >= at


def _unhealthy_seconds(claim: NodeClaim, node: Node | None, now: datetime) -> float:
    ready = node.condition("Ready") if node is not None else None
    if ready is None or ready.last_transition_time is None or _healthy(claim, node):
        return 0.0
    return (now - ready.last_transition_time).total_seconds()


def _healthy(claim: NodeClaim, node: Node | None) -> bool:
    """Whether the Node is Ready, or was when the removal of its machine began, which stops it."""
    ready = node.condition("Ready") if node is not None else None
    if ready is None or ready.status == "True":
        return ready is not None
    removed, since = claim.metadata.deletion_timestamp, ready.last_transition_time
    return removed is not None and since is not None and since >= removed
