"""`docs/reference/labels.md`: labels, annotations, taints, tags and finalizers."""

from typing import Literal

import msgspec

from provisioner.api import labels as k

from .markdown import code, page, table

On = Literal["NodeClaim", "Node", "agent pool", "Lease", "Pod", "NodePool", "AgentPoolNodeClass"]


class Mark(msgspec.Struct, frozen=True):
    """`by`: the component or user that writes the key; `meaning`: its effect."""

    key: str
    on: tuple[On, ...]
    by: str
    meaning: str


CONTROLLER = "controller"
USER = "user"

FINALIZERS = (
    Mark(
        k.FINALIZER,
        ("NodeClaim", "Node"),
        CONTROLLER,
        "Keeps the object until the machine is proven to be deleted. Karpenter's finalizer.",
    ),
    Mark(
        k.NODECLASS_FINALIZER,
        ("AgentPoolNodeClass",),
        CONTROLLER,
        "Keeps the node class until no NodeClaim refers to it. Added with the first one.",
    ),
)

ANNOTATIONS = (
    Mark(
        k.DO_NOT_DISRUPT,
        ("NodeClaim", "Node", "Pod"),
        f"KAITO, {USER}",
        "On a Pod: a drain does not evict it. `true` applies while it runs, a duration such as `1h30m` since its start,"
        " both until the termination grace period expires. On any of the three, `true` keeps emptiness, consolidation"
        " and drift from removing the machine; repair, expiration and deletion by a user are not affected.",
    ),
    Mark(
        k.NODEPOOL_HASH,
        ("NodePool", "NodeClaim"),
        CONTROLLER,
        "The hash of the NodePool's template without its requirements; a NodeClaim has that of its creation.",
    ),
    Mark(
        k.NODECLASS_HASH,
        ("NodeClaim",),
        CONTROLLER,
        "The hash of the AgentPoolNodeClass when the NodeClaim was created for a NodePool.",
    ),
    Mark(
        k.POD_DELETION_COST,
        ("Pod",),
        USER,
        "What the eviction of the pod costs, as ReplicaSets read it; see NodePools.",
    ),
    Mark(k.NODECLASS_HASH_VERSION, ("NodeClaim",), CONTROLLER, "The version of that hash's algorithm."),
    Mark(k.NODEPOOL_HASH_VERSION, ("NodePool", "NodeClaim"), CONTROLLER, "The version of the hash's algorithm."),
    Mark(
        k.TERMINATION_TIMESTAMP,
        ("NodeClaim",),
        f"{CONTROLLER}, {USER}",
        "The time at which all pods of the Node are deleted, bypassing PodDisruptionBudgets. Set once from"
        " `terminationGracePeriod`; an existing value is not changed.",
    ),
    Mark(
        k.KAITO_IMAGE_FAMILY,
        ("NodeClaim",),
        f"KAITO, {USER}",
        "`ubuntu` or `azurelinux`; any other value means Ubuntu.",
    ),
    Mark(
        k.GPU_READINESS,
        ("NodeClaim",),
        USER,
        "`report`: Initialized does not depend on the GPUs of this NodeClaim; `require`: it does. Takes precedence over"
        " the setting.",
    ),
    Mark(
        k.COST_PER_HOUR,
        ("NodePool",),
        USER,
        "Of a static NodePool: the limit on what its machines cost together, in USD an hour. Others have it in"
        " `spec.limits`.",
    ),
    Mark(
        k.DRA_DRIVERS,
        ("NodeClaim",),
        USER,
        "The names of drivers for dynamic resource allocation, separated by commas: Initialized waits until each of"
        " them has published a complete pool of devices of the Node.",
    ),
    Mark(
        k.RETRY,
        ("NodeClaim",),
        USER,
        "A new value ends the delay of this NodeClaim's unavailable offerings: one NodeClaim retries, for all that"
        " require the same offering.",
    ),
    Mark(
        k.REPAIR,
        ("NodeClaim",),
        USER,
        "`disabled`: the machine is never repaired. A time (RFC 3339, at most a day ahead): until then it is, even"
        " while repair is suspended.",
    ),
    Mark(
        k.REPAIR_DRAIN_UNTIL,
        ("NodeClaim",),
        CONTROLLER,
        "The time at which the drain of a repair ends; removed if the Node recovers before.",
    ),
    Mark(
        k.INSTANCE_LABELS,
        ("NodeClaim",),
        CONTROLLER,
        "The labels that the controller copied from the machine. They are removed with a machine that failed;"
        " labels that a user set are kept.",
    ),
    Mark(
        k.ADOPT,
        ("NodeClaim",),
        "`gpu-provisioner adopt`",
        "The UID of a deleted NodeClaim whose agent pool this one adopts.",
    ),
    Mark(
        k.DISRUPTION_COMMAND,
        ("NodeClaim", "Node"),
        CONTROLLER,
        "The disruption command under way. The taint of the Node belongs to it; both are removed when it is undone.",
    ),
    Mark(
        k.REPLACEMENT_COMMAND,
        ("NodeClaim",),
        CONTROLLER,
        "The disruption command that created this one as a replacement.",
    ),
    Mark(
        k.REPLACES,
        ("NodeClaim",),
        CONTROLLER,
        "The UIDs of the NodeClaims that are deleted once this one is Initialized.",
    ),
    Mark(
        k.BOUGHT_FOR,
        ("NodeClaim",),
        CONTROLLER,
        "The UIDs of the pods that the machine was bought for, and what it was to offer, as JSON.",
    ),
    Mark(k.REPLACEMENTS, ("NodeClaim",), CONTROLLER, "How many NodeClaims replace these together."),
    Mark(
        k.READINESS_TAINTS,
        ("NodeClaim",),
        CONTROLLER,
        "The taints of readiness rules that its Node bears from its registration.",
    ),
    Mark(k.HANDED_OVER_AT, ("Node",), CONTROLLER, "The time at which the Node was assigned to the adopting NodeClaim."),
    Mark(
        k.CONFIRMED_REMOVALS,
        ("Lease",),
        "`gpu-provisioner gc --confirm`",
        "The removals that the circuit breaker allows within the hour.",
    ),
    Mark(
        k.RECENT_REPAIRS,
        ("Lease",),
        CONTROLLER,
        "The repairs of the last days, for the next leader.",
    ),
    Mark(
        k.SIGNAL_OBSERVED,
        ("NodeClaim",),
        CONTROLLER,
        "For how long a signal of the repair policy has been observed on its machine, of rows above 20 min, for the"
        " next leader; written each 10 min, and removed once the signal is gone.",
    ),
    Mark(
        k.REPORTED,
        ("NodeClaim",),
        CONTROLLER,
        "What its conditions report, for the next leader: passed deadlines, its last failure to launch, a suspended"
        " repair, a fault of its GPUs; absent without any of them.",
    ),
    Mark(
        k.CORDONED_AT,
        ("Node",),
        CONTROLLER,
        "When the Node was cordoned for a signal of the repair policy; removed with `spec.unschedulable` once the"
        " signal is gone.",
    ),
    Mark(
        k.CORDON_SEEN_AT,
        ("Node",),
        CONTROLLER,
        "When a cordon of a user or of another controller was first seen on a Node whose machine is to be repaired; its"
        " pods are waited for since then.",
    ),
    Mark(
        k.REJECTS_PODS,
        ("Node",),
        CONTROLLER,
        "When the Node was cordoned because it rejects pods with GPUs although it shows them; `released` and when, once"
        " its device plugin has restarted, or a user has uncordoned it.",
    ),
    Mark(
        k.PLUGIN_RESTARTED,
        ("Node",),
        CONTROLLER,
        "When the pod of the device plugin was deleted to restart it, and the pod's name.",
    ),
    Mark(
        k.INFERRED_REMOVALS,
        ("Lease",),
        CONTROLLER,
        "The inferred removals of the last ten minutes; a new leader counts them for the circuit breaker.",
    ),
    Mark(
        k.RETAIL_PRICES,
        ("Lease",),
        CONTROLLER,
        "The retail prices that were read last, with `settings.retailPrices`, for the next leader and for the commands"
        " `cost` and `explain`.",
    ),
)

