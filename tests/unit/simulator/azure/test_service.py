"""The simulated ARM on virtual time, called without HTTP and without Nodes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import AioHttpTransport
from azure.mgmt.containerservice.aio import ContainerServiceClient

from provisioner.simulator import loop
from provisioner.simulator.azure import arm, errors, faults, routing, service
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.errors import Answer
from provisioner.simulator.azure.faults import Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.network import MemoryConnector, Network
from provisioner.simulator.nodes.device_plugin import devices_of
from tests.stories import run_by

EPOCH = datetime(2026, 11, 1, tzinfo=UTC)
SIZE = "Standard_NC24ads_A100_v4"


class Arm:
    """A simulated cloud and a client of it."""

    def __init__(self, cloud: AzureCloud) -> None:
        self.cloud = cloud
        self.events: list[tuple[str, str, str, int]] = []
        cloud.subscribe(lambda kind, pool: self.events.append((kind, pool.name, pool.state, len(pool.machines))))

    async def ask(
        self,
        method: str,
        path: str = "",
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        **headers: Any,
    ) -> Answer:
        path = self.cloud.settings.cluster_id + "/agentPools" + path
        requested = routing.Call(
            **routing.route(method, path),
            origin="https://management.azure.com",
            url=path,
            query={"api-version": "2026-08-01", **(query or {})},
            headers={"Authorization": "Bearer t", **{k.replace("_", "-"): v for k, v in headers.items()}},
            body=body,
        )
        answer = await service.serve(self.cloud, requested)
        assert answer is not None
        return answer

    async def put(self, name: str, headers: Mapping[str, Any] | None = None, **properties: Any) -> Answer:
        body = {"properties": {"vmSize": SIZE, "count": 1, **properties}}
        return await self.ask("PUT", "/" + name, body, **(headers or {}))

    async def names(self) -> list[str]:
        return [pool["name"] for pool in json_of(await self.ask("GET"))["value"]]


def json_of(answer: Answer) -> dict[str, Any]:
    found = json.loads(json.dumps(answer.body))
    assert isinstance(found, dict)
    return found


def run_scenario(scenario: Callable[[Arm], Awaitable[None]], *, seed: int = 3, **settings: Any) -> Arm:
    """Run one scenario on virtual time; returns the client."""

    async def main() -> Arm:
        clock = loop.VirtualClock(asyncio.get_running_loop(), EPOCH)
        arm_ = Arm(AzureCloud(AzureSettings(**settings), clock.now, Random(seed)))
        async with asyncio.TaskGroup() as group:
            time_passes = group.create_task(arm_.cloud.run())
            await scenario(arm_)
            time_passes.cancel()
        return arm_

    return loop.run(main, seed=seed, epoch=EPOCH, horizon_seconds=86_400)


def test_subscribers_get_each_change_of_a_pool_in_order() -> None:
    """Each change is reported once, with the pool as it is then."""

    async def scenario(azure: Arm) -> None:
        assert (await azure.put("gpu1")).status == 201
        await asyncio.sleep(400)
        assert (await azure.ask("DELETE", "/gpu1")).status == 202
        await asyncio.sleep(300)

    assert run_scenario(scenario, node_share=(0.6, 0.9)).events == [
        ("creating", "gpu1", "Creating", 0),
        ("updated", "gpu1", "Creating", 1),
        ("running", "gpu1", "Succeeded", 1),
        ("deleting", "gpu1", "Deleting", 1),
        ("updated", "gpu1", "Deleting", 0),
        ("gone", "gpu1", "Deleting", 0),
    ]


def test_the_same_seed_gives_the_same_events() -> None:
    """All random values come from the given generator."""

    async def scenario(azure: Arm) -> None:
        for name in ("a", "b"):
            await azure.put(name)
            await asyncio.sleep(500)
            await azure.ask("DELETE", "/" + name)

    one, two, other = (run_scenario(scenario, seed=seed) for seed in (1, 1, 2))
    assert one.cloud.pools == two.cloud.pools
    assert one.cloud.requests == two.cloud.requests
    assert one.cloud.pools["b"].etag != other.cloud.pools["b"].etag


@run_by(run_scenario, get_lag_seconds=20.0)
async def test_get_and_list_lag_independently(azure: Arm) -> None:
    """With a GET lag of 20 s a new pool is 404 for 20 s, while LIST shows it; and the reverse."""
    await azure.put("gpu1")
    await asyncio.sleep(19)
    assert (await azure.ask("GET", "/gpu1")).status == 404
    assert await azure.names() == ["gpu1"]
    await asyncio.sleep(2)
    assert (await azure.ask("GET", "/gpu1")).status == 200

    azure.cloud.configure(get_lag_seconds=0.0, list_lag_seconds=30.0)
    await asyncio.sleep(400)
    await azure.ask("DELETE", "/gpu1")
    while "gpu1" in azure.cloud.pools:  # noqa: ASYNC110 - on virtual time, looking costs nothing
        await asyncio.sleep(0.1)
    assert (await azure.ask("GET", "/gpu1")).status == 404
    assert await azure.names() == ["gpu1"]
    await asyncio.sleep(31)
    assert await azure.names() == []


@pytest.mark.parametrize(("order", "shown"), [("before", []), ("after", ["gpu1"])])
def test_a_list_that_races_a_put_shows_it_or_not(order: str, shown: list[str]) -> None:
    """The LIST begins before the PUT and ends after it: `list_order` decides which state it returns."""

    async def scenario(azure: Arm) -> None:
        async with asyncio.TaskGroup() as group:
            listing = group.create_task(azure.names())
            await asyncio.sleep(0.1)
            await azure.put("gpu1")
        assert listing.result() == shown

    run_scenario(scenario, list_order=order, list_seconds=0.3)


@run_by(run_scenario, page_size=2)
async def test_pages_are_complete_while_pools_change(azure: Arm) -> None:
    """A page begins after the last name of the one before; a pool deleted meanwhile hides no other."""
    for name in "abcde":
        azure.cloud.seed_pool(name, vmSize=SIZE)
    first = json_of(await azure.ask("GET"))
    link = first["nextLink"]
    assert link.startswith("https://management.azure.com/subscriptions/")
    azure.cloud.pool_store.remove("a")
    second = json_of(await azure.ask("GET", query={"$skipToken": link.rpartition("=")[2]}))
    assert [pool["name"] for pool in second["value"]] == ["c", "d"]
    assert link.endswith("=b")


@run_by(run_scenario)
async def test_every_write_changes_the_etag(azure: Arm) -> None:
    """Acceptance, boot, completion and update each give a new eTag; the messages follow the change."""
    seen = []
    azure.cloud.subscribe(lambda kind, pool: seen.append(pool.etag))
    await azure.put("gpu1")
    await asyncio.sleep(400)
    same = json_of(await azure.put("gpu1"))
    assert same["properties"]["provisioningState"] == "Succeeded"
    grown = await azure.put("gpu1", count=2)
    assert grown.status == 200
    assert json_of(grown)["properties"]["provisioningState"] == "Scaling"
    await asyncio.sleep(400)
    changed = await azure.put("gpu1", count=2, tags={"a": "b"})
    assert json_of(changed)["properties"]["provisioningState"] == "Updating"
    await asyncio.sleep(400)
    assert azure.cloud.pools["gpu1"].machines == (0, 1)
    assert len(set(seen)) == len(seen)


@run_by(run_scenario, max_agent_pools=1)
async def test_a_failed_pool_keeps_its_name_and_counts(azure: Arm) -> None:
    """It counts against the limit, a create of its name is 412, and it can be deleted."""
    azure.cloud.fail_next_create("AllocationFailed", "No machine.", after_seconds=30, details=[{"code": "X"}])
    await azure.put("gpu1")
    await asyncio.sleep(31)
    body = json_of(await azure.ask("GET", "/gpu1"))["properties"]
    assert body["provisioningState"] == "Failed"
    assert body["status"]["provisioningError"]["details"] == [{"code": "X"}]
    refused = await azure.put("gpu1", {"If-None-Match": "*"})
    assert (refused.status, json_of(refused)["code"]) == (412, "PreConditionFailed")
    full = await azure.put("gpu2")
    assert (full.status, json_of(full)["code"]) == (400, "BadRequest")
    assert (await azure.ask("DELETE", "/gpu1")).status == 202
    await asyncio.sleep(300)
    assert (await azure.put("gpu2")).status == 201


@run_by(run_scenario)
async def test_a_put_may_repair_a_failed_pool(azure: Arm) -> None:
    """An update of a Failed pool adds the machine and removes the error."""
    azure.cloud.seed_pool("gpu1", state="Failed", error=faults.error("AllocationFailed", "No machine."), vmSize=SIZE)
    assert (await azure.put("gpu1")).status == 200
    await asyncio.sleep(100)
    body = json_of(await azure.ask("GET", "/gpu1"))["properties"]
    assert body["provisioningState"] == "Succeeded"
    assert "status" not in body
    assert azure.cloud.pools["gpu1"].machines == (0,)


@run_by(run_scenario)
async def test_stopping_the_cluster_ends_operations(azure: Arm) -> None:
    """A pool that is being created becomes Stopped, its operation Canceled, and writes are rejected until the start."""
    await azure.put("gpu1")
    operation = azure.cloud.pools["gpu1"].operation
    azure.cloud.stop_cluster()
    await asyncio.sleep(600)
    pool = azure.cloud.pools["gpu1"]
    assert (pool.state, pool.power, pool.machines) == ("Succeeded", "Stopped", ())
    ended = azure.cloud.operations.get(operation, 0.0)
    assert ended is not None
    assert ended.status == "Canceled"
    assert (await azure.ask("DELETE", "/gpu1")).status == 409
    azure.cloud.start_cluster()
    await asyncio.sleep(600)
    assert (azure.cloud.pools["gpu1"].power, azure.cloud.pools["gpu1"].machines) == ("Running", (0,))
    assert (await azure.ask("DELETE", "/gpu1")).status == 202


def test_timers_never_touch_a_later_pool_of_the_same_name() -> None:
    """A pool that is deleted during its creation leaves no timer that could complete its successor."""

    async def scenario(azure: Arm) -> None:
        await azure.put("gpu1")
        await azure.ask("DELETE", "/gpu1")
        await asyncio.sleep(11)
        await azure.put("gpu1")
        await asyncio.sleep(90)
        assert azure.cloud.pools["gpu1"].state == "Creating"
        assert azure.cloud.pools["gpu1"].machines == ()
        await asyncio.sleep(11)
        assert azure.cloud.pools["gpu1"].state == "Succeeded"

    # The first pool's timers are due at 100 s, the second's at 111 s.
    run_scenario(
        scenario, delete_preempts=True, create_seconds=(100, 100), delete_seconds=(10, 10), node_share=(0.99, 0.99)
    )


@run_by(run_scenario)
async def test_a_failing_delete_leaves_a_failed_pool_with_its_machine(azure: Arm) -> None:
    """DELETE is accepted, the operation fails, and the machine remains."""
    azure.cloud.seed_pool("gpu1", vmSize=SIZE)
    failure = Failure(error=faults.error("InternalOperationError", "We are unable to serve this request."))
    azure.cloud.faults.append(Fault(verb="DELETE", failure=failure))
    assert (await azure.ask("DELETE", "/gpu1")).status == 202
    await asyncio.sleep(600)
    pool = azure.cloud.pools["gpu1"]
    assert (pool.state, pool.machines) == ("Failed", (0,))


@run_by(run_scenario)
async def test_faults_apply_to_the_requests_they_match(azure: Arm) -> None:
    """Size, zone and priority match a PUT's body; `skip` and `times` count matches; other requests are served."""
    refusal = errors.rp(400, "Nope", "no")
    azure.cloud.faults.append(Fault(verb="PUT", zone="2", priority="Spot", skip=1, times=2, answer=refusal))
    spot2: dict[str, Any] = {"availabilityZones": ["2"], "scaleSetPriority": "Spot"}
    statuses = [(await azure.put(f"s{n}", **spot2)).status for n in range(4)]
    assert statuses == [201, 400, 400, 201]
    azure.cloud.faults[:] = [Fault(size=SIZE.upper(), pool="s*", times=faults.ALWAYS, answer=errors.html(503))]
    assert (await azure.put("r0")).status == 201
    assert (await azure.ask("GET", "/s0")).status == 503
    assert (await azure.put("s9", vmSize="Standard_NC4as_T4_v3")).status == 201


