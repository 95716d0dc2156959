"""Classification of the responses in docs/references/agent-pools.md, and of arbitrary responses."""

import json
import string
from typing import Any

import msgspec
import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cloudprovider.azure.arm_errors import ErrorDetail, error_details, read_body, read_error
from cloudprovider.azure.error_table import TABLE, Verb
from cloudprovider.azure.errors import classify, classify_failure, classify_response, retry_after_seconds
from cloudprovider.azure.messages import format_message, parse_location, summarize
from cloudprovider.errors import CloudError, NoCapacity, NotFound, Rejected, Retryable
from provisioner.simulator.azure import errors, faults

from .error_bodies import BODIES, CODES, ERRORS, JSON, MESSAGES, POOL, TEXT, VERBS, Answer, flat, wrapped

CLUSTER_ID = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/x/managedClusters/aks"


def updates(
    status: int, body: Any, *, verb: Verb = "create", pool: str = POOL, headers: dict[str, str] | None = None
) -> CloudError:
    """What an HTTP answer becomes on its way through the SDK's exception."""
    text = body if isinstance(body, str) else json.dumps(body)
    response: Any = Answer(status, text, headers)
    return classify(HttpResponseError(response=response), pool=pool, verb=verb)


# Quota and capacity errors

QUOTA_SCOPES = [
    ("standardNCADSA100v4Family Cores", "size"),
    ("Total Regional Cores", "region"),
    ("LowPriorityCores", "priority"),
]


@pytest.mark.parametrize(("what", "scope"), QUOTA_SCOPES)
@pytest.mark.parametrize("how", ["plain", "details", "message"])
def test_quota_errors_in_every_shape(what: str, scope: str, how: str) -> None:
    """As the outer code, in details, or quoted in the message; the message keeps the numbers and the remedy."""
    inner = faults.quota_exceeded(what)
    body = inner if how == "plain" else faults.wrapped(inner, how=how)
    error = updates(400, {"error": body})
    assert isinstance(error, NoCapacity)
    assert (error.reason, error.scope, error.code) == ("QuotaExceeded", scope, "OperationNotAllowed")
    assert error.after is None
    assert "limit 24, used 24, needed 24" in error.message
    assert error.message.startswith("OperationNotAllowed: ")
    assert error.message.endswith("az vm list-usage -l westeurope -o table")
    failure = classify_failure(body["code"], body["message"], body["details"])
    assert (failure.kind, failure.reason, failure.message) == ("no_capacity", "QuotaExceeded", error.message)


def test_the_quota_error_of_aks() -> None:
    """Its message states family, region, requested and remaining vCPUs."""
    message = (
        "Preflight validation check for resource(s) for container service failed. Message: Insufficient vcpu quota "
        "requested 24, remaining 0 for family standardNCADSA100v4Family for region westeurope."
    )
    error = updates(400, flat("ErrCode_InsufficientVCPUQuota", message))
    assert isinstance(error, NoCapacity)
    assert "standardNCADSA100v4Family cores quota in westeurope: left 0, needed 24" in error.message


NO_CAPACITY = [
    ("SkuNotAvailable", "Following SKUs have failed for Capacity Restrictions", "size", None),
    ("VMSizeNotSupported", "The VM size is not there.", "size", None),
    ("BadRequest", "Standard_X is not supported for subscription", "size", None),
    ("BadRequest", "The VM size of Standard_X is not allowed in your subscription in location 'x'.", "size", None),
    ("InvalidParameter", "vmSize Standard_X is not available in the current region", "size", None),
    ("ZonalAllocationFailed", "no capacity", "zone", None),
    ("AllocationFailed", "no capacity", "size", None),
    ("OverconstrainedZonalAllocationRequest", "no capacity", "zone", None),
    ("OverconstrainedAllocationRequest", "Constraints applied are: Ephemeral Disk", "configuration", None),
    ("OverconstrainedAllocationRequest", "Constraints applied are: VM Size", "size", None),
    ("AvailabilityZoneNotSupported", "zone 3 is not there", "zone", None),
    ("KubenetNodeCountTotalExceedsLimit", "400 nodes", "cluster", 300.0),
    ("BadRequest", "The maximum number of agent pools (100) allowed has been reached.", "cluster", 300.0),
    ("SubnetIsFull", "full", "subnet", 300.0),
    ("InsufficientSubnetSize", "small", "subnet", 300.0),
    ("PublicIPCountLimitReached", "no ips", "cluster", 300.0),
]


