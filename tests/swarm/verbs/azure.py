"""Faults of Azure: refused and lost requests, late reads, failed operations, shortages, evictions, the cluster."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.errors import Answer
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.snapshot import pool_mark
from tests.swarm.plan import Event

from .base import by_controller, hooked, one_of, verb

if TYPE_CHECKING:
    from tests.swarm.run import Run

VERBS = ("PUT", "DELETE", "GET", "LIST")
# Longer than a client waits for a response, and less or more than an absence takes to be proven.
SLOW_SECONDS = (90.0, 30.0)
# Longer than any creation that succeeds.
HANGING_SECONDS = (1200.0, 3000.0)
LAG_SECONDS = (5.0, 60.0)


def _between(event: Event, least: float, most: float) -> float:
    return least + event.pick * (most - least)


def _verb(event: Event) -> str:
    return one_of(event, VERBS)


def _finer(event: Event) -> Event:
    """The same event with the part of `pick` that has not chosen a verb."""
    return Event(at=event.at, fault=event.fault, pick=event.pick * len(VERBS) % 1, seconds=event.seconds)


async def _during(run: "Run", event: Event, *given: Fault) -> None:
    run.sim.cloud.faults.extend(given)
    await run.lasts(event)
    for fault in given:
        # By identity: equal faults of other events stay.
        run.sim.cloud.faults[:] = [one for one in run.sim.cloud.faults if one is not fault]
    if any(fault.seen > fault.skip for fault in given):
        run.injected(event)


async def _answering(run: "Run", event: Event, answer: Answer, *verbs: str) -> None:
    await _during(run, event, *(Fault(verb=verb, times=ALWAYS, answer=answer) for verb in verbs))


# requests


@verb("arm-unavailable")
async def arm_unavailable(run: "Run", event: Event) -> None:
    """All requests of one verb are answered with a page of a proxy, or with an error of AKS."""
    answers = (errors.html(502), errors.html(503), errors.rp(500, "InternalServerError", "try later"))
    await _answering(run, event, one_of(_finer(event), answers), _verb(event))


@verb("arm-lost")
async def arm_lost(run: "Run", event: Event) -> None:
    """The next answer of one verb is lost after the request took effect."""
    await _during(run, event, Fault(verb=_verb(event), drop="after"))


@verb("arm-unheard")
async def arm_unheard(run: "Run", event: Event) -> None:
    """The next request of one verb is lost before it takes effect."""
    await _during(run, event, Fault(verb=_verb(event), drop="before"))


@verb("arm-slow")
async def arm_slow(run: "Run", event: Event) -> None:
    """Requests of one verb are answered later than a client waits; they take effect before or after that."""
    slow, seconds = one_of(_finer(event), ("before", "after")), SLOW_SECONDS[int(event.pick * 1e6) % 2]
    await _during(run, event, Fault(verb=_verb(event), times=ALWAYS, slow_seconds=seconds, slow=slow))


@verb("arm-throttled")
async def arm_throttled(run: "Run", event: Event) -> None:
    """429 by AKS or ARM for one verb, with or without Retry-After."""
    seconds = int(_between(event, 1.0, 40.0))
    aks, arm = errors.throttled("AgentPoolHandler", seconds), errors.arm_throttled("reads", seconds)
    answers = (aks, arm, replace(aks, headers={}), replace(arm, headers={"x-ms-failure-cause": "gateway"}))
    await _answering(run, event, one_of(_finer(event), answers), _verb(event))


@verb("pool-busy")
async def pool_busy(run: "Run", event: Event) -> None:
    """Writes are refused with 409: another operation is in progress, of the pool or of the cluster."""
    answer = one_of(event, (errors.pool_busy("other", "Updating"), errors.cluster_busy("Updating")))
    await _answering(run, event, answer, "PUT", "DELETE")


@verb("arm-refuses")
async def arm_refuses(run: "Run", event: Event) -> None:
    """No request is accepted: the token or the permission is missing."""
    action = "Microsoft.ContainerService/managedClusters/agentPools/read"
    unknown = errors.unauthenticated("ExpiredAuthenticationToken", "The access token expiry UTC time is earlier.")
    answers = (unknown, errors.claims_challenge(), errors.forbidden(action, run.sim.cloud.settings.cluster_id))
    await _answering(run, event, one_of(event, answers), "*")


@verb("something-not-found")
async def something_not_found(run: "Run", event: Event) -> None:
    """Reads and DELETEs are answered with a 404 that is not about the pool."""
    settings = run.sim.cloud.settings
    answers = (
        errors.cluster_not_found(settings.resource_group, settings.cluster),
        errors.parent_not_found("read", settings.cluster_id),
        errors.group_not_found(settings.resource_group),
        errors.subscription_not_found(settings.subscription),
        errors.html(404),
    )
    await _answering(run, event, one_of(event, answers), "GET", "LIST", "DELETE")


@verb("etag-changes")
async def etag_changes(run: "Run", event: Event) -> None:
    """Somebody changes a pool just before each DELETE of a controller."""
    cloud = run.sim.cloud

    async def before(call: Call, _: web.Request) -> None:
        pool = cloud.pools.get(call.target.name)
        if by_controller(run, call, "arm") and call.verb == "DELETE" and pool is not None:
            run.injected(event)
            cloud.pool_store.put("updated", replace(pool, etag=cloud.lifecycle.guid()))

    with hooked(run, before=before):
        await run.lasts(event)


# reads


async def _configured(run: "Run", event: Event, **changes: Any) -> None:
    """Other settings of the subscription while it lasts."""
    cloud = run.sim.cloud
    usual = {name: getattr(AzureSettings(**run.plan.azure), name) for name in changes}
    cloud.configure(**changes)
    await run.lasts(event)
    cloud.configure(**usual)


def _puts(run: "Run") -> int:
    return run.sim.cloud.counts.get("PUT", 0)


async def _for_creations(run: "Run", event: Event, **changes: Any) -> None:
    """The same, which strikes a request for a pool."""
    before = _puts(run)
    await _configured(run, event, **changes)
    if _puts(run) > before:
        run.injected(event)


async def _for_refused(run: "Run", event: Event, **changes: Any) -> None:
    """The same, which refuses a request for a pool, or fails it later."""
    ends = run.sim.now + event.seconds

    def changed(_: str, pool: Pool) -> None:
        if pool.state == "Failed" and run.sim.now < ends:
            run.injected(event)

    async def after(call: Call, response: web.StreamResponse) -> None:
        if by_controller(run, call, "arm") and call.verb == "PUT" and response.status >= 400:
            run.injected(event)

    run.sim.cloud.subscribe(changed)
    with hooked(run, after=after):
        await _configured(run, event, **changes)


@verb("gets-lag")
async def gets_lag(run: "Run", event: Event) -> None:
    """A GET answers 404 for a while after the PUT."""
    await _for_creations(run, event, get_lag_seconds=_between(event, *LAG_SECONDS))


@verb("lists-lag")
async def lists_lag(run: "Run", event: Event) -> None:
    """A LIST of pools is older than a GET."""
    await _for_creations(run, event, list_lag_seconds=_between(event, *LAG_SECONDS))


@verb("page-fails")
async def page_fails(run: "Run", event: Event) -> None:
    """The second page of each list of pools is unavailable."""

    async def before(call: Call, request: web.Request) -> web.StreamResponse | None:
        if by_controller(run, call, "arm") and call.verb == "LIST" and "$skipToken" in request.query:
            run.injected(event)
            return web.json_response({"error": {"code": "ServiceUnavailable", "message": "injected"}}, status=503)
        return None

    with hooked(run, before=before):
        await _configured(run, event, page_size=1)


# operations


@verb("create-fails")
async def create_fails(run: "Run", event: Event) -> None:
    """The next accepted creation fails for want of capacity."""
    code = one_of(event, ("AllocationFailed", "ZonalAllocationFailed"))
    await _during(run, event, _failing_later(event, faults.no_capacity(code)))


@verb("create-lacks-quota")
async def create_lacks_quota(run: "Run", event: Event) -> None:
    """Creations fail because a quota is exceeded: at once, or after they were accepted."""
    what = one_of(event, ("standardNCADSA100v4Family Cores", "Total Regional Cores", "LowPriorityCores"))
    later = _failing_later(event, faults.quota_exceeded(what))
    await _during(run, event, faults.quota_preflight(times=2) if event.pick * 8 % 1 < 0.5 else replace(later, times=2))


@verb("machine-never-ready")
async def machine_never_ready(run: "Run", event: Event) -> None:
    """The next creation fails because its machine, which boots, does not become Ready."""
    failure = Failure(error=faults.nodes_not_ready(), after_seconds=_between(event, 60.0, 600.0), machine=True)
    await _during(run, event, Fault(verb="PUT", failure=failure))


@verb("create-hangs")
async def create_hangs(run: "Run", event: Event) -> None:
    """The next creation lasts for 20 to 50 minutes."""
    await _during(run, event, Fault(verb="PUT", operation_seconds=_between(event, *HANGING_SECONDS)))


@verb("delete-hangs")
async def delete_hangs(run: "Run", event: Event) -> None:
    """The next removal of a pool lasts for 20 to 50 minutes."""
    await _during(run, event, Fault(verb="DELETE", operation_seconds=_between(event, *HANGING_SECONDS)))


@verb("delete-fails")
async def delete_fails(run: "Run", event: Event) -> None:
    """The next accepted removal of a pool fails."""
    error = faults.error("InternalOperationError", "the machine could not be deleted")
    await _during(run, event, Fault(verb="DELETE", failure=Failure(error=error, after_seconds=60.0)))


@verb("delete-repeated")
async def delete_repeated(run: "Run", event: Event) -> None:
    """Two answers to DELETE are lost after it took effect, so that it is sent for a pool that goes or is gone."""
    await _during(run, event, Fault(verb="DELETE", drop="after", times=2))


def _failing_later(event: Event, error: faults.Error) -> Fault:
    wrapped = faults.wrapped(error, how=one_of(_finer(event), ("details", "message")))
    return Fault(verb="PUT", failure=Failure(error=wrapped, after_seconds=30.0))


# machines and pools


@verb("evict")
async def evict(run: "Run", event: Event) -> None:
    """Azure evicts the machine of a spot pool; it is refilled, or its count stays 0."""
    found = [pool.name for pool in run.sim.cloud.pools.values() if pool.priority == "Spot" and pool.machines]
    name = run.chosen(event.pick, found)
    if name is not None:
        run.injected(event)
        run.sim.cloud.evict(name, refill_after_seconds=120.0 if event.pick < 0.5 else None)


@verb("two-machines")
async def two_machines(run: "Run", event: Event) -> None:
    """A pool has one machine more than its count, as after an upgrade that failed, until somebody removes one."""
    cloud, name = run.sim.cloud, run.pool(event)
    if not name:
        return
    run.injected(event)
    cloud.add_machine(name)
    await run.lasts(event)
    pool = cloud.pools.get(name)
    for instance in pool.machines[pool.count :] if pool is not None else ():
        cloud.remove_machine(name, instance)


# the cluster


@verb("cluster-stops")
async def cluster_stops(run: "Run", event: Event) -> None:
    """`az aks stop`, and `az aks start` when it ends."""
    cloud = run.sim.cloud
    if (cloud.cluster_power, cloud.cluster_state) == ("Running", "Succeeded"):
        run.injected(event)
        cloud.stop_cluster()
        await run.lasts(event)
        cloud.start_cluster()


@verb("cluster-updates")
async def cluster_updates(run: "Run", event: Event) -> None:
    """An operation of the whole cluster refuses all writes to pools, and changes their eTags."""
    cloud = run.sim.cloud
    if (cloud.cluster_power, cloud.cluster_state) == ("Running", "Succeeded"):
        run.injected(event)
        cloud.cluster_operation("Updating")
        await run.lasts(event)
        cloud.cluster_operation("Succeeded")


@verb("cluster-upgrades")
async def cluster_upgrades(run: "Run", event: Event) -> None:
    """The control plane is upgraded: new pools have its version."""
    run.injected(event)
    run.sim.cloud.upgrade_control_plane(f"1.34.{int(event.pick * 10)}")


@verb("node-image-released")
async def node_image_released(run: "Run", event: Event) -> None:
    """AKS releases a node image: new pools have it."""
    run.injected(event)
    run.sim.cloud.release_node_image(f"2026{9 + int(event.pick * 4):02d}.{int(event.pick * 28) + 1:02d}.0")


@verb("pool-limit")
async def pool_limit(run: "Run", event: Event) -> None:
    """The cluster takes no further pool."""
    await _for_refused(run, event, max_agent_pools=len(run.sim.cloud.pools))


@verb("quota-lowered")
async def quota_lowered(run: "Run", event: Event) -> None:
    """The quota of the region, or of spot machines, is used up."""
    await _for_refused(run, event, **{one_of(event, ("regional_cores", "low_priority_cores")): 0})


@verb("pool-upgrades")
async def pool_upgrades(run: "Run", event: Event) -> None:
    """An operation of AKS holds one pool; its machine stays."""
    cloud, name = run.sim.cloud, run.pool(event)
    if not name:
        return
    run.injected(event)
    upgrading = cloud.lifecycle.start_operation(cloud.pools[name], "Upgrading", "updated")
    await run.lasts(event)
    pool = cloud.pools.get(name)
    if pool is not None and pool.operation == upgrading.operation:
        cloud.lifecycle.end(pool.operation, "Succeeded")
        settled = replace(pool, state="Succeeded", operation="", etag=cloud.lifecycle.guid())
        cloud.pool_store.put("updated", settled)


@verb("tags-edited")
async def tags_edited(run: "Run", event: Event) -> None:
    """Somebody adds a tag to a pool, and removes the time of its PUT."""
    cloud, name = run.sim.cloud, run.pool(event)
    if not name or not pool_mark(cloud.pools[name]):
        return
    run.injected(event)
    pool = cloud.pools[name]
    tags = {key: value for key, value in pool.tags.items() if not key.endswith("put-time")}
    properties = {**pool.properties, "tags": {**tags, "owner": "ml"}}
    cloud.pool_store.put("updated", replace(pool, properties=properties, etag=cloud.lifecycle.guid()))
