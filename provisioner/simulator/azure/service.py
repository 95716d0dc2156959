"""Serves one request: the checks of ARM and AKS in their order, then the effect.

ARM first (token, api-version, subscription, group, cluster), then AKS (rate limit, preconditions, locks, validation).
Faults come before everything. A rejected request changes nothing.

Source: docs/references/agent-pools.md, docs/references/simulator.md#simulated-arm; DELETE of an absent pool with
If-Match is 204 (https://learn.microsoft.com/en-us/azure/aks/use-etags, table of DELETE).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

from . import bodies, compute, errors, faults, gateway, operations, quota, validation
from .agentpool import Pool
from .cloud import AzureCloud
from .errors import Answer
from .faults import Fault
from .lifecycle import Accepted
from .request_log import Request
from .routing import Call

WRITES = frozenset({"PUT", "DELETE", "DELETE_MACHINES", "ABORT"})


async def serve(cloud: AzureCloud, call: Call) -> Answer | None:
    """The response; None to drop the connection."""
    arrived = cloud.now()
    answer = gateway.with_remaining(cloud, call, await _serve(cloud, call))
    cloud.request_log.record(Request(arrived, call.verb, call.pool, answer.status if answer else 0))
    return answer


async def _serve(cloud: AzureCloud, call: Call) -> Answer | None:
    fault = _fault(cloud, call)
    if fault is None:
        return await _answer(cloud, call, None)
    if fault.slow_seconds and fault.slow == "before":
        await cloud.scheduler.sleep(fault.slow_seconds)
    if fault.drop == "before":
        return None
    answer = fault.answer or await _answer(cloud, call, fault)
    if fault.slow_seconds and fault.slow == "after":
        await cloud.scheduler.sleep(fault.slow_seconds)
    return None if fault.drop == "after" else answer


def _fault(cloud: AzureCloud, call: Call) -> Fault | None:
    stored = cloud.pools.get(call.pool)
    properties = call.properties if call.verb == "PUT" or stored is None else stored.properties
    return faults.pick(cloud.faults, call.verb, call.pool, properties)


async def _answer(cloud: AzureCloud, call: Call, fault: Fault | None) -> Answer:
    refusal = gateway.refusal(cloud, call)
    if refusal is not None:
        return refusal
    if call.verb == "LIST":
        return await _list(cloud, call)
    if call.verb in WRITES:
        return _write(cloud, call, fault)
    return _READS[call.verb](cloud, call)


# reads


def _cluster(cloud: AzureCloud, call: Call) -> Answer:
    pools = [bodies.pool_body(cloud.settings, pool) for pool in cloud.pools.values()]
    body = bodies.cluster_body(
        cloud.settings, state=cloud.cluster_state, power=cloud.cluster_power, etag=cloud.cluster_etag, pools=pools
    )
    return Answer(200, body)


def _get(cloud: AzureCloud, call: Call) -> Answer:
    pool = cloud.view("GET").get(call.pool)
    return Answer(200, bodies.pool_body(cloud.settings, pool)) if pool else errors.pool_not_found(call.pool)


def _upgrade_profile(cloud: AzureCloud, call: Call) -> Answer:
    pool = cloud.view("GET").get(call.pool)
    body = bodies.upgrade_profile_body(cloud.settings, pool) if pool else None
    return Answer(200, body) if body else errors.pool_not_found(call.pool)


def _identity(cloud: AzureCloud, call: Call) -> Answer:
    client_id = cloud.settings.identities.get(call.item)
    if client_id is None:
        return errors.resource_not_found(call.group, f"Microsoft.ManagedIdentity/userAssignedIdentities/{call.item}")
    return Answer(200, bodies.identity_body(cloud.settings, call.item, client_id))


async def _list(cloud: AzureCloud, call: Call) -> Answer:
    """One page, ordered by name, so that changes between pages neither repeat nor hide other pools."""
    settings = cloud.settings
    view = dict(cloud.view("LIST"))
    await cloud.scheduler.sleep(settings.list_seconds)
    if settings.list_order == "after":
        view = dict(cloud.view("LIST"))
    after = call.query.get("$skipToken", "")
    names = sorted(name for name in view if name > after)
    page = names[: settings.page_size]
    body: dict[str, object] = {"value": [bodies.pool_body(settings, view[name]) for name in page]}
    if len(names) > len(page):
        version = quote(call.query["api-version"])
        body["nextLink"] = f"{call.origin}{call.url}?api-version={version}&%24skipToken={page[-1]}"
    return Answer(200, body)


def _machines(cloud: AzureCloud, call: Call) -> Answer:
    pool = cloud.pools.get(call.pool)
    if pool is None:
        return errors.pool_not_found(call.pool)
    return Answer(200, {"value": [bodies.machine_body(cloud.settings, pool, n) for n in pool.machines]})


def _machine(cloud: AzureCloud, call: Call) -> Answer:
    pool = cloud.pools.get(call.pool)
    if pool is None:
        return errors.pool_not_found(call.pool)
    for instance in pool.machines:
        if bodies.node_name(cloud.settings, pool.name, instance) == call.item:
            return Answer(200, bodies.machine_body(cloud.settings, pool, instance))
    return errors.rp(404, "NotFound", f"Machine {call.item} not found in agent pool {call.pool}.")


def _operation(cloud: AzureCloud, call: Call) -> Answer:
    """The operation, or for `operationresults` 202 while it is running and 204 afterwards."""
    if not operations.genuine(call.item, call.query):
        return errors.gateway(403, "AuthorizationFailed", "The signature of the operation's URL is not valid.")
    operation = cloud.operations.get(call.item, cloud.scheduler.time())
    if operation is None:
        return errors.operation_not_found(call.item)
    if call.verb == "OPERATION":
        return Answer(200, bodies.operation_body(operation))
    return Answer(204) if operation.done else Answer(202, None, {"Location": call.origin + call.url})


def _other_services(cloud: AzureCloud, call: Call) -> Answer:
    return Answer(200, compute.answer(cloud.compute, cloud.settings, cloud.pools.values(), cloud.faults, call))


_READS: Mapping[str, Callable[[AzureCloud, Call], Answer]] = {
    "CLUSTER": _cluster,
    "GET": _get,
    "UPGRADE_PROFILE": _upgrade_profile,
    "MACHINES": _machines,
    "MACHINE": _machine,
    "OPERATION": _operation,
    "RESULT": _operation,
    **dict.fromkeys(compute.VERBS, _other_services),
    "IDENTITY": _identity,
}


# writes


def _write(cloud: AzureCloud, call: Call, fault: Fault | None) -> Answer:
    pool = cloud.pools.get(call.pool)
    refusal = _precondition(cloud, call, pool) or _locked(cloud, call, pool)
    if refusal is not None:
        return refusal
    if call.verb == "PUT":
        return _put(cloud, call, pool, fault)
    if call.verb == "DELETE":
        return _delete(cloud, call, pool, fault)
    if pool is None:
        return errors.pool_not_found(call.pool)
    if call.verb == "ABORT":
        return _accepted(cloud, call, cloud.lifecycle.abort(pool.name))
    return _delete_machines(cloud, call, pool)


def _precondition(cloud: AzureCloud, call: Call, pool: Pool | None) -> Answer | None:
    """ETag conditions. For a pool that does not exist, If-Match fails a PUT; a DELETE is always 204."""
    if cloud.settings.ignore_preconditions or call.verb not in ("PUT", "DELETE"):
        return None
    match, none_match = call.headers.get("If-Match", ""), call.headers.get("If-None-Match", "")
    if none_match not in ("", "*"):
        return errors.bad_request("The If-None-Match header must be empty or '*'.")
    if match and none_match:
        return errors.bad_request("The If-Match and If-None-Match headers cannot be used together.")
    if pool is None:
        absent = bool(match) and call.verb == "PUT"
        return errors.precondition_failed(f"agent pool '{call.pool}' does not exist.") if absent else None
    if none_match:
        return errors.precondition_failed(f"agent pool '{call.pool}' already exists.")
    if match and match not in ("*", pool.etag, f'"{pool.etag}"'):
        return errors.precondition_failed(f"the eTag {match} does not match the latest version '{pool.etag}'.")
    return None


def _locked(cloud: AzureCloud, call: Call, pool: Pool | None) -> Answer | None:
    """Cluster-level and pool-level locks."""
    if call.verb == "DELETE" and pool is None:
        return None
    if cloud.cluster_power == "Stopped":
        return errors.cluster_stopped()
    if cloud.cluster_state != "Succeeded":
        return errors.cluster_busy(cloud.cluster_state)
    if pool is None or call.verb == "ABORT":
        idle = call.verb == "ABORT" and pool is not None and not pool.busy
        return errors.nothing_to_abort(call.pool) if idle else _over_limit(cloud, call) if pool is None else None
    preempts = call.verb == "DELETE" and cloud.settings.delete_preempts and pool.state != "Deleting"
    return errors.pool_busy(pool.name, pool.state) if pool.busy and not preempts else _over_limit(cloud, call)


def _over_limit(cloud: AzureCloud, call: Call) -> Answer | None:
    """The limit of concurrent operations is an assumption."""
    most = cloud.settings.parallel_operations
    busy = [pool for pool in cloud.pools.values() if pool.busy and pool.name != call.pool]
    return errors.pool_busy(busy[0].name, busy[0].state) if most is not None and len(busy) >= most else None


def _put(cloud: AzureCloud, call: Call, pool: Pool | None, fault: Fault | None) -> Answer:
    if call.body is None:
        return errors.gateway(
            400, "InvalidRequestContent", "The request content was invalid and could not be deserialized."
        )
    settings = cloud.settings
    refusal = validation.check(call.pool, call.properties)
    if refusal is None and pool is None:
        refusal = compute.refusal(cloud.compute, settings.location, call.pool, call.properties)
    if refusal is None and settings.unknown_members == "reject":
        refusal = validation.check_members(call.properties)
    if refusal is None and pool is not None:
        refusal = validation.check_unchanged(pool.properties, call.properties)
    if refusal is None and pool is None and len(cloud.pools) >= settings.max_agent_pools:
        refusal = validation.too_many_pools(settings.max_agent_pools, settings.pool_limit_code)
    if refusal is not None:
        return refusal
    short = quota.shortage(settings, cloud.pools, call.pool, call.properties)
    if short is not None and settings.quota_check == "preflight":
        return quota.refusal(short, settings.location)
    if short is not None and (fault is None or fault.failure is None or fault.failure.machine):
        fault = replace(fault or Fault(), failure=quota.failure(short, settings.location))
    status = 201 if pool is None else 200
    change = cloud.lifecycle.create if pool is None else cloud.lifecycle.update
    accepted = change(call.pool, call.properties, fault)
    headers = {"Azure-AsyncOperation": _url(cloud, call, accepted.operation), **_retry_after(cloud)}
    return Answer(status, bodies.pool_body(settings, accepted.pool), headers)


def _retry_after(cloud: AzureCloud) -> dict[str, str]:
    """Recorded responses have none; current ones may."""
    seconds = cloud.settings.accepted_retry_after_seconds
    return {"Retry-After": str(seconds)} if seconds is not None else {}


def _delete(cloud: AzureCloud, call: Call, pool: Pool | None, fault: Fault | None) -> Answer:
    if pool is None:
        return Answer(204)
    systems = [other for other in cloud.pools.values() if other.properties["mode"] == "System"]
    if systems == [pool]:
        return errors.bad_request("There has to be at least one system agent pool.")
    return _accepted(cloud, call, cloud.lifecycle.delete(pool.name, fault))


def _delete_machines(cloud: AzureCloud, call: Call, pool: Pool) -> Answer:
    wanted = (call.body or {}).get("machineNames") or []
    named = {bodies.node_name(cloud.settings, pool.name, n): n for n in pool.machines}
    if not wanted or any(name not in named for name in wanted):
        return errors.invalid(
            "Cannot find any valid machines to delete. Please check your input machine names.", "machineNames"
        )
    if not cloud.settings.machines_may_empty and len(wanted) >= pool.count:
        return errors.bad_request("The last machine of an agent pool cannot be deleted; delete the agent pool.")
    return _accepted(cloud, call, cloud.lifecycle.delete_machines(pool.name, tuple(named[name] for name in wanted)))


def _accepted(cloud: AzureCloud, call: Call, accepted: Accepted) -> Answer:
    """202, empty, with both headers."""
    headers = {
        "Azure-AsyncOperation": _url(cloud, call, accepted.operation),
        "Location": _url(cloud, call, accepted.operation, results=True),
        **_retry_after(cloud),
    }
    return Answer(202, None, headers)


def _url(cloud: AzureCloud, call: Call, operation: str, *, results: bool = False) -> str:
    settings = cloud.settings
    return operations.url(call.origin, settings.subscription, settings.location, operation, results=results)
