"""Classification of the errors of ARM, AKS and Compute: one row per meaning.

The first matching row applies: rows of specific codes and phrases (Compute) come before general ones (wrappers, HTTP
status alone). `codes` are globs separated by spaces. `phrases` are parts of the message that belongs to the code,
separated by `|`; one must match. Matching ignores case. A row without either matches by its status.

Source: docs/references/agent-pools.md, "Quota and capacity errors" to "Service errors"; each group names its section.
"""

from typing import Literal

import msgspec

from cloudprovider.errors import QUOTA_EXCEEDED, SUBSCRIPTION_THROTTLED, Scope
from provisioner.api import reasons

Kind = Literal["no_capacity", "rejected", "retryable"]
Verb = Literal["create", "get", "list", "delete", "cluster"]

SLOW_SECONDS = 300.0
MINUTE_SECONDS = 60.0

RAISE_QUOTA = "Raise it or change size: az vm list-usage -l {location} -o table"
OTHER_OFFERING = "Retried automatically; another size, zone or region may have capacity"
OTHER_SIZE = "Use another size: az vm list-skus --location {location} -o table"
OTHER_ZONE = "Allow another zone in the claim"
NETWORK = "Check the cluster's outbound network, DNS and firewall"
CANCELED = "Retried automatically; delete the claim if it is not needed"
BRING_UP = "Retried automatically; if it recurs, check image, driver and the cluster's outbound network"
RETRIED = "Retried automatically"
FIX_CLAIM = "Correct the NodePool or node class, or create a corrected claim"
FIX_SETTINGS = "Check ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP and AZURE_CLUSTER_NAME"
FIX_API_VERSION = (
    "Set ARM_API_VERSION (azure.apiVersion in the chart) to a version that the cloud offers;"
    " gpu-provisioner check lists them"
)
FIX_SUBSCRIPTION = "The owner of the subscription must resolve this"
REMOVE_LOCK = "Remove the lock of the cluster, its resource group or the subscription: az lock list"
FIX_SUBNET = "Free addresses in the subnet or use a larger one"
FEWER_IPS = "Raise the public IP quota or disable node public IPs"
ASSIGN_ROLE = (
    "Apply charts/gpu-provisioner/azure-role.json: az role assignment create; it can take an hour to take effect"
)
ASSIGN_QUOTA_ROLE = (
    "Optional: assign charts/gpu-provisioner/azure-quota-role.json at the subscription;"
    " it can take an hour to take effect"
)
FIX_IDENTITY = "Check the workload identity: client id, federated credential, service account"
LOG_IN = "Install the Azure CLI and run az login"
MEET_POLICY = "Exempt the cluster from the policy or comply with it"
FEWER_POOLS = "Delete unused agent pools; the cluster is at its limit"
START_CLUSTER = "Start the managed cluster: az aks start"

