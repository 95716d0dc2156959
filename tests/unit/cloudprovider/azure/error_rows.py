"""Cases of the error table: each documented error of ARM, AKS and Compute, and its classification.

A section is a heading of the page below. `NAMED` lists the codes of that page independently of the cases, so that a
missing case is detected.

Source: docs/references/agent-pools.md, "Quota and capacity errors" to "Service errors"; the messages are shortened.
"""

from typing import Any, NamedTuple

from cloudprovider.azure.error_table import Verb
from cloudprovider.errors import Scope

CALLS, SHORTAGE, BOOT = "calls-and-accepted-statuses", "quota-and-capacity-errors", "node-bring-up-errors"
ABSENT, CONFLICT, INVALID = "not-found", "conflicts", "validation-errors"
ACCESS, RATE, SERVER = "authentication-and-authorization-errors", "throttling", "service-errors"
SLOW, MINUTE = 300.0, 60.0
POOL = "gpu1"


class Case(NamedTuple):
    """An error and its classification. `statuses` are those of the response; 200 means a failed operation.

    `scope` is None if the error is not about an offering. `ends` is the remedy, or its end.
    """

    section: str
    code: str
    says: str
    statuses: tuple[int, ...]
    kind: str
    reason: str
    ends: str
    scope: Scope | None = None
    after: float | None = None
    conflict: bool = False
    verb: Verb = "create"
    holds: str = ""

    @property
    def id(self) -> str:
        return "-".join(filter(None, (self.code or "none", *map(str, self.statuses[:1]), self.says[:24])))


BOTH, SYNC, LATER = (400, 200), (400,), (200,)
LIST_USAGE = "az vm list-usage -l westeurope -o table"
LIST_SKUS = "az vm list-skus --location <location> -o table"
OTHER_OFFERING = "another size, zone or region may have capacity"
SETTINGS = "AZURE_CLUSTER_NAME"
CLAIM = "Correct the NodePool or node class, or create a corrected claim"
RETRIED = "Retried automatically"
OWNER = "The owner of the subscription must resolve this"
NETWORK = "Check the cluster's outbound network, DNS and firewall"
BRING_UP = "check image, driver and the cluster's outbound network"


def quota_words(what: str, limit: int = 24) -> str:
    return (
        f"Operation could not be completed as it results in exceeding approved {what} quota. Additional details - "
        f"Deployment Model: Resource Manager, Location: westeurope, Current Limit: {limit}, Current Usage: {limit}, "
        f"Additional Required: 24, (Minimum) New Limit Required: {limit + 24}. Submit a request for Quota increase at "
        "https://aka.ms/ProdportalCRP/#blade/x?s=secret for deployment to succeed."
    )


def quota(code: str, what: str, scope: Scope, limit: int = 24) -> Case:
    named = what.removesuffix("Cores").strip()
    holds = f"{named} cores quota in westeurope: limit {limit}, used {limit}, needed 24"
    says = quota_words(what, limit)
    return Case(SHORTAGE, code, says, BOTH, "no_capacity", "QuotaExceeded", LIST_USAGE, scope, holds=holds)


CONSTRAINTS: tuple[tuple[str, Scope], ...] = (
    ("Ephemeral Disk", "configuration"),
    ("Proximity Group", "configuration"),
    ("Size", "size"),
)


ELSEWHERE: tuple[tuple[str, Scope], ...] = (
    ("not available in location 'eastus' zones '1,2'", "zone"),
    ("not available in location 'eastus'", "size"),
    ("not available in this location", "size"),
)


def short(code: str, says: str, scope: Scope, ends: str = OTHER_OFFERING, **more: Any) -> Case:
    fields: dict[str, Any] = {"section": SHORTAGE, "statuses": BOTH, "reason": code, **more}
    return Case(code=code, says=says, kind="no_capacity", scope=scope, ends=ends, **fields)