@run_by(run_scenario)
async def test_spot_pools_are_marked_and_can_be_evicted(azure: Arm) -> None:
    """AKS adds label and taint; after an eviction the count is 0, or a new instance follows."""
    body = json_of(await azure.put("gpu1", scaleSetPriority="Spot"))["properties"]
    assert body["nodeLabels"] == {"kubernetes.azure.com/scalesetpriority": "spot"}
    assert body["nodeTaints"] == ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]
    assert (body["scaleSetEvictionPolicy"], body["spotMaxPrice"]) == ("Delete", -1)
    await asyncio.sleep(400)
    azure.cloud.evict("gpu1", refill_after_seconds=60)
    assert len(azure.cloud.pools["gpu1"].machines) == 0
    await asyncio.sleep(61)
    assert list(azure.cloud.pools["gpu1"].machines) == [1]
    azure.cloud.evict("gpu1")
    await asyncio.sleep(600)
    assert (azure.cloud.pools["gpu1"].count, azure.cloud.pools["gpu1"].machines) == (0, ())


@run_by(run_scenario)
async def test_the_last_system_pool_cannot_be_deleted(azure: Arm) -> None:
    """AKS keeps one system pool; another one can be deleted."""
    for name in ("sys1", "sys2"):
        azure.cloud.seed_pool(name, mode="System")
    assert (await azure.ask("DELETE", "/sys1")).status == 202
    await asyncio.sleep(300)
    assert (await azure.ask("DELETE", "/sys2")).status == 400