ANY_5XX = tuple(range(500, 600))
ACCEPTED = (200, 201, 202, 203, 204)
# A failure after the request was accepted: read from the pool (no status) or from its operation (status 200), see
# docs/references/agent-pools.md#long-running-operations.
OPERATION = (0, 200)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` "" means the code of ARM; `after` is in seconds; empty `statuses` and `verbs` match any."""

    kind: Kind
    remedy: str
    codes: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    verbs: tuple[Verb, ...] = ()
    reason: str = ""
    scope: Scope = "size"
    after: float | None = None
    conflict: bool = False


def _row(
    kind: Kind,
    codes: str,
    phrases: str,
    remedy: str,
    *,
    statuses: tuple[int, ...] = (),
    verbs: tuple[Verb, ...] = (),
    reason: str = "",
    scope: Scope = "size",
    after: float | None = None,
    conflict: bool = False,
) -> Row:
    return Row(
        kind=kind,
        codes=tuple(codes.split()),
        phrases=tuple(phrases.split("|")) if phrases else (),
        remedy=remedy,
        statuses=statuses,
        verbs=verbs,
        reason=reason,
        scope=scope,
        after=after,
        conflict=conflict,
    )


def _quota(codes: str, phrases: str, scope: Scope = "size") -> Row:
    return _row("no_capacity", codes, phrases, RAISE_QUOTA, reason=QUOTA_EXCEEDED, scope=scope)


def _no_capacity(codes: str, phrases: str = "", remedy: str = OTHER_OFFERING, **more: object) -> Row:
    return _row("no_capacity", codes, phrases, remedy, **more)  # type: ignore[arg-type]


def _rejected(codes: str, phrases: str = "", remedy: str = FIX_CLAIM, **more: object) -> Row:
    return _row("rejected", codes, phrases, remedy, **more)  # type: ignore[arg-type]


def _retryable(codes: str, phrases: str = "", remedy: str = RETRIED, **more: object) -> Row:
    return _row("retryable", codes, phrases, remedy, **more)  # type: ignore[arg-type]


QUOTA_CODES = "OperationNotAllowed QuotaExceeded InvalidTemplateDeployment BadRequest"
SIZE_CODES = "BadRequest InvalidParameter OperationNotAllowed NotAvailableForSubscription"
ARM_THROTTLED_CODES = "SubscriptionRequestsThrottled TooManyRequests"
THROTTLED_CODES = "Throttled SubscriptionRequestsThrottled TooManyRequests TooManyRequestsReceived"
NETWORK_CODES = "*OutboundConnFail* *K8SAPIServerConnFail* *K8SAPIServerDNSLookupFail* *CNIDownloadTimeout*"
EXTENSION_CODES = "VMExtension* vmssCSE*"
SHORTAGE_CODES = "SkuNotAvailable InvalidTemplateDeployment BadRequest"

THROTTLING = (
    # A limit of ARM for the whole subscription; the code of AKS is `Throttled`.
    _retryable(ARM_THROTTLED_CODES, statuses=(429,), reason=SUBSCRIPTION_THROTTLED),
    _retryable("", statuses=(429,), reason="Throttled"),
    _retryable(THROTTLED_CODES, reason="Throttled"),
)

# Spot and the regional total precede the family, because their messages contain its phrases
# (docs/references/agent-pools.md#quota-and-capacity-errors).
QUOTA = (
    _quota(QUOTA_CODES, "LowPriorityCores|low priority cores|LowPriority cores", scope="priority"),
    _quota(QUOTA_CODES, "Total Regional Cores|Total Regional vCPU", scope="region"),
    _quota(QUOTA_CODES, "Family Cores quota|Family vCPUs|Submit a request for Quota increase|exceeding approved"),
    _quota("ErrCode_InsufficientVCPUQuota InsufficientVCPUQuota", ""),
    _quota("", "Insufficient vcpu quota|cores quota"),
)

# Capacity (docs/references/agent-pools.md#quota-and-capacity-errors)
CAPACITY = (
    _no_capacity("ZonalAllocationFailed OverconstrainedZonalAllocationRequest", scope="zone"),
    _no_capacity("OverconstrainedAllocationRequest", "ephemeral|proximity", scope="configuration"),
    _no_capacity(SHORTAGE_CODES, "' zones '", scope="zone", reason="SkuNotAvailable"),
    _no_capacity(SHORTAGE_CODES, "not available in location|not available in this location", reason="SkuNotAvailable"),
    _no_capacity("AllocationFailed OverconstrainedAllocationRequest SkuNotAvailable"),
    _no_capacity("VMSizeNotSupported", remedy=OTHER_SIZE),
    _no_capacity(
        SIZE_CODES,
        "is not supported for subscription|not allowed in your subscription|not available in the current region",
        OTHER_SIZE,
        reason="VMSizeNotSupported",
    ),
    _no_capacity("AvailabilityZoneNotSupported", remedy=OTHER_ZONE, scope="zone"),
    _no_capacity("KubenetNodeCountTotalExceedsLimit", remedy=FEWER_POOLS, scope="cluster", after=SLOW_SECONDS),
    _no_capacity(
        "",
        "number of agent pools|agent pool count|agentpool count",
        FEWER_POOLS,
        reason=reasons.POOL_LIMIT_REACHED,
        scope="cluster",
        after=SLOW_SECONDS,
    ),
    _retryable("AksCapacityHeavyUsage", after=SLOW_SECONDS),
    _no_capacity("SubnetIsFull InsufficientSubnetSize", remedy=FIX_SUBNET, scope="subnet", after=SLOW_SECONDS),
    _no_capacity("PublicIPCountLimitReached", remedy=FEWER_IPS, scope="cluster", after=SLOW_SECONDS),
)

# A machine was created and billed, so that the retry is delayed
# (docs/references/agent-pools.md#node-bring-up-errors).
BRING_UP_FAILURES = (
    _rejected(NETWORK_CODES, remedy=NETWORK),
    _rejected("", "OutboundConnFail|K8SAPIServerConnFail|K8SAPIServerDNSLookupFail|CNIDownloadTimeout", NETWORK),
    _rejected(EXTENSION_CODES, remedy=BRING_UP),
    _rejected("NodesNotReady", remedy=BRING_UP),
)

# An aborted operation may have no error (docs/references/agent-pools.md#calls-and-accepted-statuses).
CANCELLATIONS = (_rejected("OperationCanceled", remedy=CANCELED),)

# The same codes mean a quota (above), a conflict or an immutable property, depending on the message
# (docs/references/agent-pools.md#conflicts).
CONFLICTS = (
    _retryable("AKSOperationPreempted* OperationPreempted", conflict=True),
    _retryable(
        "", "preempted by another operation|canceled by a later operation", reason="OperationPreempted", conflict=True
    ),
    _retryable(
        "",
        "in progress create node pool operation|Another agentpool operation|Another operation",
        reason="OperationInProgress",
        conflict=True,
    ),
    _retryable(
        "",
        "power state is Stopped|cluster is stopped",
        START_CLUSTER,
        statuses=(400, 409),
        reason=reasons.CLUSTER_NOT_RUNNING,
        after=MINUTE_SECONDS,
    ),
    _retryable(
        "MissingSubscriptionRegistration ReadOnlyDisabledSubscription",
        remedy=FIX_SUBSCRIPTION,
        after=SLOW_SECONDS,
    ),
    _retryable("ScopeLocked", remedy=REMOVE_LOCK, after=SLOW_SECONDS),
    _retryable("", statuses=(412,), verbs=("create",), reason="PoolExists", conflict=True),
    _retryable("", statuses=(412,), reason=reasons.POOL_CHANGED, conflict=True),
    _retryable("", statuses=(409,), conflict=True),
)

# The missing resource is not the pool (docs/references/agent-pools.md#not-found).
OTHER_NOT_FOUND = (
    _retryable(
        "NoRegisteredProviderFound InvalidResourceType InvalidApiVersionParameter",
        remedy=FIX_API_VERSION,
        after=MINUTE_SECONDS,
    ),
    _retryable(
        "SubscriptionNotFound InvalidSubscriptionId",
        remedy=FIX_SETTINGS,
        reason="SubscriptionNotFound",
        after=MINUTE_SECONDS,
    ),
    _retryable("ResourceGroupNotFound", remedy=FIX_SETTINGS, after=MINUTE_SECONDS),
    _retryable(
        "ParentResourceNotFound ResourceNotFound",
        remedy=FIX_SETTINGS,
        statuses=(404,),
        reason="ClusterNotFound",
        after=MINUTE_SECONDS,
    ),
    _retryable("", remedy=FIX_SETTINGS, statuses=(404,), reason="NotFoundWithoutProof"),
)

# Access (docs/references/agent-pools.md#authentication-and-authorization-errors). The first two are 403s that no role
# assignment resolves.
ACCESS = (
    _rejected("RequestDisallowedByPolicy", remedy=MEET_POLICY),
    _rejected(
        "LinkedAuthorizationFailed",
        remedy="Grant the provisioner's identity access to the named subnet, disk or group",
        scope="request",
    ),
    _retryable("", remedy=FIX_IDENTITY, statuses=(401,), reason="Unauthenticated"),
    # The actions of the second role, which is optional and assigned at the subscription.
    _retryable(
        "",
        "Microsoft.Compute/locations/usages/read|Microsoft.Compute/skus/read",
        ASSIGN_QUOTA_ROLE,
        statuses=(403,),
        reason="AuthorizationFailed",
        after=SLOW_SECONDS,
    ),
    _retryable("", remedy=ASSIGN_ROLE, statuses=(403,), reason="AuthorizationFailed", after=SLOW_SECONDS),
)

# Validation (docs/references/agent-pools.md#validation-errors)
VALIDATION = (
    _rejected(
        "",
        "must begin with an allowed prefix|invalid node label|is preserved by aks",
        reason="InvalidLabel",
        scope="request",
    ),
    _rejected("PropertyChangeNotAllowed AgentPoolAPIsNotSupported InvalidResourceReference", scope="request"),
    _rejected(
        "NodePoolMcVersionIncompatible AgentPoolK8sVersionNotSupported",
        remedy="Upgrade the cluster's control plane",
        scope="request",
    ),
    _rejected("BadRequest InvalidParameter ValidationError", statuses=(400, *OPERATION)),
)

# The write may have been applied (docs/references/agent-pools.md#service-errors).
SERVICE = (
    _retryable("InternalServerError InternalOperationError ServerTimeout GatewayTimeout"),
    _retryable("", "due to an internal error", reason="InternalServerError"),
    _retryable("", statuses=ANY_5XX, reason="ServiceUnavailable"),
    _retryable("", statuses=(408,), reason="Timeout"),
    _rejected("", statuses=(400,)),
    # Accepted, with a status that the SDK does not expect (PUT 202, DELETE 200): the pool is read.
    _retryable("", statuses=ACCEPTED, reason="UnexpectedResponse", conflict=True),
)

TABLE = (
    *THROTTLING,
    *QUOTA,
    *CAPACITY,
    *BRING_UP_FAILURES,
    *CANCELLATIONS,
    *CONFLICTS,
    *OTHER_NOT_FOUND,
    *ACCESS,
    *VALIDATION,
    *SERVICE,
)
# The codes and reasons of the table, without patterns.
REASONS = frozenset(
    {*(code for row in TABLE for code in row.codes if "*" not in code), *(row.reason for row in TABLE if row.reason)}
)
UNKNOWN = _retryable("")
