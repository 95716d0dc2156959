"""All error responses of the simulated ARM and AKS.

Codes, messages, shapes and headers are as recorded. The resource provider (AKS) returns flat bodies `{code, details,
message, subcode}`; the gateway (ARM) wraps them in `{"error": …}` with `x-ms-failure-cause: gateway`
(docs/references/agent-pools.md#error-bodies, docs/references/agent-pools.md#not-found).

Source: docs/references/agent-pools.md, from "Quota and capacity errors" to "Service errors".
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Body = Mapping[str, Any]
AUTHORITY = "https://login.microsoftonline.com/common"


@dataclass(frozen=True)
class Answer:
    """One HTTP response: `body` is JSON if it is a mapping, HTML if it is text, empty if None."""

    status: int
    body: Body | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def rp(status: int, code: str, message: str, *, subcode: str = "", target: str | None = None) -> Answer:
    """An error of AKS: flat."""
    body: dict[str, Any] = {"code": code, "details": None, "message": message, "subcode": subcode}
    if target is not None:
        body["target"] = target
    return Answer(status, body)


def gateway(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error of ARM, in front of AKS: wrapped."""
    return Answer(
        status, {"error": {"code": code, "message": message}}, {"x-ms-failure-cause": "gateway", **(headers or {})}
    )


# 404; only the first one means that the pool does not exist


def pool_not_found(pool: str) -> Answer:
    """AKS: the pool does not exist."""
    return rp(404, "NotFound", f"Agent Pool not found. Agent pool '{pool}' does not exist in the managed cluster.")