@pytest.mark.parametrize(("code", "message", "scope", "after"), NO_CAPACITY)
def test_capacity_errors(code: str, message: str, scope: str, after: float | None) -> None:
    """The scope is the one of the code, at the PUT or after acceptance."""
    error = updates(400, flat(code, message))
    assert isinstance(error, NoCapacity)
    assert (error.scope, error.after, error.code) == (scope, after, code)
    assert classify_failure(code, message, None).kind == "no_capacity"


def test_the_subcode_is_matched() -> None:
    """AKS returns some codes in `subcode`, which the SDK does not parse."""
    error = updates(400, flat("BadRequest", "too many", subcode="KubenetNodeCountTotalExceedsLimit"))
    assert isinstance(error, NoCapacity)
    assert error.code == "KubenetNodeCountTotalExceedsLimit"


# Network, node bring-up, immutability, validation, policies

REJECTED = [
    (400, "PropertyChangeNotAllowed", "Changing property 'vmSize' is not allowed.", "PropertyChangeNotAllowed"),
    (400, "AgentPoolAPIsNotSupported", "no VMSS", "AgentPoolAPIsNotSupported"),
    (400, "NodePoolMcVersionIncompatible", "old", "NodePoolMcVersionIncompatible"),
    (400, "AgentPoolK8sVersionNotSupported", "old", "AgentPoolK8sVersionNotSupported"),
    (400, "InvalidResourceReference", "no subnet", "InvalidResourceReference"),
    (403, "RequestDisallowedByPolicy", "denied", "RequestDisallowedByPolicy"),
    (403, "LinkedAuthorizationFailed", "no subnet join", "LinkedAuthorizationFailed"),
    (400, "BadRequest", "Label must begin with an allowed prefix (kubelet.kubernetes.io)", "InvalidLabel"),
    (
        400,
        "InvalidParameter",
        "Invalid node label key 'a'. The prefix is preserved by aks system labels",
        "InvalidLabel",
    ),
    (400, "ValidationError", "osDiskSizeGB is too small", "ValidationError"),
    (400, "InvalidParameter", "The value of parameter count is invalid", "InvalidParameter"),
    (400, "SomethingNew", "we do not like it", "SomethingNew"),
]


@pytest.mark.parametrize(("status", "code", "message", "reason"), REJECTED)
def test_rejected_errors(status: int, code: str, message: str, reason: str) -> None:
    """Rejected, but not final: only our own validation is."""
    error = updates(status, flat(code, message))
    assert isinstance(error, Rejected)
    assert (error.reason, error.code, error.status, error.final) == (reason, code, status, False)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("VMExtensionProvisioningError", "VM has reported a failure when processing extension 'vmssCSE'."),
        ("VMExtensionProvisioningTimeout", "Provisioning of VM extension vmssCSE has timed out."),
        ("VMExtensionError_K8SAPIServerConnFail", "exit status=51"),
        ("ReconcileVMSSAgentPoolFailed", "vmssCSE exit status=50: OutboundConnFail"),
        ("NodesNotReady", "Not all nodes reached Ready state. Expected: 1, Actual: 0"),
    ],
)
def test_a_machine_that_fails_to_boot_is_rejected(code: str, message: str) -> None:
    """It was created and billed; the retry is delayed as for a rejected request."""
    assert classify_failure(code, message, []).kind == "rejected"


@pytest.mark.parametrize(
    "code",
    ["VMExtensionHandlerNonTransientError", "Unheard", "InternalServerError", "AKSOperationPreempted", "Throttled"],
)
def test_whatever_made_a_pool_fail_delays_the_retry_as_a_rejection_does(code: str) -> None:
    """The pool failed after its PUT was accepted, so that a machine may have been created and billed."""
    failure = classify_failure(code, "something went wrong", None)
    assert (failure.kind, failure.reason, failure.after) == ("rejected", code, None)


# Not found


def test_404s_that_prove_absence() -> None:
    """The flat 404 of AKS, and the 404 of ARM with the path of the pool."""
    aks = errors.pool_not_found(POOL).body
    arm = errors.resource_not_found("rg", f"Microsoft.ContainerService/managedClusters/aks/agentPools/{POOL}").body
    for body in (aks, arm, flat("NotFound", "Agent Pool not found")):
        for verb in ("get", "delete"):
            error = updates(404, body, verb=verb)
            assert isinstance(error, NotFound)
            assert error.status == 404


