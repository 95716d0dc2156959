"""Faults of the simulated Azure as data: the requests they match, and their effect.

A `Fault` matches verb, pool (glob), size, zone, priority and the number of the match (`skip`, `times`). The functions
below build the most common failures, with Azure's messages.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#node-bring-up-errors,
docs/references/agent-pools.md#throttling, docs/references/simulator.md#simulated-arm.
"""

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import errors
from .errors import Answer

Range = tuple[float, float]
Error = Mapping[str, Any]
ALWAYS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The failure of an accepted operation, after `after_seconds` of simulated time.

    `machine`: a machine boots first; if a quota is exceeded, none boots and the create fails because of the quota.
    `silent`: only the operation has the error; the pool has no `status.provisioningError`.
    """

    error: Error
    after_seconds: float = 45.0
    machine: bool = False
    silent: bool = False


@dataclass(kw_only=True)
class Fault:
    """One rule. Empty matchers match everything.

    Match: `verb` (as in `routing.py`, or "*"), `pool` (glob), `size`, `zone`, `priority` and `subnet` ("": that of the
    cluster) of the pool (of the body, for a PUT); the first `skip` matches pass, the next `times` are affected.
    Effect: return `answer`; `drop` the connection "before" or "after" the request took effect; delay by `slow_seconds`
    ("before" or "after" it, by `slow`); let the accepted operation end with `failure`, or last `operation_seconds`.
    `restricted`: the reason with which the list of sizes has `size`, or its `zone`, as restricted.
    """

    verb: str = "*"
    pool: str = "*"
    size: str = ""
    zone: str = ""
    priority: str = ""
    subnet: str | None = None
    skip: int = 0
    times: int = 1
    answer: Answer | None = None
    drop: str = ""
    slow_seconds: float = 0.0
    slow: str = "before"
    failure: Failure | None = None
    operation_seconds: float | None = None
    restricted: str = ""
    seen: int = field(default=0, compare=False)

    def hits(self, verb: str, pool: str, properties: Mapping[str, Any]) -> bool:
        """Whether this request is affected; counts it if it matches."""
        if self.verb not in ("*", verb) or not fnmatch.fnmatchcase(pool, self.pool):
            return False
        if self.size and str(properties.get("vmSize", "")).lower() != self.size.lower():
            return False
        if self.zone and self.zone not in (properties.get("availabilityZones") or ()):
            return False
        if self.priority and (properties.get("scaleSetPriority") or "Regular") != self.priority:
            return False
        if self.subnet is not None and (properties.get("vnetSubnetID") or "") != self.subnet:
            return False
        self.seen += 1
        return self.skip < self.seen <= self.skip + self.times


def pick(faults: Sequence[Fault], verb: str, pool: str, properties: Mapping[str, Any]) -> Fault | None:
    """The first rule that affects this request; later rules do not count it."""
    return next((fault for fault in faults if fault.hits(verb, pool, properties)), None)


def error(code: str, message: str, details: Sequence[Error] = ()) -> dict[str, Any]:
    """An error as in operations and `status.provisioningError`."""
    return {"code": code, "message": message, "details": list(details)}


def wrapped(inner: Error, *, how: str = "details") -> dict[str, Any]:
    """AKS's wrapper of a Compute error: the code is in `details[0]`, or (how="message") only in the text."""
    text = f'Code="{inner["code"]}" Message="{inner["message"]}"'
    if how == "message":
        return error("CreateVMSSAgentPoolFailed", f"VMSSAgentPoolReconciler retry failed: {text}")
    return error("ReconcileVMSSAgentPoolFailed", "We are unable to create the scale set. See details.", [inner])


def quota_exceeded(
    what: str, *, limit: int = 24, usage: int | None = None, needed: int = 24, region: str = "westeurope"
) -> Error:
    """Compute's quota error. `what`: `<name>Family Cores`, `Total Regional Cores` or `LowPriorityCores`."""
    used = limit if usage is None else usage
    return error(
        "OperationNotAllowed",
        f"Operation could not be completed as it results in exceeding approved {what} quota. Additional details - "
        f"Deployment Model: Resource Manager, Location: {region}, Current Limit: {limit}, Current Usage: {used}, "
        f"Additional Required: {needed}, (Minimum) New Limit Required: {used + needed}. Submit a request for Quota "
        "increase at https://aka.ms/ProdportalCRP/#blade/Microsoft_Azure_Capacity/UsageAndQuota.ReactView by "
        "specifying parameters listed in the 'Details' section for deployment to succeed.",
    )


