"""`docs/reference/labels.md`: labels, annotations, taints, tags and finalizers."""

from typing import Literal

import msgspec

from provisioner.api import labels as k

from .markdown import code, page, table

On = Literal["NodeClaim", "Node", "agent pool", "Lease", "Pod"]


class Mark(msgspec.Struct, frozen=True):
    """`key` as it is written; `by`: who writes it; `promise`: what the program does with it."""

    key: str
    on: tuple[On, ...]
    by: str
    promise: str


US = "the program"
YOU = "you"

FINALIZERS = (
    Mark(
        k.FINALIZER, ("NodeClaim", "Node"), US, "Holds the object until the machine is proven gone. Karpenter's name."
    ),
)

ANNOTATIONS = (
    Mark(
        k.DO_NOT_DISRUPT,
        ("NodeClaim", "Node", "Pod"),
        "KAITO, you",
        "On a Pod: it is not evicted in a drain,"
        " `true` for"
        " as long as it runs, or a duration such as `1h30m` since its start; the termination time ends that. On a"
        " claim"
        " it is copied to the Node, and keeps nothing: the program disrupts nothing voluntarily.",
    ),
    Mark(
        k.TERMINATION_TIMESTAMP,
        ("NodeClaim",),
        f"{US}, you",
        "By when every pod of the Node is gone, whatever"
        " budgets"
        " say. Written once from `terminationGracePeriod`; what you wrote stands.",
    ),
    Mark(k.KAITO_IMAGE_FAMILY, ("NodeClaim",), "KAITO, you", "`ubuntu` or `azurelinux`; anything else means Ubuntu."),
    Mark(
        k.GPU_READINESS,
        ("NodeClaim",),
        YOU,
        "`report`: Initialized does not wait for the GPUs of this claim, nor"
        " is it"
        " taken back for them; `require`: it does, whatever the setting says.",
    ),
    Mark(
        k.RETRY,
        ("NodeClaim",),
        YOU,
        "Any new value ends the rest of what this claim asks for: one claim tries at once, for all that want the same.",
    ),
    Mark(k.REPAIR, ("NodeClaim",), YOU, "`disabled`: the Node is kept whatever becomes of it."),
    Mark(
        k.REPAIR_DRAIN_UNTIL,
        ("NodeClaim",),
        US,
        "By when a repair has drained the Node; taken off if the Node recovers first.",
    ),
    Mark(
        k.ADOPT,
        ("NodeClaim",),
        "`gpu-provisioner adopt`",
        "The UID of a vanished claim whose pool this one takes over.",
    ),
    Mark(k.HANDED_OVER_AT, ("Node",), US, "When the Node was handed to the claim that adopted it."),
    Mark(
        k.CONFIRMED_REMOVALS,
        ("Lease",),
        "`gpu-provisioner gc --confirm`",
        "Exactly the removals that may pass the brake within the hour.",
    ),
)

