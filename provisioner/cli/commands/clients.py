"""What the commands stand on: the controller's own connections and settings, and one look at everything.

`look` reads each collection once, whole or not at all: a list that fails is a Refused, never an empty list.
Pools are read before claims: a claim made in between then has no pool yet, which is no suspicion, whereas a pool made
in between would look like an orphan.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloudprovider.azure.agentpool import pool_name
from cloudprovider.errors import CloudError
from cloudprovider.inventory import Inventory
from controllers.model.ownership import pool_of
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.clients import open_clients
from provisioner.operator.config import Clients, Config, config_from
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES
from provisioner.settings import Settings

from .refusal import by_api_server, by_arm


@dataclass(frozen=True, slots=True)
class Tools:
    """`cluster` names the managed cluster for people."""

    clients: Clients
    config: Config
    cluster: str


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Tools]:
    """The tools, for as long as the context lasts. Raises what `connect` raises."""
    async with open_clients(settings) as clients:
        cluster = f"cluster {settings.cluster_name} of resource group {settings.resource_group}"
        yield Tools(clients, config_from(settings), cluster)


@dataclass(frozen=True, slots=True)
class Sight:
    """Claims, Nodes, the CRD, pools and the managed cluster, as caches that were filled once."""

    indexes: Indexes
    nodes: tuple[Node, ...]
    inventory: Inventory

    def pool_names(self) -> tuple[str, ...]:
        """Every pool name that anything maps to, in alphabetical order."""
        claims = (self.indexes.key_of(claim) for claim in self.indexes.claims())
        return tuple(
            sorted({*claims, *(pool for node in self.nodes if (pool := pool_of(node))), *self.inventory.names()})
        )

    def claim(self, name: str) -> NodeClaim | None:
        """The claim of that name."""
        return next((claim for claim in self.indexes.claims() if claim.name == name), None)


async def look(tools: Tools) -> Sight:
    """One look at all. Raises Refused."""
    kube, rng = tools.clients.kube, tools.clients.rng
    claims: Reflector[NodeClaim] = Reflector(kube, NODECLAIMS, rng=rng, indexes=claim_indexes(pool_name))
    nodes: Reflector[Node] = Reflector(kube, NODES, rng=rng, indexes=node_indexes())
    crds: Reflector[CustomResourceDefinition] = Reflector(kube, CRDS, rng=rng, indexes={})
    inventory = Inventory(tools.clients.provider, rng=rng, on_change=_unheard, on_resync=_unheard)
    try:
        await inventory.list_once()
        for cache in (nodes, claims, crds):
            await cache.list_once()
    except CloudError as error:
        raise by_arm(error) from None
    except KubeError as error:
        raise by_api_server(error) from None
    indexes = Indexes(claims=claims, nodes=nodes, crds=crds, pool_name=pool_name)
    return Sight(indexes, nodes.items(), inventory)


def _unheard(*_: object) -> None:
    """Nobody waits for changes."""
