"""The six calls of a cloud provider over the real SDK.

Each call is one request (LIST: one a page), which ends within 15 s; what fails is a `CloudError` only, and
cancellation passes. Each write to ARM is one audit line, whatever becomes of it: no header, body or token is ever in
it. Reads go through the client's pipeline, but are decoded here: the SDK's models cost ten times the rest of a LIST.

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

import structlog
from azure.core import MatchConditions

from cloudprovider.errors import CloudError, NotFound, Retryable
from cloudprovider.interface import Cluster, Failure, Instance, NextPage, Offering, at_once
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock

from .agentpool import from_agent_pool, to_agent_pool
from .arm_reads import CALL_SECONDS, at_home, decoded, judging, read, rows
from .client import API_VERSION, AzureConfig
from .error_table import Verb
from .errors import classify_operation
from .offerings import offerings

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

CLOSE_SECONDS = 5.0
# The operations that may still be asked why they failed: as many as a cluster has pools, and those being re-made.
MOST_OPERATIONS = 200
DEFAULT_MAX_POOLS = 100
KUBENET_NODES = 400
CLUSTER_AWAY = frozenset({"Creating", "Starting", "Stopping", "Stopped", "Deleting"})

log = structlog.get_logger("azure")


class Closable(Protocol):
    """A session or a credential."""

    async def close(self) -> None: ...


class Exchange:
    """What went over the wire in one write, as the SDK's hooks saw it."""

    def __init__(self) -> None:
        self.request_id = ""
        self.response: Any = None

    def sent(self, request: Any) -> None:
        self.request_id = str(request.http_request.headers.get("x-ms-client-request-id") or "")

    def answered(self, response: Any) -> None:
        self.response = response.http_response

    @property
    def status(self) -> int:
        """The HTTP status, 0 without an answer."""
        return self.response.status_code if self.response is not None else 0

    @property
    def operation(self) -> str:
        """Where the operation that was started can be asked about, "" if the answer does not say."""
        return str(self.response.headers.get("Azure-AsyncOperation") or "") if self.response is not None else ""

    @property
    def hooks(self) -> dict[str, Any]:
        return {"raw_request_hook": self.sent, "raw_response_hook": self.answered}


class AzureProvider:
    """One managed cluster's agent pools. `owned` are closed with the client, in their order."""

    def __init__(
        self, client: "ContainerServiceClient", config: AzureConfig, *, clock: Clock, owned: tuple[Closable, ...] = ()
    ) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._owned = owned
        self._where = (config.resource_group, config.cluster_name)
        self._operations: dict[str, tuple[datetime | None, str]] = {}

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        """PUT with `If-None-Match: *`."""
        chosen = offering or offerings(claim)[0]
        body: Any = to_agent_pool(claim, chosen, now=self._clock.now())
        async with self._writing("create", name, claim.uid, etag="") as exchange:
            await self._client.agent_pools.begin_create_or_update(
                *self._where, name, body, polling=False, match_condition=MatchConditions.IfMissing, **exchange.hooks
            )
            made = _named(name, decoded(exchange.response.content))
            self._keep_operation(made, exchange.operation)
            return made

    async def get(self, name: str) -> Instance:
        with judging("get", name):
            async with asyncio.timeout(CALL_SECONDS):
                return _named(name, await read(self._client, self._path("agentPools", name)))

    async def list(self, *, next_page: NextPage = at_once) -> list[Instance]:
        with judging("list", ""):
            pools = rows(self._client, self._path("agentPools"), self._config.arm_endpoint, next_page=next_page)
            return [from_agent_pool(_with_name(row)) async for row in pools]

    async def delete(self, instance: Instance) -> None:
        """DELETE with `If-Match`; the pods were drained before, so budgets are not asked again."""
        if not instance.etag:
            raise Retryable(
                "ETagUnknown", f"agent pool {instance.name} was read without an ETag; read again", conflict=True
            )
        async with self._writing("delete", instance.name, instance.claim_uid, etag=instance.etag) as exchange:
            await self._client.agent_pools.begin_delete(
                *self._where,
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
        """One GET of the operation of our own PUT, whose URL only this process knows; its 404 proves nothing."""
        made_at, url = self._operations.pop(instance.name, (None, ""))
        if not url or made_at != instance.put_time:
            return None
        with judging("get", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return classify_operation(await read(self._client, url))

    async def cluster(self) -> Cluster:
        with judging("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                body = await read(self._client, self._path())
            said = _member(body, "properties")
            state, most = str(said.get("provisioningState") or ""), said.get("maxAgentPools")
            power = str(_member(said, "powerState").get("code") or "Running")
            return Cluster(
                running=power == "Running" and state not in CLUSTER_AWAY,
                state=state,
                power_state=power,
                max_nodes=KUBENET_NODES if _member(said, "networkProfile").get("networkPlugin") == "kubenet" else None,
                max_pools=most if isinstance(most, int) and most > 0 else DEFAULT_MAX_POOLS,
                location=str(body.get("location") or self._config.location),
            )

    async def close(self) -> None:
        """Close the client and what it stands on; one that fails does not keep the others open."""
        async with asyncio.timeout(CLOSE_SECONDS), AsyncExitStack() as stack:
            for one in reversed((self._client, *self._owned)):
                stack.push_async_callback(one.close)

    def _keep_operation(self, made: Instance, url: str) -> None:
        """The newest ones; its token goes to ARM and to nobody else."""
        self._operations.pop(made.name, None)
        if url and at_home(url, self._config.arm_endpoint):
            self._operations[made.name] = (made.put_time, url)
        while len(self._operations) > MOST_OPERATIONS:
            del self._operations[next(iter(self._operations))]

    def _path(self, *below: str) -> str:
        path = "/".join((self._config.cluster_path, *below))
        return f"{quote(path)}?api-version={API_VERSION}"

    @asynccontextmanager
    async def _writing(self, verb: Verb, pool: str, claim_uid: str, *, etag: str) -> AsyncIterator[Exchange]:
        exchange, outcome = Exchange(), "cancelled"
        try:
            with judging(verb, pool):
                async with asyncio.timeout(CALL_SECONDS):
                    yield exchange
            outcome = "accepted"
        except CloudError as error:
            outcome = error.reason
            raise
        finally:
            log.info(
                "arm write",
                verb=verb,
                pool=pool,
                claim_uid=claim_uid,
                etag=etag,
                request_id=exchange.request_id,
                status=exchange.status,
                outcome=outcome,
            )


def _with_name(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not row.get("name"):
        raise ValueError("a row without a name")
    return row


def _named(name: str, body: Mapping[str, Any]) -> Instance:
    instance = from_agent_pool(body)
    if instance.name != name:
        raise ValueError("an answer about another pool")
    return instance


def _member(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