@run_by(run_scenario)
async def test_reads_and_deletes_share_a_bucket_of_sixty_and_one_a_second(azure: Arm) -> None:
    """The 61st read at once is 429 with Retry-After 1; a rejected request costs nothing; after a second one passes."""
    statuses = [(await azure.ask("GET", "/gpu1")).status for _ in range(60)]
    assert statuses == [404] * 60
    refused = await azure.ask("DELETE", "/gpu1")
    assert (refused.status, json_of(refused)["code"], refused.headers["Retry-After"]) == (429, "Throttled", "1")
    assert (await azure.ask("GET")).status == 429
    await asyncio.sleep(1)
    assert (await azure.ask("DELETE", "/gpu1")).status == 204
    assert (await azure.ask("GET", "/gpu1")).status == 429
    assert azure.cloud.counts == {"GET": 61, "DELETE": 2, "LIST": 1}


@run_by(run_scenario)
async def test_arm_limits_before_aks_and_returns_the_remaining_calls(azure: Arm) -> None:
    """ARM's 429 is wrapped and names its kind; each response has the remaining calls of the bucket that it used."""
    answers = [await azure.ask("GET", "/gpu1") for _ in range(250)]
    assert [int(a.headers["x-ms-ratelimit-remaining-subscription-reads"]) for a in answers] == [*range(249, -1, -1)]
    refused = await azure.ask("GET", "/gpu1")
    assert (refused.status, json_of(refused)["error"]["code"]) == (429, "SubscriptionRequestsThrottled")
    assert refused.headers["x-ms-failure-cause"] == "gateway"
    assert refused.headers["Retry-After"] == "1"
    removal = await azure.ask("DELETE", "/gpu1")
    assert removal.headers["x-ms-ratelimit-remaining-subscription-deletes"] == "199"
    assert (removal.status, (await azure.put("gpu1")).status) == (429, 201)
    await asyncio.sleep(1)
    assert (await azure.ask("GET", "/gpu1")).headers["x-ms-ratelimit-remaining-subscription-reads"] == "24"


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("GPU", {}),
    "long name": ("abcdefghijklm", {}),
    "windows name": ("sevenss", {"osType": "Windows"}),
    "count": ("gpu1", {"count": 1001}),
    "system count": ("gpu1", {"mode": "System", "count": 0}),
    "disk": ("gpu1", {"osDiskSizeGB": 29}),
    "enumeration": ("gpu1", {"osSKU": "Debian"}),
    "unknown GPU size": ("gpu1", {"vmSize": "Standard_NC24rs_v3"}),
    "taint": ("gpu1", {"nodeTaints": ["sku=gpu"]}),
    "initialization taints": ("gpu1", {"nodeInitializationTaints": []}),
    "AKS label": ("gpu1", {"nodeLabels": {"kubernetes.azure.com/mode": "user"}}),
    "Kubernetes label": ("gpu1", {"nodeLabels": {"topology.kubernetes.io/zone": "1"}}),
    "restricted label": ("gpu1", {"nodeLabels": {"node-restriction.kubernetes.io/x": "1"}}),
    "reserved label": ("gpu1", {"nodeLabels": {"agentpool": "x"}}),
    "label value": ("gpu1", {"nodeLabels": {"a": "b c"}}),
    "spot price": ("gpu1", {"spotMaxPrice": 0.123456}),
    "tags": ("gpu1", {"tags": {str(n): "" for n in range(51)}}),
}
GOOD: dict[str, dict[str, Any]] = {
    "plain": {},
    "sub-domains": {"nodeLabels": {"node.kubernetes.io/a": "b", "kaito.sh/workspace": "w", "x": ""}},
    "taints": {"nodeTaints": ["sku=gpu:NoSchedule", "a:NoExecute"]},
    "default disk": {"osDiskSizeGB": 0},
    "CPU size": {"vmSize": "Standard_D4s_v5"},
    "casing": {"vmSize": "standard_nd96asr_v4"},
    "spot": {"scaleSetPriority": "Spot", "spotMaxPrice": -1},
}


