"""The simulated ARM under the real azure-mgmt-containerservice client, over loopback sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.core import MatchConditions
from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.core.rest import HttpRequest
from azure.mgmt.containerservice.aio import ContainerServiceClient
from azure.mgmt.containerservice.models import AgentPool, AgentPoolDeleteMachinesParameter

from provisioner.simulator.azure import arm, errors, faults
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings

SIZE = "Standard_NC24ads_A100_v4"
WHERE = ("rg", "aks")
POOL = {
    "count": 1,
    "vm_size": SIZE,
    "type_properties_type": "VirtualMachineScaleSets",
    "os_type": "Linux",
    "node_labels": {"kaito.sh/workspace": "w"},
    "node_taints": ["sku=gpu:NoSchedule"],
    "tags": {"who": "me"},
}


class Plain(SansIOHTTPPolicy[object, object]):
    """Sends the bearer token over plain http."""

    def on_request(self, request: Any) -> None:
        request.context.options["enforce_https"] = False


class Credential:
    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.options.append(options)
        return AccessToken("letmein", 4102444800)

    async def close(self) -> None: ...

    async def __aenter__(self) -> "Credential":
        return self

    async def __aexit__(self, *exc: object) -> None: ...


class Arm:
    """A simulated cloud on a socket, and a real client for it."""

    def __init__(self, cloud: AzureCloud, app: web.Application, origin: str, session: aiohttp.ClientSession) -> None:
        self.cloud, self.app, self.origin, self.session = cloud, app, origin, session
        self.credential = Credential()
        self.client = ContainerServiceClient(
            self.credential,
            AzureSettings().subscription,
            base_url=origin,
            transport=AioHttpTransport(session=session, session_owner=False, use_env_settings=False),
            per_call_policies=[Plain()],
            retry_total=0,
            polling_interval=0.02,
        )
        self.pools = self.client.agent_pools

    async def put(self, name: str, *, polling: bool = False, **changes: Any) -> Any:
        headers: list[Any] = []
        options: dict[str, Any] = {k: changes.pop(k) for k in ("match_condition", "etag") if k in changes}
        if not polling:
            options["polling"] = False
        poller = await self.pools.begin_create_or_update(
            *WHERE,
            name,
            AgentPool(**{**POOL, **changes}),
            raw_response_hook=lambda response: headers.append(response.http_response),
            **options,
        )
        self.last = headers[0]
        return await poller.result()


@contextlib.asynccontextmanager
async def arm_on_socket(**settings: Any) -> AsyncIterator[Arm]:
    """With speed 1200 a minute takes 50 ms."""
    cloud = AzureCloud(
        AzureSettings(**{"speed": 1200.0, "token": "letmein", "list_seconds": 0.0, **settings}),
        lambda: datetime.now(UTC),
        Random(7),
    )
    app = arm.make_arm_app(cloud)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with asyncio.TaskGroup() as group, aiohttp.ClientSession(trust_env=False) as session:
        clock = group.create_task(cloud.run())
        try:
            yield Arm(cloud, app, f"http://127.0.0.1:{port}", session)
        finally:
            clock.cancel()
            await runner.cleanup()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited is the simulator's state, past its API
            await asyncio.sleep(0.005)


@pytest.mark.asyncio
async def test_a_service_that_ignores_preconditions_updates_what_is_there() -> None:
    """With ignore_preconditions the same PUT over a finished pool is an update: 200 Updating."""
    async with arm_on_socket(ignore_preconditions=True) as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        changed = await azure.put("gpu1", match_condition=MatchConditions.IfMissing)
        assert azure.last.status_code == 200
        assert changed.provisioning_state == "Updating"


@pytest.mark.asyncio
async def test_a_busy_pool_answers_409_with_the_pending_operation() -> None:
    """A pool that is being created can be neither changed nor deleted, unless DELETE is set to preempt."""
    async with arm_on_socket(speed=1.0) as azure:
        await azure.put("gpu1")
        with pytest.raises(ResourceExistsError) as put:
            await azure.put("gpu1")
        assert put.value.error.code == "OperationNotAllowed"
        assert "Another agentpool operation (gpu1 - Creating) is in progress" in str(put.value.error.message)
        with pytest.raises(ResourceExistsError):
            await azure.pools.begin_delete(*WHERE, "gpu1", polling=False)

        azure.cloud.configure(delete_preempts=True)
        creating = azure.cloud.pools["gpu1"].operation
        await azure.pools.begin_delete(*WHERE, "gpu1", polling=False)
        assert azure.cloud.pools["gpu1"].state == "Deleting"
        preempted = azure.cloud.operations.get(creating, 0.0)
        assert preempted is not None
        assert preempted.error is not None
        assert preempted.error["code"] == "AKSOperationPreemptedByDelete"


@pytest.mark.asyncio
async def test_the_delete_matrix_of_etags() -> None:
    """DELETE: right eTag 202, wrong one 412, absent pool 204 with or without one, both headers 400."""
    async with arm_on_socket() as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        stale = azure.cloud.pools["gpu1"].etag
        azure.cloud.cluster_operation("Succeeded")
        with pytest.raises(ResourceModifiedError) as wrong:
            await azure.pools.begin_delete(
                *WHERE, "gpu1", etag=stale, match_condition=MatchConditions.IfNotModified, polling=False
            )
        assert wrong.value.status_code == 412
        with pytest.raises(HttpResponseError) as both:
            await azure.pools.begin_delete(
                *WHERE, "gpu1", headers={"If-Match": "x", "If-None-Match": "*"}, polling=False
            )
        assert (both.value.status_code, both.value.error.code) == (400, "BadRequest")
        assert azure.cloud.pools["gpu1"].state == "Succeeded"

        now = (await azure.pools.get(*WHERE, "gpu1")).e_tag
        poller = await azure.pools.begin_delete(*WHERE, "gpu1", etag=now, match_condition=MatchConditions.IfNotModified)
        assert (await azure.pools.get(*WHERE, "gpu1")).provisioning_state == "Deleting"
        await poller.result()
        with pytest.raises(ResourceNotFoundError) as gone:
            await azure.pools.get(*WHERE, "gpu1")
        assert gone.value.error.code == "NotFound"
        assert "Agent Pool not found" in str(gone.value.error.message)

        conditional: dict[str, Any] = {"etag": "whatever", "match_condition": MatchConditions.IfNotModified}
        for extra in ({}, conditional):
            await (await azure.pools.begin_delete(*WHERE, "gpu1", **extra)).result()
        assert [request.status for request in azure.cloud.requests if request.method == "DELETE"][-2:] == [204, 204]


@pytest.mark.asyncio
async def test_an_operation_can_be_polled_by_its_signed_url_only() -> None:
    """Operation URLs carry 3 KB of signature and another api-version; a changed query is refused, an old one is 404."""
    async with arm_on_socket(operation_ttl_seconds=600.0) as azure:
        await azure.put("gpu1")
        url = azure.last.headers["Azure-AsyncOperation"]
        assert 3000 < len(url) < 8000
        assert "api-version=2016-03-30" in url
        poll = await azure.client.send_request(HttpRequest("GET", url))
        assert poll.json()["status"] == "InProgress"
        assert len(poll.json()["startTime"].rpartition(".")[2]) == len("1234567Z")
        forged = await azure.client.send_request(HttpRequest("GET", url.replace("&h=", "&h=0")))
        assert forged.status_code == 403
        await until(lambda: azure.cloud.pools["gpu1"].state == "Succeeded")
        done = await azure.client.send_request(HttpRequest("GET", url))
        assert done.json()["status"] == "Succeeded"
        assert done.json()["endTime"]
        await asyncio.sleep(0.5)
        expired = await azure.client.send_request(HttpRequest("GET", url))
        assert expired.status_code == 404


@pytest.mark.asyncio
async def test_a_failed_create_surfaces_in_the_operation_and_stays_on_the_pool() -> None:
    """The poller raises with status 200 and AKS's wrapper; GET shows the same error in status.provisioningError."""
    async with arm_on_socket() as azure:
        azure.cloud.faults.append(faults.capacity("ZonalAllocationFailed", times=1))
        with pytest.raises(HttpResponseError) as failed:
            await azure.put("gpu1", polling=True)
        assert failed.value.status_code == 200
        assert failed.value.error.code == "ReconcileVMSSAgentPoolFailed"
        assert failed.value.error.details[0].code == "ZonalAllocationFailed"
        pool = await azure.pools.get(*WHERE, "gpu1")
        assert pool.provisioning_state == "Failed"
        assert pool.status.provisioning_error.details[0].code == "ZonalAllocationFailed"
        assert azure.cloud.pools["gpu1"].machines == ()
        assert (await azure.put("gpu2", polling=True)).provisioning_state == "Succeeded"