NO_PROOF = [
    (errors.pool_not_found("gpu2").body, "NotFoundWithoutProof"),
    (wrapped("NotFound", "Agent Pool not found"), "NotFoundWithoutProof"),
    (errors.operation_not_found("0000").body, "NotFoundWithoutProof"),
    (flat("NotFound", "Machine x not found in agent pool gpu1."), "NotFoundWithoutProof"),
    (flat("NotFound", "Could not find managed cluster aks"), "NotFoundWithoutProof"),
    ("<html>404</html>", "NotFoundWithoutProof"),
    ("", "NotFoundWithoutProof"),
    (errors.cluster_not_found("rg", "aks").body, "ClusterNotFound"),
    (errors.parent_not_found("read", CLUSTER_ID).body, "ClusterNotFound"),
    (wrapped("ResourceNotFound", "managedClusters/aks/agentPools/gpu12' was not found"), "ClusterNotFound"),
    (wrapped("ResourceNotFound", "managedClusters/aks/agentPools/gpu1/machines/m' was not found"), "ClusterNotFound"),
    (errors.group_not_found("rg").body, "ResourceGroupNotFound"),
    (errors.subscription_not_found("s").body, "SubscriptionNotFound"),
]


@pytest.mark.parametrize(("body", "reason"), NO_PROOF)
def test_404s_that_do_not_prove_absence(body: Any, reason: str) -> None:
    """Of the cluster, group, subscription, an operation, a machine, another pool, or a proxy."""
    for verb in VERBS:
        error = updates(404, body, verb=verb)
        assert isinstance(error, Retryable)
        assert (error.reason, error.conflict) == (reason, False)
        assert error.message.endswith("AZURE_CLUSTER_NAME")


@pytest.mark.parametrize("verb", ["create", "list", "cluster"])
def test_only_reads_and_deletes_of_a_pool_can_prove_its_absence(verb: Verb) -> None:
    """A 404 of a PUT or a LIST does not prove absence."""
    assert isinstance(updates(404, errors.pool_not_found(POOL).body, verb=verb), Retryable)


# Conflicts

CONFLICTS = [
    (409, errors.pool_busy(POOL, "Creating").body, "OperationInProgress"),
    (409, errors.cluster_busy("Updating").body, "OperationInProgress"),
    (400, flat("OperationNotAllowed", "there's an in progress create node pool operation"), "OperationInProgress"),
    (412, flat("PreConditionFailed", "eTag"), "PoolExists"),
    (412, "", "PoolExists"),
    (409, flat("OperationNotAllowed", "for a reason nobody wrote down"), "OperationNotAllowed"),
    (409, "", "HTTP409"),
    (202, "", "UnexpectedResponse"),
    (200, "", "UnexpectedResponse"),
]


@pytest.mark.parametrize(("status", "body", "reason"), CONFLICTS)
def test_conflicts(status: int, body: Any, reason: str) -> None:
    """Another operation, a taken name, an unexpected 2xx: `conflict` is True."""
    error = updates(status, body)
    assert isinstance(error, Retryable)
    assert (error.conflict, error.status, error.reason) == (True, status, reason)


def test_412_of_put_and_delete() -> None:
    """The reason is PoolExists for a PUT and PoolChanged for a DELETE."""
    assert updates(412, "", verb="delete").reason == "PoolChanged"


@pytest.mark.parametrize("code", ["MissingSubscriptionRegistration", "ReadOnlyDisabledSubscription", "ScopeLocked"])
def test_a_409_of_the_subscription(code: str) -> None:
    """It is not a conflict with another operation, and is retried slowly."""
    error = updates(409, wrapped(code, "locked"))
    assert isinstance(error, Retryable)
    assert (error.conflict, error.after) == (False, 300.0)


def test_a_stopped_cluster() -> None:
    """The reason is ClusterNotRunning, and the remedy is a command."""
    error = updates(409, errors.cluster_stopped().body)
    assert isinstance(error, Retryable)
    assert error.reason == "ClusterNotRunning"
    assert error.message.endswith("az aks start")


# Authentication, throttling, 5xx


