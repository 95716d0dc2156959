"""The labels of our metric families: what each one's values are.

Every label of every family is here; where the values are a closed set they are named, so that a test can hold
a running program to them. `bounded by` says what keeps the others few.
"""

from collections.abc import Mapping

import msgspec


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """`values` () is no closed set; then `bound` says what keeps it small."""

    meaning: str
    bound: str = ""
    values: tuple[str, ...] = ()


OTHER = "other"
# Where nothing tells a zone apart: a pool of the whole region, and (of a rest) any zone.
REGIONAL, ANY = "regional", "any"

SIZES = "the GPU sizes that this version knows; all else is `other`"
CLAIMS = "the claims and Nodes that are there: `--max-agent-pools`"
REGION = "the region's zones"
KUBE = "the kinds of objects that the program reads or writes"

_STATUSES = ("True", "False", "Unknown")
_CONDITIONS = (
    "Launched",
    "Registered",
    "Initialized",
    "Ready",
    "Drained",
    "VolumesDetached",
    "InstanceTerminating",
)
CONTROLLERS = (
    "nodeclaim.lifecycle",
    "nodeclaim.garbagecollection",
    "instance.garbagecollection",
    "node.termination",
    "node.health",
)
RESOURCES = ("cpu", "memory", "pods", "ephemeral_storage", "nvidia.com/gpu", "amd.com/gpu")