def refused(section: str, code: str, says: str, ends: str = CLAIM, **more: Any) -> Case:
    fields: dict[str, Any] = {"statuses": SYNC, "reason": code, **more}
    return Case(section, code, says, kind="rejected", ends=ends, **fields)


def passing(section: str, code: str, says: str, statuses: tuple[int, ...], **more: Any) -> Case:
    fields: dict[str, Any] = {"reason": code, "ends": RETRIED, **more}
    return Case(section, code, says, statuses, kind="retryable", **fields)


PREFLIGHT = (
    "Insufficient vcpu quota requested 24, remaining 0 for family standardNCADSA100v4Family for region westeurope."
)
LEFT = "standardNCADSA100v4Family cores quota in westeurope: left 0, needed 24"
FAMILY = "standardNCADSA100v4Family Cores"
UNREACHED = "vmssCSE exit status=50"

CAPACITY = (
    quota("OperationNotAllowed", FAMILY, "size"),
    quota("QuotaExceeded", FAMILY, "size"),
    quota("OperationNotAllowed", "standardNDSH100v5Family Cores", "size", limit=0),
    quota("OperationNotAllowed", "Total Regional Cores", "region"),
    quota("QuotaExceeded", "Total Regional Cores", "region"),
    quota("OperationNotAllowed", "LowPriorityCores", "priority"),
    quota("QuotaExceeded", "LowPriorityCores", "priority"),
    short(
        "OperationNotAllowed",
        "You are over it. Submit a request for Quota increase.",
        "size",
        "az vm list-usage -l <location> -o table",
        reason="QuotaExceeded",
    ),
    short(
        "ErrCode_InsufficientVCPUQuota",
        PREFLIGHT,
        "size",
        LIST_USAGE,
        reason="QuotaExceeded",
        statuses=SYNC,
        holds=LEFT,
    ),
    short("Unheard", PREFLIGHT, "size", LIST_USAGE, reason="QuotaExceeded", holds=LEFT),
    short("SkuNotAvailable", "Following SKUs have failed for Capacity Restrictions", "size"),
    *(
        short(code, f"The requested size is currently {where}.", scope, reason="SkuNotAvailable")
        for code in ("SkuNotAvailable", "InvalidTemplateDeployment", "BadRequest")
        for where, scope in ELSEWHERE
    ),
    short("VMSizeNotSupported", "The VM size is not there.", "size", LIST_SKUS),
    *(
        short(code, says, "size", LIST_SKUS, reason="VMSizeNotSupported", statuses=SYNC)
        for code, says in (
            ("BadRequest", "Standard_X is not supported for subscription"),
            ("BadRequest", "The VM size of Standard_X is not allowed in your subscription"),
            ("InvalidParameter", "The size is not available in the current region"),
        )
    ),
    short("ZonalAllocationFailed", "not enough in this zone", "zone"),
    short("AllocationFailed", "not enough in this region", "size"),
    short("OverconstrainedZonalAllocationRequest", "Constraints applied are: Availability Zone", "zone"),
    *(
        short("OverconstrainedAllocationRequest", f"Constraints applied are: {what}", scope)
        for what, scope in CONSTRAINTS
    ),
    passing(SHORTAGE, "AksCapacityHeavyUsage", "The region is heavily used.", (400, 409, 200), after=SLOW),
    short("SubnetIsFull", "Subnet gpu is full.", "subnet", "use a larger one", after=SLOW),
    short("InsufficientSubnetSize", "Subnet gpu is small.", "subnet", "use a larger one", after=SLOW),
    short("PublicIPCountLimitReached", "10 of 10", "cluster", "disable node public IPs", after=SLOW),
)