@pytest.mark.parametrize(
    ("status", "body", "reason", "after"),
    [
        (401, wrapped("InvalidAuthenticationToken", "no"), "Unauthenticated", None),
        (401, wrapped("ExpiredAuthenticationToken", "no"), "Unauthenticated", None),
        (403, errors.forbidden("write", CLUSTER_ID).body, "AuthorizationFailed", 300.0),
        (429, flat("Throttled", "PutAgentPoolHandler.PUT request limit has been exceeded"), "Throttled", None),
        (429, "", "Throttled", None),
        (429, errors.arm_throttled("reads", 5).body, "SubscriptionThrottled", None),
        (429, wrapped("TooManyRequests", "slow down"), "SubscriptionThrottled", None),
        (400, wrapped("TooManyRequestsReceived", "Compute is busy"), "Throttled", None),
        (500, wrapped("InternalServerError", "oops"), "InternalServerError", None),
        (
            400,
            flat("Unknown", "We are unable to serve this request due to an internal error"),
            "InternalServerError",
            None,
        ),
        (502, "<html><h1>502</h1></html>", "ServiceUnavailable", None),
        (503, "", "ServiceUnavailable", None),
        (504, wrapped("GatewayTimeout", "late"), "GatewayTimeout", None),
        (408, "", "Timeout", None),
        (400, flat("AksCapacityHeavyUsage", "busy region"), "AksCapacityHeavyUsage", 300.0),
        (302, "", "HTTP302", None),
        (418, flat("Teapot", "short and stout"), "Teapot", None),
    ],
)
def test_retryable_errors(status: int, body: Any, reason: str, after: float | None) -> None:
    """Access, throttling, service errors and unknown errors, each with its delay."""
    for verb in VERBS:
        error = updates(status, body, verb=verb)
        assert isinstance(error, Retryable)
        assert (error.reason, error.after, error.status, error.conflict) == (reason, after, status, False)


def test_retry_after() -> None:
    """In its three forms, at most an hour; dates, signs and invalid values are ignored."""
    assert updates(429, "", headers={"Retry-After": "37"}).after == 37.0
    assert updates(403, "", headers={"Retry-After": "7"}).after == 7.0
    assert retry_after_seconds({"x-ms-retry-after-ms": "1500"}) == 1.5
    assert retry_after_seconds({"retry-after-ms": "2500", "Retry-After": "9"}) == 2.5
    assert retry_after_seconds({"Retry-After": "86400"}) == 3600.0
    for nonsense in ("", "0", "-5", "nan", "inf", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"):
        assert retry_after_seconds({"Retry-After": nonsense}) is None


# No response


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (TimeoutError(), "Timeout"),
        (ServiceResponseTimeoutError("late"), "Timeout"),
        (ServiceRequestTimeoutError("late"), "ConnectionFailed"),
        (ServiceRequestError("refused"), "ConnectionFailed"),
        (ServiceResponseError("reset"), "ConnectionFailed"),
        (ConnectionResetError(), "ConnectionFailed"),
        (IncompleteReadError("half a body"), "ConnectionFailed"),
        (json.JSONDecodeError("no", "<html>", 0), "InvalidResponse"),
        (msgspec.DecodeError("no"), "InvalidResponse"),
        (HttpResponseError("without a response"), "UnexpectedError"),
        (AzureError("whatever"), "UnexpectedError"),
        (KeyError("secret-token"), "UnexpectedError"),
    ],
)
def test_errors_without_a_response(exc: Exception, reason: str) -> None:
    """Status 0: the request may have been applied. The text of the exception is not shown."""
    for verb in VERBS:
        error = classify(exc, pool=POOL, verb=verb)
        assert isinstance(error, Retryable)
        assert (error.reason, error.status, error.conflict) == (reason, 0, False)
        assert "secret" not in error.message