@pytest.mark.parametrize("what", BAD)
@run_by(run_scenario)
async def test_invalid_requests_are_rejected_at_once(azure: Arm, what: str) -> None:
    """400, and nothing is created."""
    name, properties = BAD[what]
    answer = await azure.put(name, **properties)
    assert answer.status == 400, answer
    assert json_of(answer)["code"] in ("BadRequest", "InvalidParameter")
    assert azure.cloud.pools == {}


@pytest.mark.parametrize("what", GOOD)
@run_by(run_scenario)
async def test_valid_requests_are_accepted(azure: Arm, what: str) -> None:
    """201, and the response repeats what was sent."""
    answer = await azure.put("gpu1", **GOOD[what])
    assert answer.status == 201, answer
    echoed = json_of(answer)["properties"]
    assert echoed["vmSize"] == GOOD[what].get("vmSize", SIZE)
    assert (echoed["osDiskSizeGB"], echoed["maxPods"]) == (128, 250)


def test_paths_ignore_case_and_names_do_not() -> None:
    """`AGENTPOOLS` is the same segment, `RG` is another group."""
    path = AzureSettings().cluster_id + "/agentPools/gpu1"
    loud = path.replace("agentPools", "AGENTPOOLS").replace("resourcegroups", "ResourceGroups")
    assert routing.route("GET", loud) == routing.route("GET", path)
    assert routing.route("GET", path.replace("/rg/", "/RG/"))["group"] == "RG"
    assert routing.route("PATCH", path)["verb"] == "OTHER"