BRING_UPS = (
    *(
        refused(BOOT, code, UNREACHED, ends, statuses=LATER)
        for code, ends in (
            ("VMExtensionProvisioningError", BRING_UP),
            ("VMExtensionProvisioningTimeout", BRING_UP),
            ("NodesNotReady", BRING_UP),
            ("OutboundConnFail", NETWORK),
            ("K8SAPIServerConnFail", NETWORK),
            ("K8SAPIServerDNSLookupFail", NETWORK),
            ("CNIDownloadTimeout", NETWORK),
        )
    ),
    refused(BOOT, "vmssCSE", UNREACHED, BRING_UP, statuses=LATER, reason="VmssCSE"),
    refused(BOOT, "VMExtensionError_Timeout", UNREACHED, BRING_UP, statuses=LATER, reason="Timeout"),
    refused(
        BOOT,
        "VMExtensionProvisioningError",
        "VM has reported OutboundConnFail",
        NETWORK,
        statuses=LATER,
    ),
    passing(BOOT, "InternalServerError", "Oops.", (500, 200)),
    passing(BOOT, "InternalOperationError", "Oops.", (500, 200)),
    passing(
        BOOT,
        "Unheard",
        "We are unable to serve this request due to an internal error, Correlation ID: 1",
        (200, 400),
        reason="InternalServerError",
    ),
)

ADDRESSES = (
    *(
        Case(
            ABSENT, "NotFound", stated, (404,), "not_found", "NotFound", f"agent pool {POOL} does not exist", verb=verb
        )
        for stated in ("Agent Pool not found.", f"Agent Pool not found. Agent pool '{POOL}' does not exist.")
        for verb in ("get", "delete")
    ),
    Case(
        ABSENT,
        "ResourceNotFound",
        f"The Resource 'managedClusters/aks/agentPools/{POOL}' under resource group 'rg' was not found.",
        (404,),
        "not_found",
        "NotFound",
        f"agent pool {POOL} does not exist",
        verb="get",
    ),
    *(
        passing(ABSENT, code, says, (404,), reason=reason, ends=SETTINGS, after=after, verb=verb)
        for code, says, reason, after in (
            ("NotFound", "Agent pool 'gpu2' does not exist. Agent Pool not found.", "NotFoundWithoutProof", None),
            ("ResourceNotFound", "The Resource 'managedClusters/aks' was not found.", "ClusterNotFound", MINUTE),
            ("ParentResourceNotFound", "the parent resource could not be found", "ClusterNotFound", MINUTE),
            ("ResourceGroupNotFound", "Resource group 'rg' could not be found.", "ResourceGroupNotFound", MINUTE),
            ("SubscriptionNotFound", "The subscription could not be found.", "SubscriptionNotFound", MINUTE),
            ("InvalidSubscriptionId", "The subscription is malformed.", "SubscriptionNotFound", MINUTE),
        )
        for verb in ("get", "delete", "list", "create")
    ),
    *(
        passing(ABSENT, code, says, statuses, ends="gpu-provisioner check lists them", after=MINUTE, verb=verb)
        for code, says, statuses in (
            (
                "NoRegisteredProviderFound",
                "No registered resource provider found for API version '2026-08-01'.",
                (400,),
            ),
            ("InvalidResourceType", "The resource type could not be found for api version '2026-08-01'.", (404, 400)),
            ("InvalidApiVersionParameter", "The api-version '2026-08-01' is invalid.", (400,)),
        )
        for verb in ("get", "list", "create")
    ),
)