ENTRA_SAID = (
    "Microsoft Entra ID error '(unauthorized_client) AADSTS700016: Application with identifier "
    "'c0ffee00-0000-0000-0000-000000000000' was not found in the directory 't'. Trace ID: "
    "00000000-0000-0000-0000-000000000001 Correlation ID: 00000000-0000-0000-0000-000000000002'"
)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_errors_of_entra_id_are_retryable(status: int) -> None:
    """Whatever its status, no request was sent to ARM."""
    body = {"error": "unauthorized_client", "error_description": ENTRA_SAID}
    response: Any = Answer(status, json.dumps(body), {"Retry-After": "7"})
    for verb in VERBS:
        error = classify(ClientAuthenticationError(message=ENTRA_SAID, response=response), pool=POOL, verb=verb)
        assert isinstance(error, Retryable)
        assert (error.reason, error.code, error.status, error.after) == ("NoToken", "AADSTS700016", 401, 7.0)
        assert error.message.startswith("AADSTS700016: Application with identifier '…' was not found")
        assert error.message.endswith("service account")
        assert "Trace" not in error.message


def test_a_failed_credential_is_retryable() -> None:
    """Status 401: no request was sent to ARM."""
    error = classify(ClientAuthenticationError("no token"), pool=POOL, verb="create")
    assert isinstance(error, Retryable)
    assert (error.reason, error.status, error.conflict) == ("NoToken", 401, False)


def test_a_cloud_error_is_returned_unchanged() -> None:
    """It is classified already."""
    mine = Rejected("TaintInvalid", "no", final=True)
    assert classify(mine, pool=POOL, verb="create") is mine


# Messages


def test_messages_have_no_link_guid_path_or_secret() -> None:
    """They are dropped or masked."""
    message = (
        "The client 'a1b2c3d4-0000-0000-0000-00000000c1e7' may not write over '/subscriptions/a1b2c3d4-0000-0000-0000-"
        "00000000c1e7/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/aks?c=x&s=sig&t=1'. "
        "Bearer abcdefghijklmnop is wrong. See https://aka.ms/x?s=secret for more details. Read aka.ms/y."
    )
    stated = summarize(message)
    assert stated == "The client '…' may not write over 'aks'. Bearer *** is wrong."


PASSING_WORDS = (
    errors.throttled("PutAgentPoolHandler.PUT", 37),
    errors.arm_throttled("writes", 37),
    errors.rp(429, "Throttled", "Slow down, please retry after 37 seconds."),
    errors.rp(429, "Throttled", "Slow down. Retry after 37s, at 2026-11-21T10:11:37.1234567Z."),
    errors.rp(429, "TooManyRequests", "Retry in 37 seconds at 2026-11-21 10:11:37Z, please."),
)


@pytest.mark.parametrize("answer", PASSING_WORDS, ids=lambda answer: str(answer.body)[:60])
def test_messages_have_no_times(answer: errors.Answer) -> None:
    """Wait times and times of day are removed, so that the status of a claim is not rewritten each time."""
    body = json.dumps(answer.body)
    later = body.replace("37", "5").replace("10:11:5", "10:11:42")
    assert later != body
    stated = [classify_response(429, read_body(text), headers={}, pool="gpu1", verb="create") for text in (body, later)]
    assert stated[0].message == stated[1].message
    assert "37" not in stated[0].message
    assert stated[0].message.split(": ")[1], "its words are there"


def test_a_missing_permission_names_the_action_and_the_role() -> None:
    """The message has the missing action, the file of the role and the command."""
    answer = errors.forbidden("Microsoft.ContainerService/managedClusters/agentPools/write", CLUSTER_ID)
    error = classify_response(403, read_body(json.dumps(answer.body)), headers={}, pool="gpu1", verb="create")
    assert error.message == (
        "AuthorizationFailed: missing permission agentPools/write. Apply charts/gpu-provisioner/azure-role.json: az"
        " role assignment create; it can take an hour to take effect"
    )
    assert (error.reason, error.after) == ("AuthorizationFailed", 300.0)


@pytest.mark.parametrize("action", ["Microsoft.Compute/skus/read", "Microsoft.Compute/locations/usages/read"])
def test_a_missing_permission_of_the_optional_role_names_that_role(action: str) -> None:
    """The message names the second role and its scope, the subscription."""
    body = read_body(json.dumps(errors.forbidden(action, "/subscriptions/s").body))
    message = classify_response(403, body, headers={}, pool="", verb="list").message
    assert message.startswith(f"AuthorizationFailed: missing permission {'/'.join(action.split('/')[-2:])}. Optional: ")
    assert "charts/gpu-provisioner/azure-quota-role.json at the subscription" in message


def test_a_long_text_is_truncated() -> None:
    """The code and the remedy are complete."""
    stated = format_message("SomeCode", "ü" * 1000, "Do this")
    assert stated.startswith("SomeCode: üü")
    assert stated.endswith("ü... Do this")
    assert len(stated.encode()) <= 256


