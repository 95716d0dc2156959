"""What is kept as objects change is what counting all objects gives, after each of many drawn changes."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Cluster
from controllers.disruption.blockers import empty
from controllers.disruption.candidates import why_unwanted
from controllers.disruption.commands_under_way import under_way
from controllers.disruption.machine import Machine, count_of
from controllers.disruption.methods import CONDITIONS
from controllers.nodepool.counter import Usage
from controllers.provisioning.nominations import Nominations
from controllers.reconcile.machines import Machines
from controllers.reconcile.nodepool_usage import NodePoolUsage
from provisioner.api import labels
from provisioner.api.conditions import (
    CONSOLIDATABLE,
    DISRUPTION_REASON,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    READY,
    ConditionSet,
    Status,
)
from provisioner.api.meta import OwnerReference
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in, is_member, why_foreign
from provisioner.operator.caches import build_caches, build_demand_caches
from provisioner.runtime import resources
from provisioner.runtime.resources import Resource
from provisioner.runtime.watch import EventType
from provisioner.simulator.loop import VirtualClock, run
from tests.world.at_scale import Api, Pools, bought, clients_of, fill
from tests.world.harness import EPOCH

CLUSTER = Cluster(running=True, location="westeurope")
MACHINES, CHANGES = 6, 400
CLAIMS, NODES, PODS = resources.NODECLAIMS, resources.NODES, resources.PODS
KINDS = (INITIALIZED, READY, DRIFTED, CONSOLIDATABLE, DISRUPTION_REASON, INSTANCE_TERMINATING)
POLICIES = (None, "WhenEmpty", "WhenEmptyOrUnderutilized")
POOLS = ("gpu", "other", "gpu-again")
# A reflector lists again after its backoff.
LISTED_SECONDS = 40.0


class Drawn:
    """Changes of the objects of a few machines of NodePools, one at a time."""

    def __init__(self, api: Api, rng: Random) -> None:
        self._api, self._rng = api, rng
        # Whether watches tell the changes; if not, the next lists do.
        self.watched = True
        self._first = {kind: [*api.objects[kind.plural].values()] for kind in (CLAIMS, NODES, PODS)}
        (pool,) = api.objects[resources.NODEPOOLS.plural].values()
        self.pools = [
            msgspec.structs.replace(
                pool, metadata=msgspec.structs.replace(pool.metadata, name=name.removesuffix("-again"), uid=name)
            )
            for name in POOLS
        ]

    def change(self) -> None:
        rng = self._rng
        kind = rng.choice((CLAIMS, CLAIMS, NODES, PODS, PODS))
        first, known = rng.choice(self._first[kind]), self._api.objects[kind.plural]
        key = f"{first.metadata.namespace}/{first.metadata.name}".lstrip("/")
        one = known.get(key)
        if one is None or rng.random() < 0.1:  # it is created, for the first time or again
            meta = msgspec.structs.replace(first.metadata, uid=f"{rng.random()}")
            self._send(kind, msgspec.structs.replace(first, metadata=meta), EventType.ADDED)
        elif rng.random() < 0.15:
            self._send(kind, one, EventType.DELETED)
        else:
            changes: dict[str, tuple[Callable[[Any], Any], ...]] = {
                CLAIMS.plural: (self._owner, self._label, self._conditions, self._command, self._deleting, self._node),
                NODES.plural: (self._capacity,),
                PODS.plural: (self._place, self._deleting),
            }
            self._send(kind, rng.choice(changes[kind.plural])(one))

    def _send(self, kind: Resource[Any], one: Any, event: EventType = EventType.MODIFIED) -> None:
        if self.watched:
            self._api.send(kind, one, event)
        elif event is not EventType.DELETED:
            self._api.store(kind, one)
        if event is EventType.DELETED:
            del self._api.objects[kind.plural][f"{one.metadata.namespace}/{one.metadata.name}".lstrip("/")]

    def _name(self, kind: Resource[Any]) -> str:
        return str(self._rng.choice(self._first[kind]).metadata.name)

    def _meta(self, one: Any, **changes: Any) -> Any:
        return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, **changes))

    def _owner(self, one: NodeClaim) -> Any:
        pool = self._rng.choice(self.pools)
        owner = OwnerReference(api_version="karpenter.sh/v1", kind="NodePool", name=pool.name, uid=pool.metadata.uid)
        known = {**one.metadata.labels, labels.NODEPOOL: pool.name}
        return self._meta(one, owner_references=self._rng.choice(((owner,), (owner,), ())), labels=known)

    def _label(self, one: NodeClaim) -> Any:
        return self._meta(one, labels={**one.metadata.labels, labels.NODEPOOL: self._rng.choice(POOLS)})

    def _deleting(self, one: Any) -> Any:
        return self._meta(one, deletion_timestamp=self._rng.choice((None, EPOCH)))

    def _conditions(self, one: NodeClaim) -> Any:
        conditions = ConditionSet.of(one, EPOCH)
        for kind in self._rng.sample(KINDS, 2):
            status: Status = self._rng.choice(("True", "True", "False"))
            conditions = conditions.set(kind, status, reason="Drifted", message="", now=EPOCH)
        return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=conditions.items))

    def _command(self, one: NodeClaim) -> Any:
        uids = [claim.uid for claim in self._api.objects[CLAIMS.plural].values()]
        drawn = {
            labels.DISRUPTION_COMMAND: self._rng.choice(("", "a")),
            labels.REPLACEMENT_COMMAND: self._rng.choice(("", "a")),
            labels.REPLACES: ",".join(self._rng.sample(uids, min(3, len(uids)))),
            labels.REPLACEMENTS: "1",
        }
        return self._meta(one, annotations=dict(self._rng.sample([*drawn.items()], 2)))

    def _node(self, one: NodeClaim) -> Any:
        name, capacity = self._rng.choice(("", self._name(NODES), self._name(NODES))), self._amounts()
        status = msgspec.structs.replace(one.status, node_name=name, capacity=capacity)
        return msgspec.structs.replace(one, status=status)

    def _capacity(self, one: Any) -> Any:
        return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, capacity=self._amounts()))

    def _amounts(self) -> dict[str, str]:
        return {"cpu": "4", **self._rng.choice(({}, {"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "1"}))}

    def _place(self, one: Any) -> Any:
        """It is bound elsewhere, another controller owns it, or it requests other resources."""
        owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r", uid="r", controller=True)
        one = self._meta(one, owner_references=(owner,) if self._rng.random() < 0.7 else ())
        containers = one.spec.containers or self._first[PODS][0].spec.containers
        spec = msgspec.structs.replace(
            one.spec,
            node_name=self._rng.choice(("", self._name(NODES), self._name(NODES))),
            containers=self._rng.choice((containers, ())),
        )
        return msgspec.structs.replace(one, spec=spec)


def check(machines: Machines, usage: NodePoolUsage, pools: Iterable[NodePool]) -> None:
    caches = machines._caches
    members = [one for one in caches.claims.items() if not why_foreign(one)]
    assert _commands(caches.of_commands()) == _commands(members)
    for pool in pools:
        owned = [machines.machine(one) for one in members if is_member(one, pool)]
        assert _names(machines.of(pool)) == _names(owned)
        assert _names(machines.unused(pool)) == _names(one for one in owned if empty(one))
        assert machines.count(pool) == count_of(owned)
        staying = [one for one in owned if not one.claim.deleting]
        for kind in CONDITIONS:
            assert machines.has(kind, pool) == any(one.claim.condition(kind, "True") for one in staying)
        drifted = (one for one in staying if one.claim.condition(DRIFTED, "True"))
        assert _names(machines.drifted(pool)) == _names(drifted)
        found = [one for one in staying if one.claim.condition(CONSOLIDATABLE, "True")]
        may = any(not why_unwanted(one, pool, "Underutilized") for one in found)
        assert machines.may_consolidate(pool) >= may
        counted = [one for one in caches.claims.items() if counted_in(one) == pool.name]
        expected = Usage((one, caches.nodes.get(one.status.node_name)) for one in counted)
        assert usage.of(pool.name).resources() == expected.resources()


def _names(machines: Iterable[Machine]) -> set[str]:
    return {one.claim.name for one in machines}


def _commands(claims: Iterable[NodeClaim]) -> set[tuple[Any, ...]]:
    return {
        (one.id, frozenset(c.uid for c in one.old), tuple(c.uid for c in one.new), one.wanted)
        for one in under_way(claims)
    }


@pytest.mark.parametrize("seed", range(5))
def test_what_is_kept_is_what_counting_gives(seed: int) -> None:
    """Changes come as events, or with a list that follows missed events; objects are created again by the same name."""
    bought("30s")

    async def main() -> None:
        api, clock, rng = Api(), VirtualClock(asyncio.get_running_loop(), EPOCH + timedelta(hours=1)), Random(seed)
        instances = fill(api, MACHINES, "30s")
        clients: Any = clients_of(api, Pools(instances, CLUSTER), clock)
        caches = build_caches(clients, node_pools=True)
        demand = build_demand_caches(clients, caches, gpus_required=True)
        machines, usage = (
            Machines(demand, nominations=Nominations(), pool_of=clients.cloud.pool_of, clock=clock),
            NodePoolUsage(demand.claims, demand.nodes, lambda: None),
        )
        usage.add_event_handlers()
        machines.add_event_handlers()
        drawn, kinds = Drawn(api, rng), (CLAIMS, NODES, PODS)
        disruption = msgspec.structs.replace(drawn.pools[0].spec.disruption, consolidation_policy=POLICIES[seed % 3])
        for pool in drawn.pools[:2]:
            spec = msgspec.structs.replace(pool.spec, disruption=disruption)
            api.store(resources.NODEPOOLS, msgspec.structs.replace(pool, spec=spec))
        async with asyncio.TaskGroup() as tasks:
            reflectors: tuple[Any, ...] = (demand.every_node_pool, demand.claims, demand.nodes, demand.pods)
            running = [tasks.create_task(one.run()) for one in reflectors]
            await asyncio.sleep(1.0)
            for number in range(CHANGES):
                drawn.watched = number % 20 < 15
                drawn.change()
                await asyncio.sleep(0.0 if rng.random() < 0.3 else 0.01)
                if drawn.watched:
                    check(machines, usage, drawn.pools)
                elif number % 20 == 19:
                    for kind in kinds:
                        api.end_watches(kind)
                    await asyncio.sleep(LISTED_SECONDS)
                    check(machines, usage, drawn.pools)
            for one in running:
                one.cancel()

    run(main, seed=1, epoch=EPOCH)
