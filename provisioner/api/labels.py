"""Every label, annotation, taint and finalizer the program reads or writes, in one place.

Names only, no rules. This is the single module the simulator shares with the controller: two spellings
of one key would be a bug of the tests, not of the program.

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
DISRUPTED_TAINT = "karpenter.sh/disrupted"
UNREGISTERED_TAINT = "karpenter.sh/unregistered"

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

# KAITO and Azure/gpu-provisioner
KAITO_WORKSPACE = "kaito.sh/workspace"
KAITO_RAGENGINE = "kaito.sh/ragengine"
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

# Ours. The label makes a Node belong to a claim; the tags make a pool belong to a claim
# (docs/references/rules.md#ownership-marks).
OWN_DOMAIN = "gpu-provisioner.sh"
CLAIM_UID = "gpu-provisioner.sh/nodeclaim-uid"
GPU_READINESS = "gpu-provisioner.sh/gpu-readiness"
# On a claim, by a person: the UID whose pool it takes over. On the Lease: removals that a person has confirmed.
ADOPT = "gpu-provisioner.sh/adopt"
# On a claim, by a person: a new value tries at once what rests.
RETRY = "gpu-provisioner.sh/retry"
# On a Node, by us: when it was handed over to a claim that adopted it (RFC 3339).
HANDED_OVER_AT = "gpu-provisioner.sh/handed-over-at"
CONFIRMED_REMOVALS = "gpu-provisioner.sh/confirmed-removals"
# On a claim: "disabled" by a person, who wants the Node kept whatever becomes of it; and, by us, the end of the drain
# of a Node that repair removes.
REPAIR = "gpu-provisioner.sh/repair"
REPAIR_DRAIN_UNTIL = "gpu-provisioner.sh/repair-drain-until"
TAG_CLAIM_NAME = "gpu-provisioner_nodeclaim"
TAG_CLAIM_UID = "gpu-provisioner_nodeclaim-uid"
TAG_PUT_TIME = "gpu-provisioner_put-time"

# The names that instance types, zones and the like had before Kubernetes 1.17; requirements may still use them.
BETA_KEYS = {
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/arch": ARCH,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}

# A claim's labels under these domains never reach a Node: they would give it privileges, or speak in our name.
PRIVILEGED_DOMAINS = ("node-restriction.kubernetes.io", "node-role.kubernetes.io", OWN_DOMAIN)
# How a creation time is written in a label, where colons are not allowed.
CREATION_LAYOUT = "%Y-%m-%dT%H-%M-%SZ"