def no_capacity(code: str = "AllocationFailed") -> Error:
    """`code`: AllocationFailed, ZonalAllocationFailed, OverconstrainedZonalAllocationRequest or SkuNotAvailable."""
    phrases = {
        "AllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this "
        "region.",
        "ZonalAllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in "
        "this zone.",
        "OverconstrainedZonalAllocationRequest": "Allocation failed. VM(s) with the following constraints cannot be "
        "allocated, because the condition is too restrictive. Constraints applied are: Availability Zone, VM Size.",
        "SkuNotAvailable": "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions' "
        "is currently not available in this location. Please try another size or deploy to a different location or "
        "zone.",
    }
    return error(code, phrases[code] + " Read more at https://aka.ms/allocation-guidance")


def nodes_not_ready() -> Error:
    """The machine booted, but its kubelet did not report Ready."""
    return error("NodesNotReady", "Not all nodes reached Ready state. Expected: 1, Actual: 0")


def quota(*, size: str = "", times: int = ALWAYS, after_seconds: float = 45.0, how: str = "details") -> Fault:
    """The PUT is accepted; the pool then fails because the family's quota is exceeded."""
    return Fault(
        verb="PUT",
        size=size,
        times=times,
        failure=Failure(
            error=wrapped(quota_exceeded("standardNCADSA100v4Family Cores"), how=how), after_seconds=after_seconds
        ),
    )


def quota_preflight(*, size: str = "", times: int = ALWAYS) -> Fault:
    """The PUT is rejected at once by AKS's quota check."""
    message = (
        "Preflight validation check for resource(s) for container service failed. Message: Insufficient vcpu quota "
        "requested 24, remaining 0 for family standardNCADSA100v4Family for region westeurope."
    )
    return Fault(verb="PUT", size=size, times=times, answer=errors.rp(400, "ErrCode_InsufficientVCPUQuota", message))


def size_not_available(pool: str, *, size: str, zones: str = "1,2,3", times: int = ALWAYS) -> Fault:
    """The PUT is rejected by a validation of Compute, which AKS quotes as JSON.

    Source: https://github.com/Azure/AKS/issues/1444.
    """
    text = (
        "The template deployment failed with error: 'The resource with id: '/subscriptions/x/y' failed validation with "
        "message: 'The requested size for resource '/subscriptions/x/y' is currently not available in location "
        f"'westeurope' zones '{zones}' for subscription 'x'. Please try another size or deploy to a different location "
        "or zones. See https://aka.ms/azureskunotavailable for details.'.'."
    )
    inner = json.dumps({"code": "InvalidTemplateDeployment", "message": text}, indent=2)
    message = f"Provisioning of resource(s) for Agent Pool {pool} failed. Error: {inner}"
    return Fault(verb="PUT", size=size, times=times, answer=errors.rp(400, "BadRequest", message))


def restricted(size: str, *, zone: str = "", reason: str = "NotAvailableForSubscription", times: int = ALWAYS) -> Fault:
    """The subscription cannot use the size, or not in this zone; a PUT is rejected at once."""
    where = f" in zone {zone}" if zone else ""
    message = f"The VM size of {size}{where} is not allowed in your subscription in location."
    return Fault(verb="PUT", size=size, zone=zone, times=times, answer=errors.bad_request(message), restricted=reason)


def capacity(
    code: str = "AllocationFailed",
    *,
    size: str = "",
    zone: str = "",
    priority: str = "",
    times: int = ALWAYS,
    after_seconds: float = 45.0,
) -> Fault:
    """The PUT is accepted; the pool then fails because Azure has no capacity."""
    failure = Failure(error=wrapped(no_capacity(code)), after_seconds=after_seconds)
    return Fault(verb="PUT", size=size, zone=zone, priority=priority, times=times, failure=failure)


def throttled(*, verb: str = "PUT", seconds: int = 30, times: int = 3) -> Fault:
    """429 with Retry-After, `times` times."""
    return Fault(
        verb=verb,
        times=times,
        answer=errors.throttled("PutAgentPoolHandler.PUT" if verb == "PUT" else "AgentPoolHandler", seconds),
    )