@run_by(run_scenario, create_seconds=(1560, 1560), page_size=1)
async def test_the_real_client_works_in_memory_on_virtual_time(azure: Arm) -> None:
    """Operation and page URLs have https, as over TLS; a create of 26 minutes takes no real time."""

    class Credential:
        async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
            return AccessToken("t", 4102444800)

        async def close(self) -> None: ...

    wire = Network(asyncio.get_running_loop())
    runner = web.AppRunner(arm.make_arm_app(azure.cloud, scheme="https"), access_log=None, shutdown_timeout=1)
    await runner.setup()
    assert runner.server is not None
    wire.servers["management.azure.com"] = runner.server
    async with aiohttp.ClientSession(connector=MemoryConnector(wire, "test"), trust_env=False) as session:
        client = ContainerServiceClient(
            Credential(),  # type: ignore[arg-type]
            azure.cloud.settings.subscription,
            transport=AioHttpTransport(session=session, session_owner=False, use_env_settings=False),
        )
        poller = await client.agent_pools.begin_create_or_update("rg", "aks", "gpu1", {"properties": {"count": 1}})
        finished = await poller.result()
        assert finished.provisioning_state == "Succeeded"
        assert asyncio.get_running_loop().time() >= 1560
        azure.cloud.seed_pool("gpu2")
        assert [pool.name async for pool in client.agent_pools.list("rg", "aks")] == ["gpu1", "gpu2"]
    await runner.cleanup()


# Quota and what a PUT may not change

A100, T4 = "StandardNCADSA100v4Family", "Standard_NC4as_T4_v3"


