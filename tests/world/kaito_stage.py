"""Helpers for stories with KAITO: its connections to the API server, its owners, and what they have."""

from typing import Any

from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings

from .claims import CLAIMS
from .harness import EPOCH, Sim
from .kaito_actor import Api, RagEngine, Workspace
from .kaito_predicates import Owner, is_deleting

Json = dict[str, Any]

WHO = "kaito"
QUICK: dict[str, Any] = {
    "azure": AzureSettings(create_seconds=(15.0, 20.0), delete_seconds=(10.0, 15.0)),
    "nodes": NodeSettings(ready_seconds=(2.0, 4.0), gpu_seconds=(2.0, 4.0)),
}


def api_of(sim: Sim) -> Api:
    """KAITO's own connections to the API server."""
    return Api(sim.world.session(WHO), lambda: round((EPOCH.timestamp() + sim.now) * 1e9))


def actor_of(sim: Sim, owner: Owner) -> Workspace | RagEngine:
    """The controller that reconciles this owner."""
    return (Workspace if owner.kind == "workspace" else RagEngine)(api_of(sim), owner)


def claims_of(sim: Sim, owner: Owner) -> list[Json]:
    """This owner's claims."""
    return sim.store.list(CLAIMS, labels=",".join(f"{key}={value}" for key, value in owner.pair.items()))


async def serves(sim: Sim, actor: Workspace | RagEngine, within_seconds: float = 900.0) -> None:
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
