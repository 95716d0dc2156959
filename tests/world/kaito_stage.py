"""Helpers for stories with KAITO: its connections to the API server, its owners, and what they have."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings

from . import kaito_predicates
from .claims import CLAIMS
from .harness import EPOCH, Sim
from .kaito_actor import Api, RagEngine, Workspace, at_work
from .kaito_karpenter import PoolApi, PoolWorkspace, start
from .kaito_nodepools import PoolOwner, node_classes
from .kaito_predicates import Owner, is_deleting
from .stage import Stage

Json = dict[str, Any]

WHO = "kaito"
NODE_POOLS = "nodepools.karpenter.sh"
# The node classes in the values for KAITO's chart that the documentation has.
VALUES = Path(__file__).parents[2] / "docs" / "how-to" / "kaito-karpenter-values.yaml"
CLASSES = node_classes(yaml.safe_load(VALUES.read_text(encoding="utf-8")))
QUICK: dict[str, Any] = {
    "azure": AzureSettings(create_seconds=(15.0, 20.0), delete_seconds=(10.0, 15.0)),
    "nodes": NodeSettings(ready_seconds=(2.0, 4.0), gpu_seconds=(2.0, 4.0)),
}


def api_of(sim: Sim) -> Api:
    """KAITO's own connections to the API server."""
    return Api(sim.world.session(WHO), lambda: _nanoseconds(sim))


def pool_api_of(sim: Sim) -> PoolApi:
    """The same of a KAITO in karpenter mode."""
    return PoolApi(sim.world.session(WHO), lambda: _nanoseconds(sim))


def _nanoseconds(sim: Sim) -> int:
    return round((EPOCH.timestamp() + sim.now) * 1e9)


def actor_of(sim: Sim, owner: Owner) -> Workspace | RagEngine:
    """The controller that reconciles this owner."""
    return (Workspace if owner.kind == "workspace" else RagEngine)(api_of(sim), owner)


def claims_of(sim: Sim, owner: Owner) -> list[Json]:
    """This owner's claims."""
    return sim.store.list(CLAIMS, labels=",".join(f"{key}={value}" for key, value in owner.pair.items()))


def pool_of(sim: Stage, owner: PoolOwner) -> Json | None:
    """This Workspace's NodePool."""
    return sim.store.get(NODE_POOLS, owner.pool)


def pool_claims_of(sim: Stage, owner: PoolOwner) -> list[Json]:
    """The claims of this Workspace's NodePool."""
    return sim.store.list(CLAIMS, labels=f"{kaito_predicates.NODEPOOL}={owner.pool}")


async def started(sim: Sim, *, controller: bool = False) -> None:
    """A process of KAITO in karpenter mode starts; `controller`: the controller starts before it."""
    if controller:
        await sim.start_controller()
    await start(pool_api_of(sim), CLASSES)


async def serves(sim: Stage, actor: Workspace | RagEngine | PoolWorkspace, within_seconds: float = 900.0) -> None:
    """Wait until the owner has all its machines."""
    await sim.until(lambda: actor.state == "ready", within_seconds, "KAITO's owner serves")


class Most:
    """The maxima from now on: our machines, claims, and claims that are not deleting (`staying`)."""

    def __init__(self, sim: Sim) -> None:
        self.pools = self.claims = self.staying = 0
        self._sim = sim
        sim.cloud.subscribe(lambda *_: self._count())
        sim.store.subscribe(lambda *_: self._count())
        self._count()

    def _count(self) -> None:
        claims = list(self._sim.store.each(CLAIMS))
        self.pools = max(self.pools, sum(bool(pool.tags) for pool in self._sim.cloud.pools.values()))
        self.claims = max(self.claims, len(claims))
        self.staying = max(self.staying, sum(not is_deleting(claim) for claim in claims))


@contextlib.asynccontextmanager
async def replaced_once(sim: Sim, owner: Owner, at_once: int = 1) -> AsyncIterator[Json]:
    """Yield the claim of an owner that serves, whose machine the block breaks; check that KAITO has created one other.

    `at_once`: the most of its claims and machines that exist at a time; one of them is not being deleted.
    """
    actor = actor_of(sim, owner)
    async with at_work(actor):
        await serves(sim, actor)
        # Not in the very moment in which it looks: what it reads between the Node's word and ours is its own race.
        await asyncio.sleep(60.0)
        most = Most(sim)
        [claim] = claims_of(sim, owner)
        yield claim
        await asyncio.sleep(1800.0)
        await serves(sim, actor, within_seconds=1)
        [other] = claims_of(sim, owner)
        assert other["metadata"]["uid"] != claim["metadata"]["uid"]
        assert len(sim.cloud.put_log) == 2
        assert (most.staying, most.claims, most.pools) == (1, at_once, at_once)


class Poised:
    """From now on, at every version of a claim of a Workspace's NodePool: the least number of those that KAITO counts
    as ready, the most that were being removed or replaced at the same time, and the most that existed.

    One whose instance is being deleted has no machine any more and does not count, as in the budgets.
    """

    def __init__(self, sim: Stage, owner: PoolOwner) -> None:
        self._claims = {claim["metadata"]["uid"]: claim for claim in pool_claims_of(sim, owner)}
        self._pool = owner.pool
        self.least_ready = self._ready()
        self.most, self.most_going = len(self._counted()), self._going()
        sim.store.subscribe(self._note)

    def _ready(self) -> int:
        return sum(kaito_predicates.is_ready(claim) for claim in self._claims.values())

    def _counted(self) -> list[Json]:
        return [one for one in self._claims.values() if not kaito_predicates.is_true(one, "InstanceTerminating")]

    def _going(self) -> int:
        return sum(is_deleting(one) or kaito_predicates.is_true(one, "DisruptionReason") for one in self._counted())

    def _note(self, event: str, resource: str, obj: Json, _: Json | None) -> None:
        if resource != CLAIMS or kaito_predicates.labels_of(obj).get(kaito_predicates.NODEPOOL) != self._pool:
            return
        if event == "DELETED":
            self._claims.pop(obj["metadata"]["uid"], None)
        else:
            self._claims[obj["metadata"]["uid"]] = obj
        self.least_ready = min(self.least_ready, self._ready())
        self.most_going = max(self.most_going, self._going())
        self.most = max(self.most, len(self._counted()))