@pytest.mark.parametrize(
    ("limits", "requested", "words"),
    [
        ({"family_cores": {A100: 24}}, {}, "exceeding approved StandardNCADSA100v4Family Cores quota"),
        ({"regional_cores": 30}, {"vmSize": T4, "count": 2}, "exceeding approved Total Regional Cores quota"),
        ({"low_priority_cores": 0}, {"scaleSetPriority": "Spot"}, "exceeding approved LowPriorityCores quota"),
    ],
)
def test_cores_are_counted_by_family_region_and_priority(
    limits: dict[str, Any], requested: dict[str, Any], words: str
) -> None:
    """One machine of 24 cores fits; the next pool is accepted, and fails with Compute's message and numbers."""

    async def scenario(azure: Arm) -> None:
        azure.cloud.seed_pool("first", vmSize=SIZE)
        assert (await azure.put("gpu1", **requested)).status == 201
        await asyncio.sleep(60)
        inner = azure.cloud.pools["gpu1"].error["details"][0]
        assert inner["code"] == "OperationNotAllowed"
        assert words in inner["message"]
        used = 0 if "low_priority_cores" in limits else 24
        assert f"Current Usage: {used}, " in inner["message"]
        azure.cloud.delete_pool_by_hand("first")
        azure.cloud.delete_pool_by_hand("gpu1")
        await asyncio.sleep(300)
        expected = "Failed" if "low_priority_cores" in limits else "Succeeded"
        assert (await azure.put("gpu2", **requested)).status == 201
        await asyncio.sleep(400)
        assert azure.cloud.pools["gpu2"].state == expected

    run_scenario(scenario, **limits)


@run_by(run_scenario, family_cores={A100: 0})
async def test_no_machine_boots_beyond_a_quota(azure: Arm) -> None:
    """A create whose machine would boot before it fails, fails because of the quota; other failures remain."""
    booted = Failure(error=faults.nodes_not_ready(), after_seconds=60.0, machine=True)
    unlucky = Failure(error=faults.wrapped(faults.no_capacity()), after_seconds=60.0)
    azure.cloud.faults[:] = [Fault(verb="PUT", failure=booted), Fault(verb="PUT", failure=unlucky)]
    assert (await azure.put("gpu1")).status == 201
    assert (await azure.put("gpu2")).status == 201
    machines = 0
    for _ in range(70):
        await asyncio.sleep(1)
        machines += sum(len(pool.machines) for pool in azure.cloud.pools.values())
    assert machines == 0
    failed = [pool.error["details"][0]["code"] for pool in azure.cloud.pools.values() if pool.error]
    assert failed == ["OperationNotAllowed", "AllocationFailed"]


@run_by(run_scenario, family_cores={A100.lower(): 23}, quota_check="preflight")
async def test_quota_may_be_checked_before_a_put_is_accepted(azure: Arm) -> None:
    """400 with AKS's own code; nothing is created."""
    refused = await azure.put("gpu1")
    assert (refused.status, json_of(refused)["code"]) == (400, "ErrCode_InsufficientVCPUQuota")
    assert "requested 24, remaining 23 for family StandardNCADSA100v4Family" in json_of(refused)["message"]
    assert (await azure.put("gpu2", vmSize=T4)).status == 201
    assert list(azure.cloud.pools) == ["gpu2"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vmSize", T4),
        ("osDiskType", "Ephemeral"),
        ("maxPods", 50),
        ("scaleSetPriority", "Spot"),
        ("gpuInstanceProfile", "MIG1g"),
        ("gpuProfile", {"driver": "None"}),
    ],
)
@run_by(run_scenario)
async def test_create_only_fields_cannot_be_changed(azure: Arm, key: str, value: object) -> None:
    """400; the same value, in any casing, is no change."""
    azure.cloud.seed_pool("gpu1", vmSize=SIZE)
    before = azure.cloud.pools["gpu1"]
    changed: dict[str, Any] = {key: value}
    refused = await azure.put("gpu1", **changed)
    assert (refused.status, json_of(refused)["code"]) == (400, "PropertyChangeNotAllowed")
    assert json_of(refused)["target"] == f"properties.{key}"
    assert azure.cloud.pools["gpu1"] == before
    assert (await azure.put("gpu1", vmSize=SIZE.upper())).status == 200


# Undocumented behavior has a setting