@pytest.mark.asyncio
async def test_quota_refuses_at_once_or_later() -> None:
    """The preflight is a flat 400 without a pool; the asynchronous one leaves a Failed pool with Compute's message."""
    async with arm_on_socket() as azure:
        azure.cloud.faults.append(faults.quota_preflight(times=1))
        with pytest.raises(HttpResponseError) as refused:
            await azure.put("gpu1")
        assert (refused.value.status_code, refused.value.error.code) == (400, "ErrCode_InsufficientVCPUQuota")
        assert "gpu1" not in azure.cloud.pools

        azure.cloud.faults.append(faults.quota(times=1, how="message"))
        with pytest.raises(HttpResponseError) as failed:
            await azure.put("gpu1", polling=True)
        assert failed.value.error.code == "CreateVMSSAgentPoolFailed"
        assert 'Code="OperationNotAllowed"' in str(failed.value.error.message)
        assert "Family Cores quota" in str(failed.value.error.message)


@pytest.mark.asyncio
async def test_tokens_and_claims_challenges() -> None:
    """A wrong token is 401; a claims challenge makes the client fetch another token by itself and succeed."""
    async with arm_on_socket() as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        azure.cloud.faults.append(Fault(verb="GET", answer=errors.claims_challenge()))
        assert (await azure.pools.get(*WHERE, "gpu1")).name == "gpu1"
        assert any(options.get("claims") for options in azure.credential.options)
        azure.cloud.configure(token="another")
        with pytest.raises(ClientAuthenticationError):
            await azure.pools.get(*WHERE, "gpu1")
        answer = await azure.session.get(f"{azure.origin}{azure.cloud.settings.cluster_id}?api-version=1")
        assert answer.status == 401
        async with azure.session.get(
            f"{azure.origin}{azure.cloud.settings.cluster_id.upper()}", headers={"Authorization": "Bearer another"}
        ) as lacking:
            assert (lacking.status, (await lacking.json())["error"]["code"]) == (400, "MissingApiVersionParameter")