LABELS = (
    Mark(
        k.CLAIM_UID,
        ("agent pool", "Node"),
        CONTROLLER,
        "The NodeClaim's UID, which assigns the Node to the NodeClaim. Overrides a label of the NodeClaim.",
    ),
    Mark(
        k.REGISTERED,
        ("Node",),
        CONTROLLER,
        "`true`: the Node has the finalizer, owner, labels, annotations and taints of the NodeClaim.",
    ),
    Mark(
        k.INITIALIZED,
        ("Node",),
        CONTROLLER,
        "`true`: the Node was usable once, including its GPUs. The label is not removed; the Ready condition of the"
        " NodeClaim is current.",
    ),
    Mark(
        k.INSTANCE_TYPE,
        ("NodeClaim", "Node"),
        f"AKS; {CONTROLLER} on the NodeClaim",
        "The size of the machine. A value set by a user is kept.",
    ),
    Mark(
        k.ZONE,
        ("NodeClaim", "Node"),
        f"AKS; {CONTROLLER} on the NodeClaim",
        "The zone, as `<location>-<number>`.",
    ),
    Mark(
        k.LEADER_WORKER_SET,
        ("Pod",),
        "LeaderWorkerSet",
        "With GPUs, the pod blocks disruption, because the whole group restarts when one of its pods goes.",
    ),
    Mark(k.CAPACITY_TYPE, ("NodeClaim",), CONTROLLER, "`spot` or `on-demand`. A value set by a user is kept."),
    Mark(
        k.NODEPOOL,
        ("NodeClaim", "agent pool", "Node"),
        f"{CONTROLLER}, KAITO, {USER}",
        "The NodePool of the machine. On NodeClaims that KAITO or a user creates, the NodePool does not have to exist;"
        f" KAITO uses `{k.DEFAULT_NODEPOOL}`. Copied like any label.",
    ),
    Mark(
        k.KAITO_WORKSPACE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "The controller manages the NodeClaim whatever its node class is.",
    ),
    Mark(
        k.KAITO_RAGENGINE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "The controller manages the NodeClaim whatever its node class is.",
    ),
    Mark(
        k.KAITO_WORKSPACE_NAMESPACE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "Copied like any label, and logged with the name as the owner of the NodeClaim.",
    ),
    Mark(
        k.KAITO_RAGENGINE_NAMESPACE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "Copied like any label, and logged with the name as the owner of the NodeClaim.",
    ),
    Mark(k.KAITO_MACHINE_TYPE, ("agent pool", "Node"), CONTROLLER, "`gpu` or `cpu`, as in Azure/gpu-provisioner."),
    Mark(
        k.KAITO_CREATION_TIMESTAMP,
        ("agent pool", "Node"),
        CONTROLLER,
        "The creation time of the NodeClaim, as in Azure/gpu-provisioner, whose agent pools are assigned to their"
        " NodeClaims by this label.",
    ),
    Mark(k.EXCLUDE_BALANCERS, ("Node",), CONTROLLER, "`karpenter` during the drain: load balancers exclude the Node."),
    Mark(
        k.DO_NOT_SYNC_TAINTS,
        ("Node",),
        USER,
        "`true` before the registration: the taints of the NodeClaim are not added to the Node.",
    ),
    Mark(
        k.AGENTPOOL,
        ("Node",),
        "AKS",
        "The name of the agent pool. A Node is assigned to the pool whose scale set its name and providerID state.",
    ),
    Mark(k.AKS_AGENTPOOL, ("Node",), "AKS", "The same."),
    Mark(k.AKS_IMAGE_VERSION, ("Node",), "AKS", "Copied to `status.imageID`."),
    Mark(k.AKS_SPOT, ("Node",), "AKS", "`spot` on spot Nodes, as a label and as a taint that pods must tolerate."),
)

