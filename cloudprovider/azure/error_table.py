"""Every answer of ARM and AKS that means something to us: one row each.

Data only. The first row that fits wins, so rows go from the telling (Compute's own codes and phrases) to the
general (wrappers, bare statuses). Codes are globs, separated by spaces; `says` are fragments of the message that came
with the code, separated by `|`, one of which must be there. Case does not count. A row with neither fits by its status.

Source: docs/references/agent-pools.md, "Quota and capacity errors" to "Service errors"; each group names its section.
"""

from typing import Literal

import msgspec

from cloudprovider.errors import THROTTLED_IN_FRONT, Scope
from provisioner.api import reasons

Kind = Literal["no_capacity", "rejected", "retryable"]
Verb = Literal["create", "get", "list", "delete", "cluster"]

HOUR_SECONDS = 3600.0
SLOW_SECONDS = 300.0
MINUTE_SECONDS = 60.0

RAISE_QUOTA = "Raise it or change size: az vm list-usage -l {location} -o table"
OTHER_OFFERING = "Tried again by itself; another size, zone or region may be free"
OTHER_SIZE = "Choose another size: az vm list-skus --location {location} -o table"
OTHER_ZONE = "Let the claim name another zone"
NETWORK = "Check the cluster's outbound network, DNS and firewall"
CANCELED = "Tried again later; delete the claim if its machine is not wanted"
BRING_UP = "Tried again later; if it repeats, check image, driver and the cluster's outbound network"
AGAIN = "Tried again by itself"
FIX_CLAIM = "Correct the claim: delete it and make a new one"
FIX_SETTINGS = "Check ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP and AZURE_CLUSTER_NAME"
FIX_SUBSCRIPTION = "Ask the subscription's owner to lift this"
FIX_SUBNET = "Free addresses in the subnet or use a larger one"
FEWER_IPS = "Raise the public IP quota or turn node public IPs off"
GIVE_ROLE = "Apply charts/gpu-provisioner/azure-role.json: az role assignment create; it can take an hour to spread"
FIX_IDENTITY = "Check the workload identity: client id, federated credential, service account"
ASK_POLICY = "Exempt the cluster from the policy or meet it"
FEWER_POOLS = "Delete unused agent pools; the cluster takes no more"
START_CLUSTER = "Start the managed cluster: az aks start"