@run_by(run_scenario, max_agent_pools=1, pool_limit_code="TooManyAgentPools")
async def test_the_code_for_too_many_pools_is_a_setting(azure: Arm) -> None:
    """BadRequest, or the configured code."""
    azure.cloud.seed_pool("one")
    assert json_of(await azure.put("two"))["code"] == "TooManyAgentPools"


@run_by(run_scenario, parallel_operations=1)
async def test_the_number_of_parallel_operations_is_a_setting(azure: Arm) -> None:
    """With one, the second PUT is 409 for a pending operation, until the first has ended."""
    assert (await azure.put("gpu1")).status == 201
    refused = await azure.put("gpu2")
    assert (refused.status, json_of(refused)["code"]) == (409, "OperationNotAllowed")
    assert "Another agentpool operation (gpu1 - Creating) is in progress" in json_of(refused)["message"]
    await asyncio.sleep(400)
    assert (await azure.put("gpu2")).status == 201
    assert (await azure.ask("DELETE", "/gpu1")).status == 409


@pytest.mark.parametrize(("minds", "status"), [("ignore", 201), ("reject", 400)])
def test_the_handling_of_unknown_members_is_a_setting(minds: str, status: int) -> None:
    """They are ignored, as by most API versions, or rejected by name; the program's own PUT has none."""

    async def scenario(azure: Arm) -> None:
        assert (await azure.put("gpu1", soonToCome=True)).status == status
        assert (await azure.put("gpu2", nodeLabels={"a": "b"}, tags={"a": "b"})).status == 201

    run_scenario(scenario, unknown_members=minds)


@pytest.mark.parametrize("may", [True, False])
def test_whether_a_pool_may_lose_its_last_machine_is_a_setting(may: bool) -> None:
    """deleteMachines leaves count 0, or is rejected."""

    async def scenario(azure: Arm) -> None:
        azure.cloud.seed_pool("gpu1", vmSize=SIZE)
        (machine,) = json_of(await azure.ask("GET", "/gpu1/machines"))["value"]
        answer = await azure.ask("POST", "/gpu1/deleteMachines", {"machineNames": [machine["name"]]})
        assert answer.status == (202 if may else 400)
        await asyncio.sleep(60)
        assert azure.cloud.pools["gpu1"].count == (0 if may else 1)

    run_scenario(scenario, machines_may_empty=may)


@pytest.mark.parametrize("seconds", [None, 15])
def test_retry_after_on_accepted_writes_is_a_setting(seconds: int | None) -> None:
    """On 201 and 202, or on neither."""

    async def scenario(azure: Arm) -> None:
        azure.cloud.seed_pool("old")
        answers = [await azure.put("gpu1"), await azure.ask("DELETE", "/old")]
        reported = [answer.headers.get("Retry-After") for answer in answers]
        assert reported == [None if seconds is None else "15"] * 2

    run_scenario(scenario, accepted_retry_after_seconds=seconds)


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_devices_of_a_fraction_of_a_gpu_are_a_setting(gpus: int) -> None:
    """The smaller RTX PRO sizes have one device, or none."""

    async def scenario(azure: Arm) -> None:
        pool = azure.cloud.seed_pool("gpu1", vmSize="Standard_NC24lds_xl_RTXPRO6000BSE_v6")
        found = devices_of(pool, azure.cloud.settings.rtx_pro_fraction_gpus)
        assert (found.count, found.resource) == (gpus, "nvidia.com/gpu" if gpus else "")

    run_scenario(scenario, rtx_pro_fraction_gpus=gpus)


def test_actions_outside_of_the_role_are_rejected() -> None:
    """The error names the missing action; without a role everything is permitted."""
    read = "Microsoft.ContainerService/managedClusters/agentPools/read"

    async def scenario(azure: Arm) -> None:
        assert (await azure.ask("GET")).status == 200
        for method, path, action in (
            ("PUT", "/p", "write"),
            ("DELETE", "/p", "delete"),
            ("POST", "/p/abort", "abort/action"),
            ("POST", "/p/deleteMachines", "deleteMachines/action"),
            ("GET", "/p/machines", "machines/read"),
        ):
            refused = await azure.ask(method, path, {"properties": {"vmSize": SIZE, "count": 1}})
            wanted = read.replace("read", "") + action
            assert (refused.status, wanted in json_of(refused)["error"]["message"]) == (403, True)
        assert azure.cloud.pools == {}

    run_scenario(scenario, actions=frozenset({read}))