LABELS = (
    Mark(
        k.CLAIM_UID,
        ("agent pool", "Node"),
        US,
        "The claim's UID. It makes a Node belong to a claim; forced over any label of the claim's.",
    ),
    Mark(
        k.REGISTERED, ("Node",), US, "`true`: finalizer, owner, labels, annotations and taints of the claim are on it."
    ),
    Mark(
        k.INITIALIZED,
        ("Node",),
        US,
        "`true`: the Node was usable once, GPUs included. It is not taken off again; the claim's Ready is the truth.",
    ),
    Mark(
        k.INSTANCE_TYPE,
        ("NodeClaim", "Node"),
        f"AKS; {US} on the claim",
        "The size that the machine turned out to have. A value of yours stays.",
    ),
    Mark(k.ZONE, ("NodeClaim", "Node"), f"AKS; {US} on the claim", "The zone, as `<location>-<number>`."),
    Mark(k.CAPACITY_TYPE, ("NodeClaim",), US, "`spot` or `on-demand`. A value of yours stays."),
    Mark(
        k.NODEPOOL,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO, you",
        f"Copied like every label. No NodePool of that name need exist; KAITO uses `{k.DEFAULT_NODEPOOL}`.",
    ),
    Mark(
        k.KAITO_WORKSPACE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "Makes the claim ours, whatever its node class.",
    ),
    Mark(
        k.KAITO_RAGENGINE,
        ("NodeClaim", "agent pool", "Node"),
        "KAITO",
        "Makes the claim ours, whatever its node class.",
    ),
    Mark(k.KAITO_MACHINE_TYPE, ("agent pool", "Node"), US, "`gpu` or `cpu`, as Azure/gpu-provisioner writes it."),
    Mark(
        k.KAITO_CREATION_TIMESTAMP,
        ("agent pool", "Node"),
        US,
        "When the claim was created, as Azure/gpu-provisioner"
        " writes it: by this a pool of the predecessor's is matched to its claim.",
    ),
    Mark(k.EXCLUDE_BALANCERS, ("Node",), US, "`karpenter`, once the Node drains: no new connections."),
    Mark(k.DO_NOT_SYNC_TAINTS, ("Node",), YOU, "`true` before it registers: the claim's taints are not added to it."),
    Mark(k.AGENTPOOL, ("Node",), "AKS", "The agent pool's name, by which a Node is found."),
    Mark(k.AKS_AGENTPOOL, ("Node",), "AKS", "The same, and asked first."),
    Mark(k.AKS_IMAGE_VERSION, ("Node",), "AKS", "Copied to `status.imageID`."),
    Mark(k.AKS_SPOT, ("Node",), "AKS", "`spot` on spot Nodes, as a label and as a taint that pods must tolerate."),
)

TAINTS = (
    Mark(k.DISRUPTED_TAINT, ("Node",), US, "`NoSchedule`, once the Node drains. DaemonSet pods that tolerate it stay."),
    Mark(k.UNREGISTERED_TAINT, ("Node",), "whoever boots Nodes with it", "Removed at registration."),
    Mark(k.NOT_READY_TAINT, ("Node",), "Kubernetes", "Initialized waits until it is gone."),
    Mark(k.UNREACHABLE_TAINT, ("Node",), "Kubernetes", "Initialized waits until it is gone."),
    Mark(k.UNINITIALIZED_TAINT, ("Node",), "Azure's cloud node manager", "Initialized waits until it is gone."),
    Mark(
        k.SHUTDOWN_TAINT,
        ("Node",),
        "Azure's cloud node manager",
        "On a spot Node that is not Ready: its machine was taken back.",
    ),
)

TAGS = (
    Mark(k.TAG_CLAIM_NAME, ("agent pool",), US, "The claim's name."),
    Mark(
        k.TAG_CLAIM_UID, ("agent pool",), US, "The claim's UID: the pool is this claim's. The node label says it again."
    ),
    Mark(k.TAG_PUT_TIME, ("agent pool",), US, "When the pool was asked for."),
)

PRIVILEGED = ", ".join(code(domain) for domain in k.PRIVILEGED_DOMAINS)
INTRODUCTION = f"""\
Labels and annotations of a claim go to its Node, labels to the agent pool as well, with these exceptions: those under
{PRIVILEGED} are never copied, for they would give a Node privileges or speak in our name; those that AKS keeps for
itself make the claim [LabelRefused](../troubleshooting/reasons.md#labelrefused).

The program writes only what is named here as its own. Nobody else's label, annotation, taint, owner or finalizer is
ever changed or lost: patches name single keys, and a list is replaced only if it is still as it was read."""

OLD = "## Older names\n\nRequirements may use the names that these labels had before Kubernetes 1.17."

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
        rows = [[code(m.key), ", ".join(m.on), m.by, m.promise] for m in marks]
        parts += [f"## {title}", table(["Name", "On", "Written by", "Promise"], rows)]
    old = table(["Older name", "Means"], [[code(old), code(new)] for old, new in k.BETA_KEYS.items()])
    return page("Labels and other marks", "provisioner/api/labels.py", INTRODUCTION, *parts, OLD, old)