@pytest.mark.asyncio
async def test_puts_beyond_the_bucket_are_throttled_with_retry_after() -> None:
    """A pool accepts 20 PUTs, then one a minute; other pools have their own bucket."""
    async with arm_on_socket(speed=1.0, ignore_preconditions=True) as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        statuses = []
        for _ in range(21):
            try:
                await azure.put("gpu1", count=2)
            except HttpResponseError as error:
                statuses.append(error.status_code)
                last = error
        assert statuses == [409] * 19 + [429]
        assert last.error.code == "Throttled"
        assert 55 <= int(last.response.headers["Retry-After"]) <= 60
        assert (await azure.put("gpu2")).provisioning_state == "Creating"


@pytest.mark.asyncio
async def test_a_connection_may_drop_before_or_after_the_write() -> None:
    """Either way the client sees a broken connection; the pool exists only if the connection dropped after the
    write.
    """
    async with arm_on_socket() as azure:
        azure.cloud.faults.append(Fault(verb="PUT", drop="before", times=2))
        with pytest.raises(ServiceRequestError):
            await azure.put("gpu1")
        assert azure.cloud.pools == {}
        azure.cloud.faults[:] = [Fault(verb="PUT", drop="after", times=2)]
        with pytest.raises((ServiceRequestError, ResourceExistsError)):
            await azure.put("gpu1", match_condition=MatchConditions.IfMissing)
        assert azure.cloud.pools["gpu1"].state in ("Creating", "Succeeded")
        assert {request.status for request in azure.cloud.requests} == {0}