IN_PROGRESS = {"reason": "OperationInProgress", "conflict": True}
PREEMPTED = {"reason": "OperationPreempted", "conflict": True}
CONFLICTS = (
    refused(
        CALLS,
        "OperationCanceled",
        "canceled",
        "delete the claim if it is not needed",
        statuses=LATER,
    ),
    passing(
        CONFLICT,
        "OperationNotAllowed",
        "Another agentpool operation (p1 - Creating) is in progress",
        (409,),
        **IN_PROGRESS,
    ),
    passing(CONFLICT, "OperationNotAllowed", "Another operation (Updating) is in progress", (409,), **IN_PROGRESS),
    passing(
        CONFLICT, "OperationNotAllowed", "there's an in progress create node pool operation", (409, 400), **IN_PROGRESS
    ),
    passing(CONFLICT, "OperationNotAllowed", "for a reason nobody wrote down", (409,), conflict=True),
    passing(CONFLICT, "AKSOperationPreempted", "preempted by another operation with ID 1", LATER, conflict=True),
    passing(CONFLICT, "AKSOperationPreemptedByDelete", "This operation was preempted.", LATER, conflict=True),
    passing(CONFLICT, "OperationPreempted", "preempted", LATER, conflict=True),
    passing(CONFLICT, "Unheard", "overriden and canceled by a later operation", LATER, **PREEMPTED),
    passing(CONFLICT, "Unheard", "preempted by another operation with ID 1", LATER, **PREEMPTED),
    passing(CONFLICT, "PreConditionFailed", "exists", (412,), reason="PoolExists", conflict=True),
    passing(CONFLICT, "PreConditionFailed", "eTag", (412,), reason="PoolChanged", conflict=True, verb="delete"),
    passing(
        CONFLICT,
        "OperationNotAllowed",
        "not allowed while the managed cluster's power state is Stopped",
        (409, 400),
        reason="ClusterNotRunning",
        ends="az aks start",
        after=MINUTE,
    ),
    refused(CONFLICT, "PropertyChangeNotAllowed", "Changing property 'vmSize' is not allowed."),
    passing(CONFLICT, "MissingSubscriptionRegistration", "not registered", (409,), ends=OWNER, after=SLOW),
    passing(CONFLICT, "ReadOnlyDisabledSubscription", "disabled", (409,), ends=OWNER, after=SLOW),
    passing(CONFLICT, "ScopeLocked", "locked", (409,), ends="az lock list", after=SLOW),
)

LABEL = {"reason": "InvalidLabel"}
VALIDATION = (
    refused(INVALID, "BadRequest", "The pool's name is bad."),
    refused(INVALID, "InvalidParameter", "The value of parameter count is out of range."),
    refused(INVALID, "ValidationError", "osDiskSizeGB is too small", statuses=BOTH),
    refused(INVALID, "BadRequest", "must begin with an allowed prefix (kubelet.kubernetes.io)", **LABEL),
    refused(INVALID, "InvalidParameter", "Invalid node label key 'a'.", **LABEL),
    refused(INVALID, "BadRequest", "The 'kubernetes.azure.com' prefix is preserved by aks system labels", **LABEL),
    refused(INVALID, "AgentPoolAPIsNotSupported", "The cluster is not VMSS."),
    short(
        "KubenetNodeCountTotalExceedsLimit",
        "400 nodes",
        "cluster",
        "the cluster is at its limit",
        section=INVALID,
        after=SLOW,
    ),
    refused(INVALID, "NodePoolMcVersionIncompatible", "old", "Upgrade the cluster's control plane"),
    refused(INVALID, "AgentPoolK8sVersionNotSupported", "old", "Upgrade the cluster's control plane"),
    short("AvailabilityZoneNotSupported", "zone 3", "zone", "Allow another zone in the claim", section=INVALID),
    refused(
        INVALID,
        "RequestDisallowedByPolicy",
        "denied",
        "Exempt the cluster from the policy or comply with it",
        statuses=(403,),
    ),
    refused(
        INVALID, "LinkedAuthorizationFailed", "no join", "access to the named subnet, disk or group", statuses=(403,)
    ),
    refused(INVALID, "InvalidResourceReference", "no subnet"),
    short(
        "Unheard",
        "The maximum number of agent pools (100) has been reached.",
        "cluster",
        "the cluster is at its limit",
        section=INVALID,
        statuses=SYNC,
        reason="PoolLimitReached",
        after=SLOW,
    ),
    refused(INVALID, "SomethingNew", "we do not like it"),
)

