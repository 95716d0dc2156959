"""The checks before AKS processes a request: those of ARM, and the rate limits of both.

ARM first (token, api-version, subscription, group, cluster, rate limit), then AKS's rate limit. A request that one
rejects costs the other no token. Every response has the number of ARM's remaining tokens.

Source: docs/references/agent-pools.md#not-found, docs/references/agent-pools.md#throttling,
docs/references/simulator.md#simulated-arm.
"""

from dataclasses import replace

from . import compute, errors, token_buckets
from .cloud import AzureCloud
from .errors import Answer
from .routing import ACTIONS, BEYOND_GROUPS, Call
from .settings import AzureSettings

# Requests to AKS; the version of other services is not checked.
VERSIONED = frozenset(
    {"CLUSTER", "LIST", "GET", "PUT", "DELETE", "ABORT", "DELETE_MACHINES", "MACHINES", "MACHINE", "UPGRADE_PROFILE"}
)


def refusal(cloud: AzureCloud, call: Call) -> Answer | None:
    """The error of ARM or a rate limit; None: AKS processes the request."""
    return _gateway(cloud, call) or _arm_rate(cloud, call) or _rate(cloud, call)


def with_remaining(cloud: AzureCloud, call: Call, answer: Answer | None) -> Answer | None:
    """Add the header with the number of ARM's remaining tokens."""
    if answer is None or not cloud.settings.arm_throttle:
        return answer
    bucket = token_buckets.arm_bucket_for(call.verb)
    left = cloud.throttle.left(bucket, "", cloud.scheduler.time())
    name = f"x-ms-ratelimit-remaining-subscription-{bucket.handler}"
    return replace(answer, headers={name: str(left), **answer.headers})


def _gateway(cloud: AzureCloud, call: Call) -> Answer | None:
    """The errors of ARM itself."""
    settings = cloud.settings
    scheme, _, token = call.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        return errors.unauthenticated(
            "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing."
        )
    if settings.token is not None and token != settings.token:
        return errors.unauthenticated("InvalidAuthenticationToken", "The access token is invalid.")
    if not call.query.get("api-version"):
        return errors.missing_api_version()
    if call.subscription != settings.subscription:
        return errors.subscription_not_found(call.subscription)
    if call.verb in BEYOND_GROUPS:
        return _unauthorized(settings, call, f"/subscriptions/{call.subscription}")
    if call.verb == "OTHER":
        return errors.gateway(404, "InvalidResourceType", "The resource type or action could not be found.")
    if call.verb in VERSIONED and call.query["api-version"] not in settings.api_versions:
        return errors.no_registered_provider(settings.location, call.query["api-version"], settings.api_versions)
    if call.group != settings.resource_group:
        return errors.group_not_found(call.group)
    if call.verb == "IDENTITY":
        return _unauthorized(settings, call, f"/subscriptions/{call.subscription}/resourceGroups/{call.group}")
    if call.cluster == settings.cluster:
        return _unauthorized(settings, call, settings.cluster_id)
    if call.verb == "CLUSTER":
        return errors.cluster_not_found(call.group, call.cluster)
    parent = settings.cluster_id.removesuffix(settings.cluster) + call.cluster
    return errors.parent_not_found("write" if call.verb == "PUT" else "read", parent)


def _unauthorized(settings: AzureSettings, call: Call, scope: str) -> Answer | None:
    """The error if the caller's role does not allow the action; `scope`: the resource ID in the message."""
    action = ACTIONS.get(call.verb, "")
    allowed = settings.actions is None or not action or action in settings.actions
    return None if allowed else errors.forbidden(action, scope)


def _arm_rate(cloud: AzureCloud, call: Call) -> Answer | None:
    """ARM's own token buckets, in front of all services."""
    if not cloud.settings.arm_throttle:
        return None
    bucket = token_buckets.arm_bucket_for(call.verb)
    wait = cloud.throttle.take(bucket, "", cloud.scheduler.time())
    return (
        errors.arm_throttled(bucket.handler, token_buckets.whole_seconds(wait, cloud.settings.speed)) if wait else None
    )


def _rate(cloud: AzureCloud, call: Call) -> Answer | None:
    """AKS's token buckets."""
    if not cloud.settings.throttle or call.verb in compute.VERBS:
        return None
    bucket, scope = token_buckets.bucket_for(call.verb, call.pool)
    wait = cloud.throttle.take(bucket, scope, cloud.scheduler.time())
    return errors.throttled(bucket.handler, token_buckets.whole_seconds(wait, cloud.settings.speed)) if wait else None
