"""What is kept as objects change equals what is computed from all objects, whatever the watch delivers."""

from copy import deepcopy
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.model.conditions import launched, was_usable
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.nodepool.counter import Usage
from controllers.reconcile.nodepool_usage import NodePoolUsage
from controllers.state.cluster import ClusterState, Rules
from controllers.state.indexes import DELETING, POOL, STATE, claim_indexes
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED, LAUNCHED, REGISTERED
from provisioner.api.meta import Condition, ObjectMeta
from provisioner.api.node import Node, NodeStatus
from provisioner.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeClassReference
from provisioner.api.owner import counted_in
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import NODECLAIMS, NODES
from provisioner.runtime.watch import EventType, WatchEvent
from tests.unit.builders import NOW

NAMES, POOLS = ("a", "b", "c"), ("", "gpu", "cpu")
OWN = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default")
QUANTITIES = ("0", "1e3", "0.5", "100m", "1Ki", "3n", *["9223372036854775807"] * 4, "-1", "many")
STEPS = 300


class Drawn:
    """A cache of one kind, and the events of a watch that misses some and lists again."""

    def __init__(self, rng: Random, resource: Any, indexes: Any) -> None:
        self._rng, self._version = rng, 0
        self.cache: Any = Reflector(None, resource, rng=rng, indexes=indexes)  # type: ignore[arg-type]

    def meta(self) -> ObjectMeta:
        """Of an object that may have been deleted and created again."""
        self._version += 1
        name, pool = self._rng.choice(NAMES), self._rng.choice(POOLS)
        return ObjectMeta(
            name=name,
            uid=f"{name}{self._rng.randrange(2)}",
            resource_version=str(self._version),
            labels={labels.NODEPOOL: pool} if pool else {},
            deletion_timestamp=self._rng.choice((None, None, NOW)),
        )

    def quantities(self) -> dict[str, str]:
        return {
            name: self._rng.choice(QUANTITIES)
            for name in ("cpu", "memory", "nvidia.com/gpu", "nodes")
            if self._rng.random() < 0.6
        }

    def step(self, make: Any) -> None:
        """An event, or a list in which objects are missing, new, changed or of another UID."""
        kind = self._rng.choice(("set", "set", "set", "gone", "list"))
        if kind == "set":
            one = make()
            changes = self.cache._store.apply(WatchEvent(EventType.MODIFIED, one, one.metadata.resource_version))
        elif kind == "gone":
            one = make()
            changes = self.cache._store.apply(WatchEvent(EventType.DELETED, one, one.metadata.resource_version))
        else:
            changes = self.cache._store.replace([make() for _ in range(self._rng.randrange(4))])
        self.cache._notify(changes)


def draw_claim(rng: Random, drawn: Drawn) -> NodeClaim:
    conditions = tuple(
        Condition(type=kind, status=rng.choice(("True", "False", "Unknown")), last_transition_time=NOW)
        for kind in (LAUNCHED, REGISTERED, INITIALIZED)
        if rng.random() < 0.8
    )
    return NodeClaim(
        metadata=drawn.meta(),
        spec=NodeClaimSpec(node_class_ref=rng.choice((OWN, OWN, NodeClassReference(group="x", kind="Y", name="z")))),
        status=NodeClaimStatus(node_name=rng.choice(("", *NAMES)), capacity=drawn.quantities(), conditions=conditions),
    )


def draw_node(drawn: Drawn) -> Node:
    return Node(metadata=drawn.meta(), status=NodeStatus(capacity=drawn.quantities()))


@pytest.mark.matrix(quick=5)
@pytest.mark.parametrize("seed", range(40))
def test_drawn_events(seed: int) -> None:
    """Of NodeClaims that change their NodePool, node class, Node and UID, and Nodes that change their capacity."""
    rng = Random(seed)
    claims, nodes = Drawn(rng, NODECLAIMS, claim_indexes(lambda one: one.name)), Drawn(rng, NODES, {})
    usage = NodePoolUsage(claims.cache, nodes.cache, lambda: None)
    usage.add_event_handlers()
    for _ in range(STEPS):
        if rng.random() < 0.6:
            claims.step(lambda: draw_claim(rng, claims))
        else:
            nodes.step(lambda: draw_node(nodes))
        found = claims.cache.items()
        for pool in POOLS[1:]:
            machines = [(one, nodes.cache.get(one.status.node_name)) for one in found if counted_in(one) == pool]
            expected, kept = Usage(machines), usage.of(pool)
            assert kept.resources() == expected.resources()
            assert all(kept.with_another(one) == expected.with_another(one) for one, _ in machines)
        was = {"usable": was_usable, "launched": lambda one: launched(one) or was_usable(one)}
        for state, reached in was.items():
            of = {one.uid for one in found if managed(one) and reached(one)}
            going = {one.uid for one in found if one.uid in of and one.deleting}
            assert claims.cache.count(STATE, state) == len(of)
            assert {one.uid for one in claims.cache.by_index(STATE, f"{DELETING}{state}")} == going


def is_unlaunched(claim: NodeClaim) -> bool:
    return claim.condition(LAUNCHED, "True") is None


@pytest.mark.matrix(quick=5)
@pytest.mark.parametrize("seed", range(40))
def test_the_queue_for_room(seed: int) -> None:
    """NodeClaims that change their owner, agent pools that come and go, and requests: the order is as if made anew."""
    rng, pools = Random(seed), dict[str, object]()
    claims = Drawn(rng, NODECLAIMS, claim_indexes(lambda one: one.name))
    caches: Any = SimpleNamespace(
        claims=claims.cache.items, claims_of=partial(claims.cache.by_index, POOL), key_of=lambda one: one.name
    )
    inventory: Any = SimpleNamespace(get=pools.get, cluster=None)
    candidates: Any = SimpleNamespace(key_changed=lambda _: None)
    rules = Rules(queued=is_unlaunched, tripped=lambda *_, **__: False)
    state = ClusterState(indexes=caches, inventory=inventory, policy=Policy(), candidates=candidates, rules=rules)
    claims.cache.add_event_handler(state.claim_changed)
    for _ in range(STEPS):
        key, kind = rng.choice(NAMES), rng.choice(("claim", "claim", "claim", "pool", "create", "created"))
        if kind == "claim":
            claims.step(lambda: draw_claim(rng, claims))
        elif kind == "pool":
            pools.pop(key) if key in pools else pools.update({key: key})
            state.pool_changed(key)
        elif kind == "create" and (heads := claims.cache.by_index(POOL, key)):
            state.create_started(key, heads[0], NOW, 0.0)
        else:
            state.create_finished(key)
        kept, order = state._queued_claims(), deepcopy(state._queue_order)
        expected = order.order(one for one in claims.cache.items() if state._is_queued(one))
        assert [one.uid for one in kept] == [one.uid for one in expected]