IDENTITY = "client id, federated credential, service account"
SERVICE = (
    passing(ACCESS, "InvalidAuthenticationToken", "no", (401,), reason="Unauthenticated", ends=IDENTITY),
    passing(ACCESS, "InvalidAuthenticationTokenTenant", "no", (401,), reason="Unauthenticated", ends=IDENTITY),
    passing(ACCESS, "ExpiredAuthenticationToken", "no", (401,), reason="Unauthenticated", ends=IDENTITY),
    passing(
        ACCESS,
        "AuthorizationFailed",
        "The client does not have authorization to perform action 'Microsoft.Compute/skus/read' over scope '/s'.",
        (403,),
        ends="it can take an hour to take effect",
        after=SLOW,
    ),
    passing(ACCESS, "AuthorizationFailed", "no role", (403,), ends="it can take an hour to take effect", after=SLOW),
    passing(RATE, "Throttled", "retry again in X seconds", (429,), reason="Throttled"),
    *(
        passing(RATE, code, "retry again in X seconds", (429,), reason="SubscriptionThrottled")
        for code in ("SubscriptionRequestsThrottled", "TooManyRequests")
    ),
    passing(RATE, "TooManyRequestsReceived", "Compute is busy", LATER, reason="Throttled"),
    passing(SERVER, "InternalServerError", "Oops.", (500,)),
    passing(SERVER, "ServerTimeout", "late", (503,)),
    passing(SERVER, "GatewayTimeout", "late", (504,)),
    *(passing(SERVER, "", "", (status,), reason="ServiceUnavailable") for status in (500, 502, 503, 504)),
    passing(SERVER, "", "", (408,), reason="Timeout"),
    passing(RATE, "", "", (429,), reason="Throttled"),
    passing(CALLS, "", "", (202,), reason="UnexpectedResponse", conflict=True),
    passing(CALLS, "", "", (201,), reason="UnexpectedResponse", conflict=True),
)

CASES = (*CAPACITY, *BRING_UPS, *ADDRESSES, *CONFLICTS, *VALIDATION, *SERVICE)

# The codes of the page, without wrappers.
NAMED = {
    SHORTAGE: """OperationNotAllowed QuotaExceeded ErrCode_InsufficientVCPUQuota SkuNotAvailable VMSizeNotSupported
    BadRequest InvalidParameter ZonalAllocationFailed AllocationFailed OverconstrainedZonalAllocationRequest
    OverconstrainedAllocationRequest AksCapacityHeavyUsage SubnetIsFull InsufficientSubnetSize
    PublicIPCountLimitReached""",
    BOOT: """VMExtensionProvisioningError VMExtensionProvisioningTimeout vmssCSE OutboundConnFail K8SAPIServerConnFail
    K8SAPIServerDNSLookupFail CNIDownloadTimeout NodesNotReady InternalServerError InternalOperationError""",
    ABSENT: "NotFound ResourceNotFound ParentResourceNotFound ResourceGroupNotFound SubscriptionNotFound",
    CONFLICT: """OperationNotAllowed AKSOperationPreempted AKSOperationPreemptedByDelete OperationPreempted
    PreConditionFailed PropertyChangeNotAllowed MissingSubscriptionRegistration ReadOnlyDisabledSubscription
    ScopeLocked""",
    INVALID: """BadRequest InvalidParameter ValidationError AgentPoolAPIsNotSupported KubenetNodeCountTotalExceedsLimit
    NodePoolMcVersionIncompatible AgentPoolK8sVersionNotSupported AvailabilityZoneNotSupported
    RequestDisallowedByPolicy LinkedAuthorizationFailed InvalidResourceReference""",
    ACCESS: "InvalidAuthenticationToken ExpiredAuthenticationToken AuthorizationFailed",
    RATE: "Throttled SubscriptionRequestsThrottled TooManyRequests TooManyRequestsReceived",
    SERVER: "InternalServerError ServerTimeout GatewayTimeout",
}
WRAPPERS = (
    "QuotaExceeded",
    "ReconcileVMSSAgentPoolFailed",
    "CreateVMSSAgentPoolFailed",
    "InvalidTemplateDeployment",
)
