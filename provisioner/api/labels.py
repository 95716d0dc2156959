"""Names of all labels, annotations, taints, tags and finalizers that the program reads or writes.

The only module that the simulator shares with the controller.

Source: docs/references/karpenter.md#labels-annotations-and-taints,
docs/references/kaito.md#the-nodeclaim-that-kaito-creates, docs/references/agent-pools.md#labels-and-taints.
"""

# Karpenter
FINALIZER = "karpenter.sh/termination"
NODEPOOL = "karpenter.sh/nodepool"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
DISRUPTED_TAINT = "karpenter.sh/disrupted"
UNREGISTERED_TAINT = "karpenter.sh/unregistered"
# On a claim: the DRA drivers that must have published their devices, separated by commas.
DRA_DRIVERS = "karpenter.sh/requested-dra-drivers"

# Kubernetes
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"
# On the pods of a LeaderWorkerSet (https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/).
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# KAITO and Azure/gpu-provisioner
KAITO_WORKSPACE = "kaito.sh/workspace"
KAITO_WORKSPACE_NAMESPACE = "kaito.sh/workspacenamespace"
KAITO_RAGENGINE = "kaito.sh/ragengine"
KAITO_RAGENGINE_NAMESPACE = "kaito.sh/ragenginenamespace"
KAITO_MACHINE_TYPE = "kaito.sh/machine-type"
KAITO_CREATION_TIMESTAMP = "kaito.sh/creation-timestamp"
KAITO_IMAGE_FAMILY = "kaito.sh/node-image-family"
KAITO_NODECLASS_GROUP = "kaito.sh"
KAITO_NODECLASS_KIND = "KaitoNodeClass"
KAITO_NODECLASS = "kaito.sh/kaitonodeclass"
DEFAULT_NODEPOOL = "kaito"

# AKS
AGENTPOOL = "agentpool"
AKS_AGENTPOOL = "kubernetes.azure.com/agentpool"
AKS_IMAGE_VERSION = "kubernetes.azure.com/node-image-version"
AKS_SPOT = "kubernetes.azure.com/scalesetpriority"

# This project's. The label on a Node and the tags on a pool name the claim that owns them
# (docs/references/rules.md#ownership-marks).
OWN_DOMAIN = "gpu-provisioner.sh"
NODECLASS_KIND = "AgentPoolNodeClass"
# Set on a claim of a NodePool: the hash of its node class when it was created, and the version of the algorithm.
NODECLASS_HASH = "gpu-provisioner.sh/agentpoolnodeclass-hash"
NODECLASS_HASH_VERSION = "gpu-provisioner.sh/agentpoolnodeclass-hash-version"
NODECLASS_FINALIZER = "gpu-provisioner.sh/termination"
CLAIM_UID = "gpu-provisioner.sh/nodeclaim-uid"
GPU_READINESS = "gpu-provisioner.sh/gpu-readiness"
# Set on a claim: the taints of readiness rules that its Node bears from its registration, separated by commas.
READINESS_TAINTS = "gpu-provisioner.sh/readiness-taints"
# Set by a user on a claim: the UID of the former claim whose pool it adopts.
ADOPT = "gpu-provisioner.sh/adopt"
# Set by a user on a claim: a new value ends the back-off.
RETRY = "gpu-provisioner.sh/retry"
# Set on a Node: when it was handed over to the claim that adopted it (RFC 3339).
HANDED_OVER_AT = "gpu-provisioner.sh/handed-over-at"
# Set on the Lease: inferred removals that a user has confirmed.
CONFIRMED_REMOVALS = "gpu-provisioner.sh/confirmed-removals"
# Set on the Lease: inferred removals of the last minutes, for the next leader.
INFERRED_REMOVALS = "gpu-provisioner.sh/inferred-removals"
# Set on the Lease: repairs of the last days, for the next leader.
RECENT_REPAIRS = "gpu-provisioner.sh/recent-repairs"
# Set on the Lease: the retail prices that were read last, for the next leader and for commands (JSON).
RETAIL_PRICES = "gpu-provisioner.sh/retail-prices"
# On a claim, set by a user: "disabled" prevents repair, a time within a day allows it although it is suspended.
REPAIR = "gpu-provisioner.sh/repair"
# Set on a claim: the labels that the controller copied from its machine, as key=value, separated by commas.
INSTANCE_LABELS = "gpu-provisioner.sh/instance-labels"
# Set on a claim that repair deletes: the deadline of the drain (RFC 3339).
REPAIR_DRAIN_UNTIL = "gpu-provisioner.sh/repair-drain-until"
# Set on a claim: for how long the signal of a repair has been observed, for the next leader (JSON).
SIGNAL_OBSERVED = "gpu-provisioner.sh/signal-observed"
# Set on a claim: what its conditions report, for the next pass and the next leader (JSON).
REPORTED = "gpu-provisioner.sh/reported"
# Set on a Node that repair has cordoned because some of its GPUs are missing: when (RFC 3339).
CORDONED_AT = "gpu-provisioner.sh/cordoned-at"
# Set on a Node that others have cordoned and whose machine is to be repaired: when this was first seen (RFC 3339).
CORDON_SEEN_AT = "gpu-provisioner.sh/cordon-seen-at"
# Set on a Node that was cordoned because it rejects pods with GPUs: when (RFC 3339); or "released" and when.
REJECTS_PODS = "gpu-provisioner.sh/rejects-pods-since"
# Set on a Node: when repair restarted the device plugin's pod (RFC 3339), and the name of the pod.
PLUGIN_RESTARTED = "gpu-provisioner.sh/plugin-restarted"
# Set on a claim that is disrupted, and on its Node: the disruption command, whose marks an undo removes.
DISRUPTION_COMMAND = "gpu-provisioner.sh/disruption-command"
# Set on a claim: the disruption command that created it, the UIDs of the claims that it replaces, separated by commas,
# and how many claims replace them.
REPLACEMENT_COMMAND = "gpu-provisioner.sh/replacement-command"
REPLACES = "gpu-provisioner.sh/replaces"
REPLACEMENTS = "gpu-provisioner.sh/replacements"
# Set on a claim: the pods that it was bought for, and what its machine was to offer, as JSON.
BOUGHT_FOR = "gpu-provisioner.sh/bought-for"
# A limit of a NodePool: what its machines cost together, in USD an hour. An annotation of static NodePools.
COST_PER_HOUR = "gpu-provisioner.sh/cost-per-hour"
TAG_CLAIM_NAME = "gpu-provisioner_nodeclaim"
TAG_CLAIM_UID = "gpu-provisioner_nodeclaim-uid"
TAG_PUT_TIME = "gpu-provisioner_put-time"

# Facts of a machine that are shown as labels of its claim. They never get from a claim to a pool or a Node.
OF_INSTANCE = frozenset({INSTANCE_TYPE, ZONE, CAPACITY_TYPE})

# Deprecated names, from before Kubernetes 1.17, that requirements may use.
BETA_KEYS = {
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/arch": ARCH,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}

# Labels of a claim in these domains are never copied to a Node: they would grant privileges or fake our marks.
PRIVILEGED_DOMAINS = ("node-restriction.kubernetes.io", "node-role.kubernetes.io", OWN_DOMAIN)
