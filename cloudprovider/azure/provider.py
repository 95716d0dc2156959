"""The CloudProvider of AKS agent pools, over the Azure SDK.

Each call is one request (LIST: one per page) with a timeout of 15 s. Calls raise only CloudError and pass cancellation
on. Each write to ARM is logged, whatever its result, without headers, bodies or tokens.

Source: docs/references/agent-pools.md#calls-and-accepted-statuses, docs/references/agent-pools.md#etags,
docs/references/agent-pools.md#long-running-operations, docs/references/rules.md#absence-needs-proof,
docs/references/rules.md#arm-request-budget, docs/references/rules.md#leader-election.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from azure.core import MatchConditions

from cloudprovider.errors import CloudError, NotFound, Retryable
from cloudprovider.interface import (
    BeforePage,
    Cluster,
    Failure,
    Instance,
    Offering,
    ResourceSku,
    Usage,
    immediately,
)
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.runtime.clock import Clock

from .agentpool import from_agent_pool, to_agent_pool
from .arm_reads import CALL_SECONDS, decode_object, get_object, is_arm_url, list_items, translate_errors
from .client import AzureConfig
from .error_table import RETRIED
from .errors import classify_operation
from .node_resources import default_max_pods
from .offerings import offerings
from .pricing import size_of
from .skus import decode_page, skus_url, to_skus
from .subscription import to_usages, usages_url
from .write_log import Write, WriteLog

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

CLOSE_SECONDS = 5.0
# Operations kept for `cause`: those of a full cluster and of pools that are created again.
MAX_OPERATIONS = 200
DEFAULT_MAX_POOLS = 100
KUBENET_NODES = 400
NOT_RUNNING_STATES = frozenset({"Creating", "Starting", "Stopping", "Stopped", "Deleting"})


class Closable(Protocol):
    """A session or a credential."""

    async def close(self) -> None: ...


class Exchange:
    """The request and response of one write, from the hooks of the SDK."""

    def __init__(self) -> None:
        self.request_id = ""
        self.response: Any = None

    def sent(self, request: Any) -> None:
        self.request_id = str(request.http_request.headers.get("x-ms-client-request-id") or "")

    def answered(self, response: Any) -> None:
        self.response = response.http_response

    @property
    def status(self) -> int:
        """The HTTP status; 0 without a response."""
        return self.response.status_code if self.response is not None else 0

    @property
    def operation(self) -> str:
        """The URL of the operation; "" if the response has none."""
        return str(self.response.headers.get("Azure-AsyncOperation") or "") if self.response is not None else ""

    @property
    def hooks(self) -> dict[str, Any]:
        return {"raw_request_hook": self.sent, "raw_response_hook": self.answered}


class AzureProvider:
    """The agent pools of one managed cluster. `owned` are closed after the client."""

    def __init__(
        self, client: "ContainerServiceClient", config: AzureConfig, *, clock: Clock, owned: tuple[Closable, ...] = ()
    ) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._owned = owned
        self._location = _normal(config.location)
        self._cluster_ids = (config.resource_group, config.cluster_name)
        self._operations: dict[str, tuple[datetime | None, str]] = {}

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        """PUT with `If-None-Match: *`."""
        async with self._write("create", name, claim.name, claim.uid, etag="") as exchange:
            chosen = offering or offerings(claim, self._location)[0]
            now, tags = self._clock.now(), self._config.tags
            body: Any = to_agent_pool(claim, chosen, now=now, node_class=node_class, tags=tags)
            await self._client.agent_pools.begin_create_or_update(
                *self._cluster_ids,
                name,
                body,
                polling=False,
                match_condition=MatchConditions.IfMissing,
                **exchange.hooks,
            )
            made = _instance_named(name, decode_object(exchange.response.content))
            self._store_operation(made, exchange.operation)
            return made

    async def get(self, name: str) -> Instance:
        with translate_errors("get", name):
            async with asyncio.timeout(CALL_SECONDS):
                return _instance_named(name, await get_object(self._client, self._path("agentPools", name)))

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        with translate_errors("list", ""):
            pools = list_items(
                self._client, self._path("agentPools"), self._config.arm_endpoint, before_page=before_page
            )
            return [from_agent_pool(_with_name(row)) async for row in pools]

    async def delete(self, instance: Instance) -> None:
        """DELETE with `If-Match`. The pods are drained already, so that AKS skips PodDisruptionBudgets."""
        if not instance.etag:
            raise Retryable(
                "ETagUnknown", f"agent pool {instance.name} was read without an ETag. {RETRIED}", conflict=True
            )
        named = (instance.name, instance.claim_name, instance.claim_uid)
        async with self._write("delete", *named, etag=instance.etag) as exchange:
            await self._client.agent_pools.begin_delete(
                *self._cluster_ids,
                instance.name,
                polling=False,
                ignore_pod_disruption_budget=True,
                etag=instance.etag,
                match_condition=MatchConditions.IfNotModified,
                **exchange.hooks,
            )
            if exchange.status == 204:
                raise NotFound("NotFound", f"agent pool {instance.name} does not exist", status=204)

    async def cause(self, instance: Instance) -> Failure | None:
        """One GET of the operation of the PUT, whose URL is in memory only; a 404 of it is not one of the pool."""
        made_at, url = self._operations.pop(instance.name, (None, ""))
        if not url or made_at != instance.put_time:
            return None
        with translate_errors("get", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return classify_operation(await get_object(self._client, url))

    async def cluster(self) -> Cluster:
        with translate_errors("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                body = await get_object(self._client, self._path())
            properties = _member(body, "properties")
            self._location = self._location or _normal(str(body.get("location") or ""))
            state, most = str(properties.get("provisioningState") or ""), properties.get("maxAgentPools")
            power = str(_member(properties, "powerState").get("code") or "Running")
            network = _member(properties, "networkProfile")
            plugin, mode = (str(network.get(member) or "") for member in ("networkPlugin", "networkPluginMode"))
            return Cluster(
                running=power == "Running" and state not in NOT_RUNNING_STATES,
                state=state,
                power_state=power,
                max_nodes=KUBENET_NODES if plugin == "kubenet" else None,
                max_pools=most if isinstance(most, int) and most > 0 else DEFAULT_MAX_POOLS,
                location=_normal(str(body.get("location") or self._config.location)),
                kubernetes_version=str(properties.get("currentKubernetesVersion") or ""),
                max_pods=default_max_pods(plugin, mode),
                node_resource_group=_group_id(self._config.subscription_id, properties.get("nodeResourceGroup")),
            )

    async def usages(self) -> Mapping[str, Usage]:
        with translate_errors("list", ""):
            if not self._location:
                await self.cluster()
            rows = list_items(self._client, usages_url(self._config, self._location), self._config.arm_endpoint)
            return to_usages([row async for row in rows])

    async def skus(self) -> Mapping[str, ResourceSku]:
        """As one call of 15 s. Sizes that the table does not have are left out."""
        with translate_errors("list", ""):
            if not self._location:
                await self.cluster()
            async with asyncio.timeout(CALL_SECONDS):
                rows = list_items(
                    self._client,
                    skus_url(self._config, self._location),
                    self._config.arm_endpoint,
                    decode=decode_page(lambda name: size_of(name) is not None),
                )
                return to_skus([row async for row in rows], self._location)

    async def latest_image(self, name: str) -> str:
        """A 404 is not one of the pool."""
        with translate_errors("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                body = await get_object(self._client, self._path("agentPools", name, "upgradeProfiles", "default"))
                return str(_member(body, "properties").get("latestNodeImageVersion") or "")

    async def close(self) -> None:
        """Close the client and `owned`; the failure of one does not prevent the others."""
        async with asyncio.timeout(CLOSE_SECONDS), AsyncExitStack() as stack:
            for one in reversed((self._client, *self._owned)):
                stack.push_async_callback(one.close)

    def _store_operation(self, made: Instance, url: str) -> None:
        """Keep the URL of the operation if its host is ARM, because the token is sent to it."""
        self._operations.pop(made.name, None)
        if url and is_arm_url(url, self._config.arm_endpoint):
            self._operations[made.name] = (made.put_time, url)
        while len(self._operations) > MAX_OPERATIONS:
            del self._operations[next(iter(self._operations))]

    def _path(self, *below: str) -> str:
        path = "/".join((self._config.cluster_path, *below))
        return f"{quote(path)}?api-version={self._config.api_version}"

    @asynccontextmanager
    async def _write(self, verb: Write, pool: str, claim: str, claim_uid: str, *, etag: str) -> AsyncIterator[Exchange]:
        exchange = Exchange()
        line = WriteLog(verb, pool=pool, NodeClaim={"name": claim}, claim_uid=claim_uid, etag=etag)
        try:
            with translate_errors(verb, pool):
                async with asyncio.timeout(CALL_SECONDS):
                    yield exchange
        except CloudError as error:
            line.failed(error, exchange.request_id, exchange.status)
            raise
        except asyncio.CancelledError:
            line.cancelled(exchange.request_id, exchange.status)
            raise
        line.accepted(exchange.request_id, exchange.status)


def _group_id(subscription: str, group: object) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{group}".lower() if isinstance(group, str) and group else ""


def _normal(location: str) -> str:
    """A location as in labels of Nodes: `West Europe` is westeurope."""
    return location.replace(" ", "").lower()


def _with_name(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not row.get("name"):
        raise ValueError("an agent pool without a name")
    return row


def _instance_named(name: str, body: Mapping[str, Any]) -> Instance:
    instance = from_agent_pool(body)
    if instance.name != name:
        raise ValueError("the response is about another agent pool")
    return instance


def _member(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