def resource_not_found(group: str, resource: str) -> Answer:
    """ARM: the resource does not exist; `resource` is `Microsoft.ContainerService/managedClusters/x` or a child."""
    return gateway(
        404,
        "ResourceNotFound",
        f"The Resource '{resource}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def cluster_not_found(group: str, cluster: str) -> Answer:
    """ARM: the cluster does not exist."""
    return resource_not_found(group, f"Microsoft.ContainerService/managedClusters/{cluster}")


def parent_not_found(action: str, cluster_id: str) -> Answer:
    """ARM: the cluster of the requested pool does not exist; `action` is read or write."""
    return gateway(
        404,
        "ParentResourceNotFound",
        f"Failed to perform '{action}' on resource(s) of type 'managedClusters/agentPools', because the parent "
        f"resource '{cluster_id}' could not be found.",
    )


def group_not_found(group: str) -> Answer:
    """ARM: the resource group does not exist."""
    return gateway(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def subscription_not_found(subscription: str) -> Answer:
    """ARM: the subscription does not exist."""
    return gateway(404, "SubscriptionNotFound", f"The subscription '{subscription}' could not be found.")


def operation_not_found(operation: str) -> Answer:
    """The operation does not exist or has expired."""
    return gateway(404, "NotFound", f"The entity was not found: operation '{operation}' does not exist or has expired.")


# conflict and concurrency


def pool_busy(pool: str, state: str) -> Answer:
    """Another operation holds the pool."""
    return rp(
        409,
        "OperationNotAllowed",
        f"Operation is not allowed: Another agentpool operation ({pool} - {state}) is in progress, please wait for it "
        "to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details",
    )


def cluster_busy(state: str) -> Answer:
    """A cluster-level operation blocks all pools."""
    return rp(
        409,
        "OperationNotAllowed",
        f"Operation is not allowed: Another operation ({state}) is in progress, please wait for it to finish before "
        "starting a new operation. See https://aka.ms/aks-pending-operation for more details",
    )


def cluster_stopped() -> Answer:
    """Pools of a stopped cluster cannot be changed."""
    return rp(
        409, "OperationNotAllowed", "Operation is not allowed while the managed cluster's power state is Stopped."
    )


def nothing_to_abort(pool: str) -> Answer:
    """The pool is idle."""
    return rp(409, "OperationNotAllowed", f"There is no in-progress operation on agent pool '{pool}' to abort.")


def precondition_failed(detail: str) -> Answer:
    """An eTag condition does not hold."""
    return rp(412, "PreConditionFailed", f"The request's precondition failed: {detail}")


def bad_request(message: str) -> Answer:
    """A 400 that names no parameter."""
    return rp(400, "BadRequest", message)


def invalid(message: str, target: str) -> Answer:
    """A 400 that names the invalid parameter."""
    return rp(400, "InvalidParameter", message, target=target)


def zones_not_supported(pool: str, zones: Sequence[str], location: str, supported: Sequence[str]) -> Answer:
    """A 400 for zones that the size does not have."""
    message = f"The zone(s) '{','.join(zones)}' for resource '{pool}' is not supported."
    return rp(
        400,
        "AvailabilityZoneNotSupported",
        f"{message} The supported zones for location '{location}' are '{','.join(supported)}'",
    )


# authentication, authorization, throttling


def missing_api_version() -> Answer:
    """ARM requires api-version."""
    return gateway(
        400,
        "MissingApiVersionParameter",
        "The api-version query parameter (?api-version=) is required for all requests.",
    )


def no_registered_provider(location: str, version: str, offered: Sequence[str]) -> Answer:
    """The cloud does not offer this version of the API."""
    return gateway(
        400,
        "NoRegisteredProviderFound",
        f"No registered resource provider found for location '{location}' and API version '{version}' for type "
        f"'managedClusters'. The supported api-versions are '{', '.join(offered)}'. The supported locations are "
        f"'{location}'.",
    )


def unauthenticated(code: str, message: str) -> Answer:
    """No token, or an invalid one."""
    header = f'Bearer authorization_uri="{AUTHORITY}", error="invalid_token", error_description="{message}"'
    return gateway(401, code, message, {"WWW-Authenticate": header})


def claims_challenge() -> Answer:
    """Continuous access evaluation: the client must fetch a new token that satisfies `claims`."""
    claims = base64.b64encode(b'{"access_token":{"nbf":{"essential":true,"value":"1760000000"}}}').decode()
    header = (
        f'Bearer realm="", authorization_uri="{AUTHORITY}/oauth2/authorize", '
        f'error="insufficient_claims", claims="{claims}"'
    )
    return gateway(
        401, "InvalidAuthenticationToken", "The access token has been revoked.", {"WWW-Authenticate": header}
    )


def forbidden(action: str, scope: str) -> Answer:
    """The identity lacks the permission."""
    return gateway(
        403,
        "AuthorizationFailed",
        "The client '00000000-0000-0000-0000-00000000c1e7' does not have authorization to perform action "
        f"'{action}' over scope '{scope}' or the scope is invalid. If access was recently granted, please refresh your "
        "credentials.",
    )


def throttled(handler: str, seconds: int) -> Answer:
    """AKS's own 429; `seconds` is whole, as Retry-After must be."""
    message = (
        f"The {handler} request limit has been exceeded for this resource, please retry again in {seconds} seconds. "
        "For more information, please visit aka.ms/aks/throttling"
    )
    return Answer(
        429,
        {"code": "Throttled", "details": None, "message": message, "subcode": ""},
        {"Retry-After": str(seconds)},
    )


def arm_throttled(kind: str, seconds: int) -> Answer:
    """ARM's own 429, in front of AKS; `kind` is reads, writes or deletes, `seconds` is whole."""
    message = (
        f"Number of '{kind}' requests for subscription actor exceeded. Please try again after '{seconds}' seconds "
        "after additional tokens are available. Refer to https://aka.ms/arm-throttling for additional information."
    )
    headers = {"Retry-After": str(seconds), f"x-ms-ratelimit-remaining-subscription-{kind}": "0"}
    return gateway(429, "SubscriptionRequestsThrottled", message, headers)


def html(status: int) -> Answer:
    """The HTML response of a proxy when ARM does not respond."""
    return Answer(status, f"<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>")
