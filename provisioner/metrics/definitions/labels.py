"""The labels of all metric families and their values.

Closed sets of values are listed; a test compares them with a running program. `bound` states what limits the others.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from provisioner.api.causes import CAUSES, CONTROLLERS, ConsolidationType, Decision
from provisioner.api.conditions import (
    CONSOLIDATABLE,
    DISRUPTION_REASON,
    DRAINED,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    NODE_HEALTHY,
    READY,
    REGISTERED,
    VOLUMES_DETACHED,
    Status,
)
from provisioner.api.labels import COST_PER_HOUR
from provisioner.api.nodeclaim import Phase
from provisioner.vendors import BY_RESOURCE


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """`values` is the closed set of values; if it is empty, `bound` states what limits their number."""

    meaning: str
    bound: str = ""
    values: tuple[str, ...] = ()


OTHER = "other"
# A regional agent pool, and a shortage that applies to every zone (or size, or capacity type).
REGIONAL, ANY = "regional", "any"

SIZES = "sizes that this version knows; others are `other`"
CLAIMS = "existing NodeClaims and Nodes: `--max-agent-pools`"
REGION = "zones of the region"
KUBE = "kinds of objects that the program reads or writes"

_CONDITIONS = (
    *(LAUNCHED, REGISTERED, INITIALIZED, READY, DRAINED, VOLUMES_DETACHED, INSTANCE_TERMINATING, NODE_HEALTHY),
)
# The names of work queues.
Queue = Literal[
    "nodeclaim",
    "nodepool",
    "nodeoverlay",
    "provisioner",
    "static-capacity",
    "emptiness",
    "expiration",
    "disruption",
    "nodeclaim-disruption",
    "abandoned-commands",
    "admission-errors",
    "nvsentinel",
    "gkm",
]
RESOURCES = ("cpu", "memory", "pods", "ephemeral_storage", *BY_RESOURCE)
# In USD an hour.
COST = COST_PER_HOUR.replace("-", "_")

LABELS: Mapping[str, Label] = {
    "action": Label(meaning="what a repair does", values=("replace", "restart-plugin")),
    "agent_pool": Label(meaning="name of the NodeClaim's agent pool", bound=CLAIMS),
    "arch": Label(meaning="CPU architecture of the Node", values=("", "amd64", "arm64")),
    "bucket": Label(
        meaning="Azure rate limit that applies to the call",
        values=(
            "aks",
            "aks-cluster",
            "aks-operations",
            "aks-put",
            "compute",
            "arm-reads",
            "arm-writes",
            "arm-deletes",
        ),
    ),
    "by": Label(meaning="what throttled the call: the client-side rate limit, or Azure", values=("budget", "cloud")),
    "capacity_type": Label(meaning="capacity type", values=("", "on-demand", "spot", ANY)),
    "cause": Label(
        meaning="cause of an inferred removal",
        values=tuple(cause for cause, row in CAUSES.items() if row.by_inference),
    ),
    "code": Label(
        meaning="HTTP status of the response, `2xx` for any success of ARM; `<error>` without a response",
        bound="HTTP statuses",
    ),
    "commit": Label(meaning="commit from which the image was built, if known", bound="one per process"),
    "condition": Label(
        meaning="condition type; in Karpenter's family the Node's, in snake case",
        values=(*_CONDITIONS, *(row.condition for row in CAUSES.values() if row.condition)),
    ),
    "consolidation_type": Label(
        meaning="what a command of consolidation or for empty machines does; empty for drift",
        values=get_args(ConsolidationType),
    ),
    "controller": Label(
        meaning="Karpenter's name of the controller that acted; the last twelve are work queues",
        values=(*CONTROLLERS, *get_args(Queue)),
    ),
    "deadline": Label(
        meaning="state whose deadline was exceeded",
        values=(
            "launch",
            "creating",
            "registration",
            "initialization",
            "draining",
            "detaching",
            "deleting",
            "releasing",
        ),
    ),
    "decision": Label(
        meaning="whether replacements are created before the machines are removed", values=get_args(Decision)
    ),
    "error": Label(
        meaning="Karpenter's name of the error, empty if it has none",
        values=("", "InsufficientCapacityError", "NodeClaimNotFoundError", "NodeClassNotReadyError"),
    ),
    "generation": Label(meaning="generation of Python's garbage collector", values=("0", "1", "2")),
    "goarch": Label(meaning="architecture of the machine, by Go's name", values=("amd64", "arm64", OTHER)),
    "goversion": Label(meaning="version of Python", bound="one per process"),
    "gpu_name": Label(meaning="GPU model", bound=SIZES),
    "group": Label(meaning="API group", bound=KUBE),
    "image_id": Label(meaning="version of the node image", bound="images that AKS has rolled out"),
    "implementation": Label(meaning="Python platform information", bound="one per process"),
    "instance_type": Label(meaning="VM size", bound=SIZES),
    "kaito_sh_kaitonodeclass": Label(meaning="node class of the NodeClaim, from its label", bound=CLAIMS),
    "karpenter_sh_nodepool": Label(
        meaning="label `karpenter.sh/nodepool` of the NodeClaim", bound="`kaito` for KAITO's NodeClaims"
    ),
    "kind": Label(
        meaning="kind of the removed object, of the requested object, or of the object that caused an error",
        bound=KUBE,
    ),
    "le": Label(meaning="upper bound of a histogram bucket", bound="buckets of the histogram"),
    "major": Label(meaning="Python platform information", bound="one per process"),
    "managed": Label(meaning="whether the Node belongs to a NodeClaim", values=("true",)),
    "method": Label(
        meaning="cloud provider method; in `client_go_request_total`, the verb",
        values=(
            *("Create", "Get", "List", "Delete", "Cause", "Cluster", "Usages", "Skus", "Image"),
            *("GET", "LIST", "WATCH", "CREATE", "UPDATE", "PATCH", "DELETE"),
        ),
    ),
    "min_values_relaxed": Label(meaning="always `false`: minValues are not relaxed", values=("false",)),
    "minor": Label(meaning="Python platform information", bound="one per process"),
    "name": Label(meaning="name of the NodeClaim, work queue or Lease", bound=CLAIMS),
    "namespace": Label(meaning="empty: NodeClaims are cluster-scoped", values=("",)),
    "node_name": Label(meaning="name of the Node", bound=CLAIMS),
    "nodepool": Label(meaning="label `karpenter.sh/nodepool` of the NodeClaim", bound="`kaito` for KAITO's NodeClaims"),
    "operation": Label(
        meaning="operation of the ARM request",
        values=("create", "get", "list", "delete", "cause", "cluster", "usages", "skus", "image"),
    ),
    "os": Label(meaning="operating system of the Node", values=("", "linux", "windows")),
    "patchlevel": Label(meaning="Python platform information", bound="one per process"),
    "phase": Label(meaning="the claim's phase (see docs/concepts/life.md)", values=tuple(Phase)),
    "provider": Label(meaning="cloud provider", values=("azure",)),
    "quantile": Label(meaning="quantile over the last hour", values=("0", "0.5", "0.9", "0.99", "1")),
    "reason": Label(
        meaning="reason from the family's closed set, or the reason of the condition",
        bound="reasons in the reference of conditions; others are `other`",
    ),
    "region": Label(meaning="region of the cluster", bound="one per cluster"),
    "resource": Label(
        meaning="kind in the cache",
        values=(
            *("nodeclaims", "nodes", "customresourcedefinitions", "nodepools", "agentpoolnodeclasses", "nodeoverlays"),
            *("resourceslices", "pods", "daemonsets", "namespaces", "poddisruptionbudgets", "agentpools"),
        ),
    ),
    "resource_type": Label(meaning="resource, in Karpenter's spelling", values=(*RESOURCES, "nodes", COST)),
    "result": Label(
        meaning="result of a reconcile or an operation",
        values=("success", "error", "requeue", "requeue_after", "succeeded", "failed"),
    ),
    "signal": Label(
        meaning="signal of the repair policy, or the condition of the Node",
        bound="signals that this version knows; conditions of your own rows are `other`",
    ),
    "state": Label(
        meaning="of agent pools: the Azure state, `foreign` for unmanaged ones; of GPUs: `expected` by the agent pools'"
        " sizes, `allocatable` by the Nodes",
        values=("creating", "running", "deleting", "failed", "unknown", "foreign", "expected", "allocatable"),
    ),
    "status": Label(meaning="status of the condition", values=get_args(Status)),
    "subresource": Label(meaning="subresource in the request path", values=("", "status", "eviction")),
    "system": Label(meaning="system that rejected the credential", values=("azure", "kubernetes")),
    "type": Label(meaning="type of the condition", values=(*_CONDITIONS, DRIFTED, CONSOLIDATABLE, DISRUPTION_REASON)),
    "verb": Label(
        meaning="verb of the Kubernetes API", values=("GET", "LIST", "WATCH", "CREATE", "UPDATE", "PATCH", "DELETE")
    ),
    "version": Label(meaning="version of this program, of the API, or of Python", bound="one per process"),
    "zone": Label(meaning="zone of the instance; `regional` without a zone", bound=REGION),
}