def test_locations_are_parsed_from_messages() -> None:
    """The remedy contains the location."""
    assert parse_location("Location: westeurope, Current Limit: 1") == "westeurope"
    assert parse_location("in location 'eastus2'") == "eastus2"
    assert parse_location("for region swedencentral.") == "swedencentral"
    assert parse_location("not available in this location. Please try") == ""
    assert parse_location("the current region") == ""


# Arbitrary input

STATUSES = st.sampled_from([200, 302, 400, 401, 403, 404, 404, 404, 408, 409, 412, 418, 429, 500, 502, 503])


# Drawing nested bodies is slow on a loaded machine; the time of a draw proves nothing about the classification.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(status=STATUSES, body=BODIES, raw=TEXT, as_text=st.booleans(), verb=st.sampled_from(VERBS))
@example(status=404, body=errors.pool_not_found(POOL).body, raw="", as_text=False, verb="get")
def test_any_body_is_classified(status: int, body: Any, raw: str, as_text: bool, verb: Verb) -> None:
    """No body raises; NotFound needs the flat 404 of AKS or a message with the path of the pool."""
    error = updates(status, raw if as_text else body, verb=verb)
    assert error.kind in ("not_found", "retryable", "no_capacity", "rejected")
    assert len(error.message.encode()) <= 256
    assert error.reason.isalnum()
    assert error.reason[0].isupper()
    assert "https://" not in error.message
    assert "secret" not in error.message
    assert not (isinstance(error, Rejected) and error.final)
    if isinstance(error, NotFound):
        assert status == 404
        assert verb in ("get", "delete")
        stated = json.dumps(body)
        is_flat = (
            "error" not in body and body["code"].lower() == "notfound" and "agent pool not found" in stated.lower()
        )
        assert is_flat or f"/agentpools/{POOL}" in stated.lower()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(code=TEXT | st.sampled_from(CODES), message=MESSAGES, details=JSON | st.lists(ERRORS, max_size=3))
def test_any_provisioning_error_is_classified(code: str, message: str, details: Any) -> None:
    """A Failed pool has a known kind, a valid reason and a message of at most 256 bytes."""
    failure = classify_failure(code, message, details)
    assert failure.kind in ("retryable", "no_capacity", "rejected")
    assert len(failure.message.encode()) <= 256
    assert failure.reason.isalnum()


@given(text=st.binary(max_size=200) | TEXT)
def test_any_bytes_can_be_read(text: bytes | str) -> None:
    """Truncated JSON, HTML and noise are an error without a code."""
    list(error_details(read_body(text)))


def test_an_error_as_json_within_a_message() -> None:
    """Text may stand before it, and after it; braces of other text are passed over."""
    inner = json.dumps({"error": {"code": "AllocationFailed", "message": "no capacity"}})
    found = error_details(read_error({"code": "Outer", "message": f"set {{a}} failed: {inner} (twice)"}))
    assert ErrorDetail("AllocationFailed", "no capacity") in found


def test_deep_bodies_are_bounded() -> None:
    """Deep nesting and repeated quoting are cut off."""
    deep: Any = {"code": "AllocationFailed", "message": "x"}
    for _ in range(500):
        deep = {"code": "Outer", "message": 'Code="A" ' * 100, "details": [deep] * 50}
        if len(json.dumps(deep)) > 100_000:
            break
    assert len(list(error_details(read_error(deep)))) < 10_000
    assert read_body("[" * 100_000).code == ""


@pytest.mark.parametrize(
    "row", TABLE, ids=lambda row: " ".join((*row.codes, *row.phrases, *map(str, row.statuses[:1])))
)
def test_every_row_can_be_reached(row: Any) -> None:
    """Each row matches an error that no earlier row matches."""
    code = (row.codes[0] if row.codes else "x").replace("*", "")
    message = row.phrases[0] if row.phrases else "y"
    status: int = (row.statuses or (418,))[0]
    verb: Any = (row.verbs or ("delete",))[0]
    error = classify_response(status, read_error({"code": code, "message": message}), headers={}, pool=POOL, verb=verb)
    assert error.kind == row.kind
    assert row.reason in ("", error.reason)
    assert set(error.message) <= set(string.printable)