TAINTS = (
    Mark(
        k.DISRUPTED_TAINT,
        ("Node",),
        CONTROLLER,
        "`NoSchedule` during the drain. DaemonSet pods that tolerate it are not evicted.",
    ),
    Mark(k.UNREGISTERED_TAINT, ("Node",), "the kubelet's configuration", "Removed at registration."),
    Mark(k.NOT_READY_TAINT, ("Node",), "Kubernetes", "Initialized waits for its removal."),
    Mark(k.UNREACHABLE_TAINT, ("Node",), "Kubernetes", "Initialized waits for its removal."),
    Mark(k.UNINITIALIZED_TAINT, ("Node",), "Azure's cloud node manager", "Initialized waits for its removal."),
    Mark(
        k.SHUTDOWN_TAINT,
        ("Node",),
        "Azure's cloud node manager",
        "On a spot Node that is not Ready: Azure evicted the machine.",
    ),
)

TAGS = (
    Mark(k.TAG_CLAIM_NAME, ("agent pool",), CONTROLLER, "The name of the NodeClaim."),
    Mark(
        k.TAG_CLAIM_UID,
        ("agent pool",),
        CONTROLLER,
        "The UID of the NodeClaim to which the agent pool belongs. The node label contains it as well.",
    ),
    Mark(k.TAG_PUT_TIME, ("agent pool",), CONTROLLER, "The time of the request that created the agent pool."),
)

PRIVILEGED = ", ".join(code(domain) for domain in k.PRIVILEGED_DOMAINS)
INTRODUCTION = f"""\
Labels and annotations of a NodeClaim are copied to its Node, labels also to the agent pool, with three exceptions.
Those under {PRIVILEGED} are never copied, because they grant a Node privileges or identify objects of the
controller. Those that Azure or the controller sets are not copied, and what a Node has is never overwritten. Labels
that AKS reserves make the NodeClaim invalid: [LabelRefused](../troubleshooting/reasons.md#labelrefused); labels and
annotations of these keys that are added later are not copied.

The controller writes only the keys that this page lists for it. It never changes labels, annotations, taints, owners
and finalizers of other writers: patches contain single keys, and a list is replaced only if it is unchanged since it
was read.

Nodes of NodePools also bear labels for size, GPU model and number of GPUs: [Requirement keys](requirements.md) lists
them with their values."""

OLD = "## Older names\n\nRequirements can use the names that these labels had before Kubernetes 1.17."

SECTIONS = {
    "Finalizers": FINALIZERS,
    "Annotations": ANNOTATIONS,
    "Labels": LABELS,
    "Taints": TAINTS,
    "Tags of agent pools": TAGS,
}


def render() -> str:
    """The page."""
    parts = []
    for title, marks in SECTIONS.items():
        rows = [[code(m.key), ", ".join(m.on), m.by, m.meaning] for m in marks]
        parts += [f"## {title}", table(["Name", "On", "Written by", "Meaning"], rows)]
    old = table(["Older name", "Name"], [[code(old), code(new)] for old, new in k.BETA_KEYS.items()])
    return page("Labels and annotations", "provisioner/api/labels.py", INTRODUCTION, *parts, OLD, old)