LABELS: Mapping[str, Label] = {
    "agent_pool": Label(meaning="the name of the claim's agent pool", bound=CLAIMS),
    "arch": Label(meaning="the Node's CPU architecture", values=("", "amd64", "arm64")),
    "bucket": Label(
        meaning="the token bucket of Azure's that a call draws on",
        values=(
            "aks",
            "aks-cluster",
            "aks-operations",
            "aks-put",
            "arm-reads",
            "arm-writes",
            "arm-deletes",
        ),
    ),
    "by": Label(meaning="who refused: our own budget before sending, or Azure", values=("budget", "cloud")),
    "capacity_type": Label(meaning="how the machine is paid", values=("", "on-demand", "spot", ANY)),
    "cause": Label(
        meaning="why something was removed that nobody asked to remove",
        values=(
            "orphan-pool",
            "missing-pool",
            "node-deleted",
            "leftover-node",
            "crd-deleted",
            "unhealthy-node",
            "spot-evicted",
            "failed-create",
        ),
    ),
    "code": Label(
        meaning="the HTTP status of the answer, of ARM `2xx` for all good ones; `<error>` if there was none",
        bound="the statuses that servers send",
    ),
    "commit": Label(meaning="the commit that the image was built from, if it was told", bound="one a process"),
    "condition": Label(
        meaning="a condition's type (Karpenter's family: the Node's, in snake case)",
        values=(*_CONDITIONS, "ready"),
    ),
    "controller": Label(
        meaning="the rule that acted, by the name of Karpenter's controller; `nodeclaim` is our one queue",
        values=(*CONTROLLERS, "nodeclaim"),
    ),
    "deadline": Label(
        meaning="the state that lasted too long",
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
    "error": Label(
        meaning="Karpenter's name of the error, empty for one it has no name for",
        values=("", "InsufficientCapacityError", "NodeClaimNotFoundError", "NodeClassNotReadyError"),
    ),
    "generation": Label(meaning="of Python's garbage collector", values=("0", "1", "2")),
    "goarch": Label(meaning="the machine's architecture, by Go's name", values=("amd64", "arm64", OTHER)),
    "goversion": Label(meaning="the version of Python, under the label's old name", bound="one a process"),
    "gpu_name": Label(meaning="the GPU's model", bound=SIZES),
    "group": Label(meaning="the API group", bound=KUBE),
    "image_id": Label(meaning="the node image's version", bound="the images that AKS has rolled out"),
    "implementation": Label(meaning="of Python", bound="one a process"),
    "instance_type": Label(meaning="the VM size", bound=SIZES),
    "kaito_sh_kaitonodeclass": Label(meaning="the claim's node class, by its label", bound=CLAIMS),
    "karpenter_sh_nodepool": Label(
        meaning="the claim's label `karpenter.sh/nodepool`", bound="`kaito` as KAITO has it"
    ),
    "kind": Label(
        meaning="what was removed; of a request, the kind of object",
        bound=KUBE,
    ),
    "le": Label(meaning="a histogram's bucket: observations up to this value", bound="its buckets"),
    "major": Label(meaning="of Python", bound="one a process"),
    "managed": Label(meaning="whether the Node belongs to a claim", values=("true",)),
    "method": Label(
        meaning="the call of the cloud provider; of `client_go_request_total`, the verb",
        values=(
            *("Create", "Get", "List", "Delete", "Cause", "Cluster"),
            *("GET", "LIST", "WATCH", "CREATE", "UPDATE", "PATCH", "DELETE"),
        ),
    ),
    "min_values_relaxed": Label(meaning="always `false`: nothing is relaxed here", values=("false",)),
    "minor": Label(meaning="of Python", bound="one a process"),
    "name": Label(meaning="a claim's name; of a queue or a Lease, its own", bound=CLAIMS),
    "namespace": Label(meaning="empty: claims have none", values=("",)),
    "node_name": Label(meaning="the Node's name", bound=CLAIMS),
    "nodepool": Label(meaning="the claim's label `karpenter.sh/nodepool`", bound="`kaito` as KAITO has it"),
    "operation": Label(meaning="what was asked of ARM", values=("create", "get", "list", "delete", "cause", "cluster")),
    "os": Label(meaning="the Node's operating system", values=("", "linux", "windows")),
    "patchlevel": Label(meaning="of Python", bound="one a process"),
    "phase": Label(
        meaning="the claim's phase (see A claim's life)",
        values=(
            *("Pending", "Launching", "Registering", "Initializing", "Ready", "NotReady", "Failed"),
            *("Draining", "Detaching", "InstanceTerminating", "Terminated"),
        ),
    ),
    "provider": Label(meaning="the cloud", values=("azure",)),
    "quantile": Label(meaning="of the last hour's observations", values=("0", "0.5", "0.9", "0.99", "1")),
    "reason": Label(
        meaning="a reason from a closed set of the family's; of conditions, the condition's own",
        bound="the reasons in Conditions, all else is `other`",
    ),
    "region": Label(meaning="the cluster's region", bound="one a cluster"),
    "resource": Label(
        meaning="the cached kind", values=("nodeclaims", "nodes", "customresourcedefinitions", "agentpools")
    ),
    "resource_type": Label(meaning="the resource, as Karpenter writes it", values=RESOURCES),
    "result": Label(
        meaning="how a pass or an operation ended",
        values=("success", "error", "requeue", "requeue_after", "succeeded", "failed"),
    ),
    "state": Label(
        meaning="of pools: Azure's, or `foreign` for those not made by us; of GPUs: `expected` by the pools' sizes,"
        " `allocatable` by the Nodes",
        values=("creating", "running", "deleting", "failed", "unknown", "foreign", "expected", "allocatable"),
    ),
    "status": Label(meaning="a condition's status", values=_STATUSES),
    "subresource": Label(meaning="as in the request's path", values=("", "status", "eviction")),
    "system": Label(meaning="who did not take our credential", values=("azure", "kubernetes")),
    "type": Label(meaning="a condition's type", values=_CONDITIONS),
    "verb": Label(meaning="Kubernetes' verb", values=("GET", "LIST", "WATCH", "CREATE", "UPDATE", "PATCH", "DELETE")),
    "version": Label(meaning="this program's; of a request, the API's; of Python, its own", bound="one a process"),
    "zone": Label(meaning="the machine's zone; `regional` if it has none", bound=REGION),
}