ANY_5XX = tuple(range(500, 600))
ACCEPTED = (200, 201, 202, 203, 204)
# What failed after it was accepted: told by the pool itself (no status), or with status 200
# (docs/references/agent-pools.md#long-running-operations).
OPERATION = (0, 200)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` "" takes over ARM's code; `after` is in seconds; empty `statuses` and `verbs` fit any."""

    kind: Kind
    remedy: str
    codes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    verbs: tuple[Verb, ...] = ()
    reason: str = ""
    scope: Scope = "size"
    after: float | None = None
    conflict: bool = False


def _row(
    kind: Kind,
    codes: str,
    says: str,
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
        says=tuple(says.split("|")) if says else (),
        remedy=remedy,
        statuses=statuses,
        verbs=verbs,
        reason=reason,
        scope=scope,
        after=after,
        conflict=conflict,
    )


def _quota(codes: str, says: str, scope: Scope = "size") -> Row:
    return _row("no_capacity", codes, says, RAISE_QUOTA, reason="QuotaExceeded", scope=scope)


def _short(codes: str, says: str = "", remedy: str = OTHER_OFFERING, **more: object) -> Row:
    return _row("no_capacity", codes, says, remedy, **more)  # type: ignore[arg-type]


def _no(codes: str, says: str = "", remedy: str = FIX_CLAIM, **more: object) -> Row:
    return _row("rejected", codes, says, remedy, **more)  # type: ignore[arg-type]


def _again(codes: str, says: str = "", remedy: str = AGAIN, **more: object) -> Row:
    return _row("retryable", codes, says, remedy, **more)  # type: ignore[arg-type]


QUOTA_CODES = "OperationNotAllowed QuotaExceeded InvalidTemplateDeployment BadRequest"
SIZE_CODES = "BadRequest InvalidParameter OperationNotAllowed NotAvailableForSubscription"
IN_FRONT_CODES = "SubscriptionRequestsThrottled TooManyRequests"
THROTTLED_CODES = "Throttled SubscriptionRequestsThrottled TooManyRequests TooManyRequestsReceived"
NETWORK_CODES = "*OutboundConnFail* *K8SAPIServerConnFail* *K8SAPIServerDNSLookupFail* *CNIDownloadTimeout*"
EXTENSION_CODES = "VMExtensionProvisioningError VMExtensionProvisioningTimeout VMExtensionError* vmssCSE*"

THROTTLING = (
    # ARM in front of AKS, on behalf of the whole subscription; AKS itself says `Throttled`.
    _again(IN_FRONT_CODES, statuses=(429,), reason=THROTTLED_IN_FRONT),
    _again("", statuses=(429,), reason="Throttled"),
    _again(THROTTLED_CODES, reason="Throttled"),
)

# Spot and the region's total come before the family, whose phrases they share
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
    _short("ZonalAllocationFailed OverconstrainedZonalAllocationRequest", scope="zone"),
    _short("OverconstrainedAllocationRequest", "ephemeral|proximity", scope="configuration"),
    _short("AllocationFailed OverconstrainedAllocationRequest SkuNotAvailable"),
    _short("VMSizeNotSupported", remedy=OTHER_SIZE, after=HOUR_SECONDS),
    _short(
        SIZE_CODES,
        "is not supported for subscription|not allowed in your subscription|not available in the current region",
        OTHER_SIZE,
        reason="VMSizeNotSupported",
        after=HOUR_SECONDS,
    ),
    _short("AvailabilityZoneNotSupported", remedy=OTHER_ZONE, scope="zone", after=HOUR_SECONDS),
    _short("KubenetNodeCountTotalExceedsLimit", remedy=FEWER_POOLS, scope="cluster", after=SLOW_SECONDS),
    _short(
        "",
        "number of agent pools|agent pool count|agentpool count",
        FEWER_POOLS,
        reason=reasons.POOL_LIMIT_REACHED,
        scope="cluster",
        after=SLOW_SECONDS,
    ),
    _again("AksCapacityHeavyUsage", after=SLOW_SECONDS),
    _short("SubnetIsFull InsufficientSubnetSize", remedy=FIX_SUBNET, scope="cluster", after=SLOW_SECONDS),
    _short("PublicIPCountLimitReached", remedy=FEWER_IPS, scope="cluster", after=SLOW_SECONDS),
)

# A machine was made and paid for, so the next one does not follow at once
# (docs/references/agent-pools.md#node-bring-up-errors).
BRING_UP_FAILURES = (
    _no(NETWORK_CODES, remedy=NETWORK),
    _no("", "OutboundConnFail|K8SAPIServerConnFail|K8SAPIServerDNSLookupFail|CNIDownloadTimeout", NETWORK),
    _no(EXTENSION_CODES, remedy=BRING_UP),
    _no("NodesNotReady", remedy=BRING_UP),
)

# Somebody aborted it; no error need stand anywhere (docs/references/agent-pools.md#calls-and-accepted-statuses).
CANCELLATIONS = (_no("OperationCanceled", remedy=CANCELED, after=MINUTE_SECONDS),)

# The same code means quota (above), conflict or immutability; the message tells
# (docs/references/agent-pools.md#conflicts).
CONFLICTS = (
    _again("AKSOperationPreempted* OperationPreempted", conflict=True),
    _again(
        "", "preempted by another operation|canceled by a later operation", reason="OperationPreempted", conflict=True
    ),
    _again(
        "",
        "in progress create node pool operation|Another agentpool operation|Another operation",
        reason="OperationInProgress",
        conflict=True,
    ),
    _again(
        "",
        "power state is Stopped|cluster is stopped",
        START_CLUSTER,
        statuses=(400, 409),
        reason=reasons.CLUSTER_NOT_RUNNING,
        after=MINUTE_SECONDS,
    ),
    _again(
        "MissingSubscriptionRegistration ReadOnlyDisabledSubscription ScopeLocked",
        remedy=FIX_SUBSCRIPTION,
        after=SLOW_SECONDS,
    ),
    _again("", statuses=(412,), verbs=("create",), reason="PoolExists", conflict=True),
    _again("", statuses=(412,), reason=reasons.POOL_CHANGED, conflict=True),
    _again("", statuses=(409,), conflict=True),
)

# What is absent here is not the pool (docs/references/agent-pools.md#not-found).
ELSEWHERE = (
    _again(
        "SubscriptionNotFound InvalidSubscriptionId",
        remedy=FIX_SETTINGS,
        reason="SubscriptionNotFound",
        after=MINUTE_SECONDS,
    ),
    _again("ResourceGroupNotFound", remedy=FIX_SETTINGS, after=MINUTE_SECONDS),
    _again(
        "ParentResourceNotFound ResourceNotFound",
        remedy=FIX_SETTINGS,
        statuses=(404,),
        reason="ClusterNotFound",
        after=MINUTE_SECONDS,
    ),
    _again("", remedy=FIX_SETTINGS, statuses=(404,), reason="NotFoundWithoutProof"),
)

# Access (docs/references/agent-pools.md#authentication-and-authorization-errors), and the two 403s that no role will
# cure
ACCESS = (
    _no("RequestDisallowedByPolicy", remedy=ASK_POLICY),
    _no(
        "LinkedAuthorizationFailed",
        remedy="Give the provisioner's identity access to the subnet, disk or group it names",
    ),
    _again("", remedy=FIX_IDENTITY, statuses=(401,), reason="Unauthenticated"),
    _again("", remedy=GIVE_ROLE, statuses=(403,), reason="AuthorizationFailed", after=SLOW_SECONDS),
)

# Validation (docs/references/agent-pools.md#validation-errors)
VALIDATION = (
    _no("", "must begin with an allowed prefix|invalid node label|is preserved by aks", reason="InvalidLabel"),
    _no("PropertyChangeNotAllowed AgentPoolAPIsNotSupported InvalidResourceReference"),
    _no("NodePoolMcVersionIncompatible AgentPoolK8sVersionNotSupported", remedy="Upgrade the cluster's control plane"),
    _no("BadRequest InvalidParameter ValidationError", statuses=(400, *OPERATION)),
)

# The write may have been applied all the same (docs/references/agent-pools.md#service-errors).
SERVICE = (
    _again("InternalServerError InternalOperationError ServerTimeout GatewayTimeout"),
    _again("", "due to an internal error", reason="InternalServerError"),
    _again("", statuses=ANY_5XX, reason="ServiceUnavailable"),
    _again("", statuses=(408,), reason="Timeout"),
    _no("", statuses=(400,)),
    # Accepted, but not as the SDK expects it (PUT 202, DELETE 200): look what became of it.
    _again("", statuses=ACCEPTED, reason="UnexpectedAnswer", conflict=True),
)

TABLE = (
    *THROTTLING,
    *QUOTA,
    *CAPACITY,
    *BRING_UP_FAILURES,
    *CANCELLATIONS,
    *CONFLICTS,
    *ELSEWHERE,
    *ACCESS,
    *VALIDATION,
    *SERVICE,
)
UNKNOWN = _again("")