@pytest.mark.asyncio
async def test_proxies_answer_html_and_slow_calls_still_count() -> None:
    """A 502 is HTML without an error code; a call that times out after its effect has had its effect."""
    async with arm_on_socket(speed=1.0) as azure:
        azure.cloud.faults.append(Fault(verb="LIST", answer=errors.html(502)))
        with pytest.raises(HttpResponseError) as proxy:
            [pool async for pool in azure.pools.list(*WHERE)]
        assert (proxy.value.status_code, proxy.value.error) == (502, None)
        azure.cloud.faults.append(Fault(verb="PUT", slow_seconds=30.0, slow="after"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await azure.put("gpu1")
        assert azure.cloud.pools["gpu1"].state == "Creating"


@pytest.mark.asyncio
async def test_machines_can_be_listed_and_deleted() -> None:
    """deleteMachines deletes the named machine, lowers count, and refuses unknown names."""
    async with arm_on_socket() as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE, availabilityZones=["2"])
        (machine,) = [machine async for machine in azure.client.machines.list(*WHERE, "gpu1")]
        assert machine.name is not None
        assert machine.name.startswith("aks-gpu1-")
        assert machine.name.endswith("-vmss000000")
        assert machine.zones == ["2"]
        assert "/resourceGroups/MC_rg_aks_westeurope/" in str(machine.properties.resource_id)
        assert (await azure.client.machines.get(*WHERE, "gpu1", machine.name)).name == machine.name
        with pytest.raises(HttpResponseError) as unknown:
            await azure.pools.begin_delete_machines(
                *WHERE, "gpu1", AgentPoolDeleteMachinesParameter(machine_names=["nobody"])
            )
        assert (unknown.value.status_code, unknown.value.error.code) == (400, "InvalidParameter")
        assert "Cannot find any valid machines" in str(unknown.value.error.message)
        poller = await azure.pools.begin_delete_machines(
            *WHERE, "gpu1", AgentPoolDeleteMachinesParameter(machine_names=[machine.name])
        )
        await poller.result()
        assert (await azure.pools.get(*WHERE, "gpu1")).count == 0
        assert [machine async for machine in azure.client.machines.list(*WHERE, "gpu1")] == []


@pytest.mark.asyncio
async def test_an_abort_cancels_pool_and_operation() -> None:
    """Aborting the creation of a pool ends it and its operation as Canceled; with nothing to abort it is 409."""
    async with arm_on_socket() as azure:
        await azure.put("gpu1")
        creating = azure.last.headers["Azure-AsyncOperation"]
        await (await azure.pools.begin_abort_latest_operation(*WHERE, "gpu1")).result()
        assert (await azure.pools.get(*WHERE, "gpu1")).provisioning_state == "Canceled"
        assert (await azure.client.send_request(HttpRequest("GET", creating))).json()["status"] == "Canceled"
        with pytest.raises(ResourceExistsError):
            await azure.pools.begin_abort_latest_operation(*WHERE, "gpu1")


@pytest.mark.asyncio
async def test_a_stopped_or_busy_cluster_blocks_its_pools() -> None:
    """Cluster-level operations answer 409 on pools; a stopped cluster keeps its pools and loses its machines."""
    async with arm_on_socket() as azure:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        azure.cloud.cluster_operation("Updating")
        with pytest.raises(ResourceExistsError) as busy:
            await azure.put("gpu2")
        assert "Another operation (Updating) is in progress" in str(busy.value.error.message)
        azure.cloud.cluster_operation("Succeeded")
        azure.cloud.stop_cluster()
        cluster = await azure.client.managed_clusters.get(*WHERE)
        assert (cluster.power_state.code, cluster.max_agent_pools) == ("Stopped", 100)
        stopped = await azure.pools.get(*WHERE, "gpu1")
        assert stopped.power_state.code == "Stopped"
        assert azure.cloud.pools["gpu1"].machines == ()
        azure.cloud.start_cluster()
        await until(lambda: azure.cloud.cluster_state == "Succeeded" and azure.cloud.pools["gpu1"].machines == (1,))


@pytest.mark.asyncio
async def test_hooks_see_each_request_before_and_after_its_effect() -> None:
    """A before hook can answer instead of the service; an after hook runs when the pool exists."""
    async with arm_on_socket() as azure:
        seen: list[tuple[str, bool]] = []

        async def before(request: web.Request) -> web.StreamResponse | None:
            seen.append(("before " + request.method, "gpu1" in azure.cloud.pools))
            return web.Response(status=503) if request.method == "GET" else None

        async def after(request: web.Request, response: web.StreamResponse) -> None:
            seen.append((f"after {request.method} {response.status}", "gpu1" in azure.cloud.pools))

        azure.app[arm.BEFORE].append(before)
        azure.app[arm.AFTER].append(after)
        await azure.put("gpu1")
        with pytest.raises(HttpResponseError):
            await azure.pools.get(*WHERE, "gpu1")
        assert seen == [("before PUT", False), ("after PUT 201", True), ("before GET", True)]
