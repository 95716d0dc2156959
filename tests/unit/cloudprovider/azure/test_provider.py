"""The provider over the Azure SDK, against the simulated ARM, on an in-memory wire and virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest
import structlog
from aiohttp import web

from cloudprovider.azure.client import AzureConfig, StaticToken, build_client, disable_retries
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.errors import CloudError, NoCapacity, NotFound, Rejected, Retryable
from cloudprovider.interface import InstanceState
from provisioner.api import labels
from provisioner.simulator.azure import arm, errors, faults
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.loop import VirtualClock, run
from provisioner.simulator.network import MemoryConnector, Network
from tests.stories import run_by
from tests.unit.builders import KEY, SIZE, UID, claim

T = TypeVar("T")
EPOCH = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
TOKEN = "a-token-nobody-may-see"
HOST = "management.azure.com"
AUDITED = {"event", "log_level", "pool", "NodeClaim", "claim_uid", "etag", "request_id", "status"}
REFUSED = {"code", "reason", "error"}


class Azure:
    """A simulated cloud on a wire, and a provider with the real client."""

    def __init__(self, cloud: AzureCloud, wire: Network, session: aiohttp.ClientSession, clock: VirtualClock) -> None:
        self.cloud, self.network, self.clock, self.session = cloud, wire, clock, session
        self.provider = self.provider_for()

    def provider_for(self, **changes: Any) -> AzureProvider:
        settings = self.cloud.settings
        where = {
            "subscription_id": settings.subscription,
            "resource_group": settings.resource_group,
            "cluster_name": settings.cluster,
            **changes,
        }
        config = AzureConfig(**where)
        client = build_client(config, self.session, StaticToken(TOKEN), version="1.2.3")
        return AzureProvider(client, config, clock=self.clock, owned=(self.session,))

    async def answer_with(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> web.BaseRunner:
        """Replace the cloud by another server; the caller closes it."""
        runner = web.ServerRunner(web.Server(handler), shutdown_timeout=1)
        await runner.setup()
        assert runner.server is not None
        self.network.servers[HOST] = runner.server
        return runner


def on_azure(story: Callable[[Azure], Awaitable[T]], **settings: Any) -> T:
    """Run a story on virtual time."""

    async def main() -> T:
        loop = asyncio.get_running_loop()
        clock, wire = VirtualClock(loop, EPOCH), Network(loop)
        wanted = {"token": TOKEN, "create_seconds": (180.0, 180.0), "delete_seconds": (120.0, 120.0), **settings}
        cloud = AzureCloud(AzureSettings(**wanted), clock.now, Random(7))
        runner = web.AppRunner(arm.make_arm_app(cloud, scheme="https"), access_log=None, shutdown_timeout=1)
        await runner.setup()
        assert runner.server is not None
        wire.servers[HOST] = runner.server
        session = disable_retries(aiohttp.ClientSession(connector=MemoryConnector(wire, "us"), trust_env=False))
        async with asyncio.TaskGroup() as group:
            life = group.create_task(cloud.run())
            azure = Azure(cloud, wire, session, clock)
            try:
                return await story(azure)
            finally:
                await azure.provider.close()
                assert session.closed
                life.cancel()
                await runner.cleanup()

    return run(main, seed=1, epoch=EPOCH)


async def failing(call: Awaitable[Any]) -> CloudError:
    with pytest.raises(CloudError) as failed:
        await call
    return failed.value


@run_by(on_azure)
async def test_create_get_list_delete(azure: Azure) -> None:
    """Create returns at acceptance, get and list show the states, delete ends in a proven absence."""
    created = await azure.provider.create(claim(), KEY)
    assert (created.name, created.state, created.size) == (KEY, InstanceState.CREATING, SIZE)
    assert (created.claim_uid, created.label_uid) == (UID, UID)
    assert created.put_time == EPOCH
    assert created.etag
    await asyncio.sleep(300)
    (running,) = await azure.provider.list()
    assert running.state is InstanceState.RUNNING
    assert await azure.provider.get(KEY) == running
    await azure.provider.delete(running)
    assert (await azure.provider.get(KEY)).state is InstanceState.DELETING
    await asyncio.sleep(300)
    assert isinstance(await failing(azure.provider.get(KEY)), NotFound)
    assert isinstance(await failing(azure.provider.delete(running)), NotFound)
    assert await azure.provider.list() == []
    assert azure.cloud.counts["PUT"] == 1


@run_by(on_azure)
async def test_the_pool_has_the_fields_of_the_claim(azure: Azure) -> None:
    """The SDK sends wire names unchanged: size, type, disk, marks and taints."""
    await azure.provider.create(claim(), KEY)
    sent = azure.cloud.pools[KEY].properties
    assert sent["type"] == "VirtualMachineScaleSets"
    assert (sent["vmSize"], sent["count"], sent["osDiskSizeGB"]) == (SIZE, 1, 1024)
    assert sent["nodeTaints"] == ["sku=gpu:NoSchedule"]
    assert sent["tags"][labels.TAG_CLAIM_UID] == UID
    assert sent["nodeLabels"][labels.CLAIM_UID] == UID


@run_by(on_azure)
async def test_create_does_not_change_an_existing_pool(azure: Azure) -> None:
    """A second PUT of the name is 412, a conflict."""
    before = azure.cloud.seed_pool(KEY, vmSize=SIZE)
    error = await failing(azure.provider.create(claim(), KEY))
    assert isinstance(error, Retryable)
    assert (error.conflict, error.status, error.reason) == (True, 412, "PoolExists")
    assert azure.cloud.pools[KEY] == before


@run_by(on_azure)
async def test_an_invalid_claim_is_rejected_without_a_request(azure: Azure) -> None:
    """Rejected, final."""
    error = await failing(azure.provider.create(claim(requests={"storage": "5Gi"}), KEY))
    assert isinstance(error, Rejected)
    assert error.final
    assert azure.cloud.requests == []


@run_by(on_azure)
async def test_delete_needs_the_current_etag(azure: Azure) -> None:
    """A changed ETag is a conflict; without one no request is sent."""
    azure.cloud.seed_pool(KEY, vmSize=SIZE)
    (read,) = await azure.provider.list()
    azure.cloud.cluster_operation("Succeeded")
    changed = await failing(azure.provider.delete(read))
    assert isinstance(changed, Retryable)
    assert (changed.conflict, changed.status) == (True, 412)
    blind = await failing(azure.provider.delete(msgspec.structs.replace(read, etag="")))
    assert isinstance(blind, Retryable)
    assert azure.cloud.counts["DELETE"] == 1
    assert azure.cloud.pools[KEY].state == "Succeeded"


@run_by(on_azure)
async def test_the_parameters_of_delete(azure: Azure) -> None:
    """If-Match with the ETag; PodDisruptionBudgets are ignored, because the pods are drained."""
    seen: list[web.BaseRequest] = []

    async def accept(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request)
        return web.Response(status=202)

    azure.cloud.seed_pool(KEY, vmSize=SIZE)
    read = await azure.provider.get(KEY)
    for link in azure.network.links("us", HOST):
        link.client.close()
    runner = await azure.answer_with(accept)
    await azure.provider.delete(read)
    (request,) = seen
    assert request.headers["If-Match"].strip('"') == read.etag
    assert request.query["ignore-pod-disruption-budget"] == "true"
    await runner.cleanup()


@run_by(on_azure)
async def test_a_busy_pool_is_a_conflict(azure: Azure) -> None:
    """DELETE while AKS creates the pool is 409."""
    created = await azure.provider.create(claim(), KEY)
    error = await failing(azure.provider.delete(created))
    assert isinstance(error, Retryable)
    assert (error.reason, error.conflict, error.status) == ("OperationInProgress", True, 409)


@pytest.mark.parametrize(
    ("elsewhere", "reason"),
    [
        ({"cluster_name": "other"}, "ClusterNotFound"),
        ({"resource_group": "other"}, "ResourceGroupNotFound"),
        ({"subscription_id": "other"}, "SubscriptionNotFound"),
    ],
)
@run_by(on_azure)
async def test_404s_of_the_cluster_are_not_absence(azure: Azure, elsewhere: dict[str, str], reason: str) -> None:
    """A 404 of the cluster, group or subscription is a wrong setting, which the message names."""
    azure.cloud.seed_pool(KEY, vmSize=SIZE)
    (there,) = await azure.provider.list()
    lost = azure.provider_for(**elsewhere)
    for call in (
        lost.get(KEY),
        lost.list(),
        lost.delete(there),
        lost.create(claim(), KEY),
        lost.cluster(),
    ):
        error = await failing(call)
        assert isinstance(error, Retryable)
        assert error.reason == reason
        assert error.message.endswith("AZURE_CLUSTER_NAME")


@run_by(on_azure)
async def test_a_failed_pool_has_a_failure(azure: Azure) -> None:
    """A capacity error after acceptance is read from the pool, with a remedy."""
    azure.cloud.faults.append(faults.quota(times=1, how="message"))
    await azure.provider.create(claim(), KEY)
    await asyncio.sleep(60)
    failed = await azure.provider.get(KEY)
    assert failed.state is InstanceState.FAILED
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.reason) == ("no_capacity", "QuotaExceeded")
    assert failed.failure.message.endswith("az vm list-usage -l westeurope -o table")


SILENT = faults.Failure(error=faults.wrapped(faults.no_capacity()), after_seconds=45.0, silent=True)


@run_by(on_azure)
async def test_the_operation_of_a_failed_pool_is_read_once(azure: Azure) -> None:
    """Only the operation of our own PUT is known, in memory."""
    azure.cloud.faults.append(Fault(verb="PUT", failure=SILENT))
    await azure.provider.create(claim(), KEY)
    await asyncio.sleep(60)
    pool = await azure.provider.get(KEY)
    assert (pool.state, pool.failure) == (InstanceState.FAILED, None)
    assert await azure.provider_for().cause(pool) is None
    assert azure.cloud.counts["OPERATION"] == 0
    reported = await azure.provider.cause(pool)
    assert reported is not None
    assert (reported.kind, reported.reason) == ("no_capacity", "AllocationFailed")
    assert await azure.provider.cause(pool) is None
    assert azure.cloud.counts["OPERATION"] == 1


@run_by(on_azure, operation_ttl_seconds=10.0)
async def test_an_expired_operation(azure: Azure) -> None:
    """Its 404 is an error, and not one of the pool."""
    azure.cloud.faults.append(Fault(verb="PUT", failure=SILENT))
    await azure.provider.create(claim(), KEY)
    await asyncio.sleep(60)
    pool = await azure.provider.get(KEY)
    error = await failing(azure.provider.cause(pool))
    assert isinstance(error, Retryable)
    assert error.reason == "NotFoundWithoutProof"
    assert await azure.provider.cause(pool) is None
    assert await azure.provider.get(KEY) == pool


@run_by(on_azure)
async def test_the_operation_of_another_pool_is_not_read(azure: Azure) -> None:
    """A later pool of the same name did not fail by our operation."""
    made = await azure.provider.create(claim(), KEY)
    other = msgspec.structs.replace(made, put_time=EPOCH + timedelta(seconds=1), state=InstanceState.FAILED)
    assert await azure.provider.cause(other) is None
    assert azure.cloud.counts["OPERATION"] == 0


@run_by(on_azure)
async def test_an_operation_at_another_host_is_not_read(azure: Azure) -> None:
    """The token is sent to ARM only."""
    body = {"name": KEY, "properties": {"provisioningState": "Creating", "vmSize": SIZE}}
    headers = {"Azure-AsyncOperation": "https://elsewhere.example/operations/1"}
    azure.cloud.faults.append(Fault(verb="PUT", answer=errors.Answer(201, body, headers)))
    made = await azure.provider.create(claim(), KEY)
    assert await azure.provider.cause(made) is None


@run_by(on_azure)
async def test_a_quota_error_is_no_capacity(azure: Azure) -> None:
    """AKS rejects the PUT; no pool is created."""
    azure.cloud.faults.append(faults.quota_preflight(times=1))
    error = await failing(azure.provider.create(claim(), KEY))
    assert isinstance(error, NoCapacity)
    assert (error.scope, error.status) == ("size", 400)
    assert azure.cloud.pools == {}


@run_by(on_azure, page_size=2)
async def test_a_list_is_complete_or_an_error(azure: Azure) -> None:
    """Pages are joined; one that fails fails the list."""
    for name in ("a", "b", "c", "d", "e"):
        azure.cloud.seed_pool(name, vmSize=SIZE)
    assert [pool.name for pool in await azure.provider.list()] == ["a", "b", "c", "d", "e"]
    assert azure.cloud.counts["LIST"] == 3
    azure.cloud.faults.append(Fault(verb="LIST", skip=1, answer=errors.html(502)))
    error = await failing(azure.provider.list())
    assert isinstance(error, Retryable)
    assert error.status == 502


@pytest.mark.parametrize(
    "page",
    [
        {"nextLink": None},
        {"value": "none"},
        {"value": [{"properties": {}}]},
        {"value": [], "nextLink": "https://elsewhere.example/more"},
        {"value": [], "nextLink": f"https://{HOST}/again?api-version=1"},
    ],
)
@run_by(on_azure)
async def test_an_invalid_list_is_an_error(azure: Azure, page: dict[str, Any]) -> None:
    """No items, items without names, pages of another host and endless pages are errors, not an empty list."""
    azure.cloud.faults.append(Fault(times=1000, answer=errors.Answer(200, page)))
    error = await failing(azure.provider.list())
    assert isinstance(error, Retryable)
    assert error.reason == "InvalidResponse"


@pytest.mark.parametrize(
    "answer",
    [
        errors.html(200),
        errors.Answer(200, {"name": "another", "properties": {"provisioningState": "Failed"}}),
        errors.Answer(200, {}),
        errors.html(302),
        errors.html(404),
        errors.Answer(404, None),
    ],
)
@run_by(on_azure)
async def test_an_invalid_response_to_get(azure: Azure, answer: errors.Answer) -> None:
    """HTML, the body of another pool, a redirect or a 404 without a body are not absence."""
    azure.cloud.seed_pool(KEY, vmSize=SIZE)
    azure.cloud.faults.append(Fault(verb="GET", answer=answer))
    assert isinstance(await failing(azure.provider.get(KEY)), Retryable)


@pytest.mark.parametrize("drop", ["before", "after"])
@run_by(on_azure)
async def test_a_write_is_sent_once(azure: Azure, drop: str) -> None:
    """After a closed connection the error has status 0; the pool may exist."""
    azure.cloud.faults.append(Fault(verb="PUT", drop=drop, times=99))
    error = await failing(azure.provider.create(claim(), KEY))
    assert isinstance(error, Retryable)
    assert (error.status, error.conflict) == (0, False)
    assert azure.cloud.counts["PUT"] == 1
    assert (KEY in azure.cloud.pools) == (drop == "after")


@run_by(on_azure)
async def test_calls_time_out_after_fifteen_seconds(azure: Azure) -> None:
    """No call outlives the reserve of the Lease."""
    loop = asyncio.get_running_loop()
    azure.cloud.faults.append(Fault(slow_seconds=400.0, slow="before", times=99))
    for call in (azure.provider.create(claim(), KEY), azure.provider.get(KEY), azure.provider.list()):
        began = loop.time()
        error = await failing(call)
        assert isinstance(error, Retryable)
        assert (error.reason, error.status) == ("Timeout", 0)
        assert loop.time() - began == 15.0


@run_by(on_azure)
async def test_an_incomplete_response_times_out(azure: Azure) -> None:
    """The connection is closed with the call."""

    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=201 if request.method == "PUT" else 200)
        await response.prepare(request)
        await response.write(b'{"name": ')
        await asyncio.sleep(3600)
        return response

    runner = await azure.answer_with(half)
    for call in (azure.provider.create(claim(), KEY), azure.provider.get(KEY), azure.provider.list()):
        began = asyncio.get_running_loop().time()
        error = await failing(call)
        assert isinstance(error, Retryable)
        assert (error.reason, error.status) == ("Timeout", 0)
        assert asyncio.get_running_loop().time() - began == 15.0
        assert azure.session.connector is not None
        assert not azure.session.connector._acquired
    await runner.cleanup()


@run_by(on_azure)
async def test_a_read_registers_no_resource_provider(azure: Azure) -> None:
    """The SDK would register a missing provider for minutes; a read is one request."""
    missing = errors.gateway(
        409, "MissingSubscriptionRegistration", "Not registered to use namespace 'Microsoft.ContainerService'."
    )
    azure.cloud.faults.append(Fault(times=99, answer=missing))
    error = await failing(azure.provider.get(KEY))
    assert (error.reason, error.after) == ("MissingSubscriptionRegistration", 300.0)
    assert [request.method for request in azure.cloud.requests] == ["GET"]


@run_by(on_azure)
async def test_a_revoked_token_is_renewed_within_the_call(azure: Azure) -> None:
    """After a claims challenge the request is sent with another token."""
    azure.cloud.seed_pool(KEY, vmSize=SIZE)
    azure.cloud.faults.append(Fault(verb="GET", answer=errors.claims_challenge()))
    assert (await azure.provider.get(KEY)).name == KEY


@run_by(on_azure)
async def test_connection_failures_are_retryable(azure: Azure) -> None:
    """Refused connections and timeouts of connecting."""
    azure.network.refuse(HOST)
    refused = await failing(azure.provider.get(KEY))
    azure.network.refuse(HOST, on=False)
    azure.network.partition(HOST)
    silent = await failing(azure.provider.get(KEY))
    azure.network.heal(HOST)
    assert [type(refused), type(silent)] == [Retryable, Retryable]
    assert refused.reason == silent.reason == "ConnectionFailed"


@run_by(on_azure)
async def test_throttling_has_a_retry_after(azure: Azure) -> None:
    """The 429 of AKS has the seconds to wait; the SDK does not wait for them."""
    azure.cloud.faults.append(faults.throttled(seconds=37, times=1))
    began = asyncio.get_running_loop().time()
    error = await failing(azure.provider.create(claim(), KEY))
    assert isinstance(error, Retryable)
    assert (error.reason, error.after, error.status) == ("Throttled", 37.0, 429)
    assert asyncio.get_running_loop().time() - began < 5


@run_by(on_azure)
async def test_a_cancelled_write_is_logged(azure: Azure) -> None:
    """Losing the Lease cancels the write; its log line has no status."""
    azure.cloud.faults.append(Fault(verb="PUT", slow_seconds=100.0, slow="after"))
    with structlog.testing.capture_logs() as lines, pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await azure.provider.create(claim(), KEY)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("cancelled the create of an agent pool", "warning")
    assert line["status"] == 0
    assert line["request_id"]
    assert KEY in azure.cloud.pools


@run_by(on_azure)
async def test_each_write_is_logged_without_secrets(azure: Azure) -> None:
    """Pool, claim, ETag, request ID and status, and why a write was refused; reads are not logged."""
    with structlog.testing.capture_logs() as lines:
        await azure.provider.create(claim(), KEY)
        await asyncio.sleep(300)
        (running,) = await azure.provider.list()
        await azure.provider.delete(running)
        await failing(azure.provider.delete(running))
        await azure.provider.cluster()
    assert [(line["event"], line["status"], line.get("reason")) for line in lines] == [
        ("created agent pool", 201, None),
        ("deleting agent pool", 202, None),
        ("failed to delete agent pool", 412, "PoolChanged"),
    ]
    for line in lines:
        assert set(line) - REFUSED == AUDITED
        assert (line["pool"], line["claim_uid"]) == (KEY, UID)
        assert line["request_id"]
    assert lines[1]["etag"] == running.etag
    assert TOKEN not in repr((lines, azure.provider.__dict__))


@run_by(on_azure)
async def test_errors_have_no_cause(azure: Azure) -> None:
    """The exception of the SDK is not chained: its text may quote bodies, and its frames have the request."""
    azure.cloud.configure(token="another")
    error = await failing(azure.provider.get(KEY))
    assert isinstance(error, Retryable)
    assert (error.reason, error.status) == ("Unauthenticated", 401)
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert TOKEN not in str(error)


@run_by(on_azure, max_agent_pools=50)
async def test_the_state_of_the_cluster(azure: Azure) -> None:
    """Limit and location are read; a stopped or deleting cluster is not running, an updating one is."""
    here = await azure.provider.cluster()
    assert here.running
    assert (here.max_pools, here.location) == (50, "westeurope")
    azure.cloud.cluster_operation("Updating")
    assert (await azure.provider.cluster()).running
    azure.cloud.cluster_operation("Deleting")
    assert not (await azure.provider.cluster()).running
    azure.cloud.cluster_operation("Succeeded")
    azure.cloud.stop_cluster()
    stopped = await azure.provider.cluster()
    assert (stopped.running, stopped.power_state) == (False, "Stopped")
