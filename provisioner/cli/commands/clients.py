"""Connections for the commands, and one consistent read of the cluster and of Azure.

`read_state` reads each collection once and completely: a failed list is an error, never an empty list. Agent pools are
read before NodeClaims: a NodeClaim created meanwhile has no agent pool yet, which is no garbage, whereas an agent pool
created meanwhile would look like one without a NodeClaim.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloudprovider.errors import CloudError
from cloudprovider.inventory import Inventory
from controllers.model.crd_deletion import CRD_NAMES
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.clients import open_clients
from provisioner.operator.config import Clients, Config, config_from
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.named import NamedReflectors
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES
from provisioner.settings import Settings

from .helm_release import flags_of
from .refusal import by_api_server, by_arm


@dataclass(frozen=True, slots=True)
class Tools:
    """`cluster` is the name of the managed cluster in messages, `subscription` the ID of its own. `flags` are the
    settings that were read from the Helm release, for a command line after it was uninstalled."""

    clients: Clients
    config: Config
    cluster: str
    flags: str = ""
    subscription: str = ""


@asynccontextmanager
async def open_tools(settings: Settings) -> AsyncIterator[Tools]:
    """Open connections and close them at the end. Raises what `open_clients` raises."""
    async with open_clients(settings) as clients:
        cluster = f"cluster {settings.cluster_name} of resource group {settings.resource_group}"
        yield Tools(clients, config_from(settings), cluster, flags_of(settings), settings.subscription_id)


@dataclass(frozen=True, slots=True)
class State:
    """NodeClaims, Nodes, the CRD, agent pools and the managed cluster, in caches that were filled once."""

    indexes: Indexes
    nodes: tuple[Node, ...]
    inventory: Inventory

    def pool_names(self) -> tuple[str, ...]:
        """The names of the agent pools of all NodeClaims, Nodes and agent pools, sorted."""
        claims = (self.indexes.key_of(claim) for claim in self.indexes.claims())
        return tuple(
            sorted(
                {
                    *claims,
                    *(pool for node in self.nodes if (pool := self.indexes.pool_of(node))),
                    *self.inventory.names(),
                }
            )
        )

    def claim(self, name: str) -> NodeClaim | None:
        """The NodeClaim with this name."""
        return next((claim for claim in self.indexes.claims() if claim.name == name), None)


async def read_state(tools: Tools) -> State:
    """Read everything once. Raises Refused."""
    kube, rng, cloud = tools.clients.kube, tools.clients.rng, tools.clients.cloud
    claims: Reflector[NodeClaim] = Reflector(kube, NODECLAIMS, rng=rng, indexes=claim_indexes(cloud.pool_name))
    nodes: Reflector[Node] = Reflector(
        kube, NODES, rng=rng, indexes=node_indexes(cloud.pool_of, cloud.resource_group_of)
    )
    crds = NamedReflectors(kube, CRDS, CRD_NAMES, rng=rng)
    inventory = Inventory(tools.clients.provider, rng=rng, on_change=_ignore, on_resync=_ignore)
    try:
        await inventory.list_once()
        await nodes.list_once()
        await claims.list_once()
        await crds.list_once()
    except CloudError as error:
        raise by_arm(error) from None
    except KubeError as error:
        raise by_api_server(error) from None
    indexes = Indexes(claims=claims, nodes=nodes, crds=crds, pool_name=cloud.pool_name, pool_of=cloud.pool_of)
    return State(indexes, nodes.items(), inventory)


def _ignore(*_: object) -> None:
    """The caches are read once."""
