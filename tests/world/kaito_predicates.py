"""KAITO's claims and its predicates on them, as pure functions over raw JSON.

They follow KAITO's documentation and import nothing of the program, so that they do not share its errors.

Source: docs/references/kaito.md#the-nodeclaim-that-kaito-creates, docs/references/kaito.md#what-kaito-reads.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]

STAGES = ("Launched", "Registered", "Initialized")
BENIGN = "AwaitingReconciliation"
SHOWN_BYTES = 256
TERMINAL = "all requested instance types were unavailable during launch"
NODEPOOL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ACCELERATOR = ("accelerator", "nvidia")
GPU = "nvidia.com/gpu"
GPU_FAMILIES = ("_A10_", "_A100_", "_H100_", "_H200_", "_V620_")


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The machines of a Workspace or RAGEngine: `count` of one size, with `storage` of disk each. `terms`: a capacity
    type, for a KAITO that requests one.
    """

    kind: Literal["workspace", "ragengine"]
    name: str
    size: str
    namespace: str = "default"
    count: int = 1
    storage: str = "1024Gi"
    image: str = "ubuntu"
    terms: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> dict[str, str]:
        """The two labels by which KAITO finds this owner's claims."""
        return {f"kaito.sh/{self.kind}": self.name, f"kaito.sh/{self.kind}namespace": self.namespace}


def claim_of(owner: Owner, nanoseconds: int) -> Json:
    """The claim that KAITO creates for this owner at that time, under a unique name."""
    digest = hashlib.sha256(f"{owner.namespace}{owner.name}{nanoseconds}".encode()).hexdigest()
    wanted = [
        (NODEPOOL, "kaito"),
        (INSTANCE_TYPE, owner.size),
        ("kubernetes.io/os", "linux"),
        ("karpenter.azure.com/sku-name", owner.size),
        *([("karpenter.sh/capacity-type", owner.terms)] if owner.terms else []),
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"ws{digest[:9]}",
            "annotations": {"karpenter.sh/do-not-disrupt": "true", "kaito.sh/node-image-family": owner.image},
            "labels": {NODEPOOL: "kaito", **owner.pair, **owner.labels},
        },
        "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in wanted],
            "resources": {"requests": {"storage": owner.storage}},
            "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
        },
    }


# Reading objects


def labels_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def is_deleting(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def condition(obj: Json, kind: str) -> Json | None:
    """A condition of that type; None if there is none."""
    return next((c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind), None)


def is_true(obj: Json, kind: str) -> bool:
    return (condition(obj, kind) or {}).get("status") == "True"


def node_name(claim: Json) -> str:
    """The Node that the claim names; "" if it names none."""
    return (claim.get("status") or {}).get("nodeName") or ""


# Claims


def is_trapped(claim: Json) -> bool:
    """Whether KAITO treats this claim as ready without a Ready condition: any nodeName is then sufficient."""
    return condition(claim, "Ready") is None and bool(node_name(claim))


def is_ready(claim: Json) -> bool:
    """KAITO's ready test."""
    return not is_deleting(claim) and (is_true(claim, "Ready") or is_trapped(claim))


def error_of(claims: Iterable[Json]) -> str:
    """The error that KAITO shows for these claims: `reason: message` of the first stage with a message."""
    living = [claim for claim in claims if not is_deleting(claim)]
    conditions = [found for stage in STAGES for claim in living if (found := condition(claim, stage))]
    spoken = [found for found in conditions if found["status"] != "True" and found.get("message")]
    chosen = next((found for found in spoken if found.get("reason") != BENIGN), next(iter(spoken), None))
    if chosen is None:
        return ""
    words = chosen["message"].encode()
    cut = words[:SHOWN_BYTES].decode(errors="ignore") + "..." if len(words) > SHOWN_BYTES else chosen["message"]
    return f"{chosen.get('reason', '')}: {cut}"


def is_hopeless(claim: Json) -> bool:
    """The RAGEngine's terminal error."""
    launched = condition(claim, "Launched") or {}
    return launched.get("status") == "False" and TERMINAL in launched.get("message", "")


# Nodes


def is_up(node: Json) -> bool:
    """Whether a Node is Ready and has no deletionTimestamp."""
    return not is_deleting(node) and is_true(node, "Ready")


def counts(node: Json, owner: Owner) -> bool:
    """Whether a listed Node is one of this owner's machines; the two kinds compare sizes differently."""
    size = labels_of(node).get(INSTANCE_TYPE, "")
    same = size == owner.size if owner.kind == "workspace" else size.lower() == owner.size.lower()
    return is_up(node) and same


def number_to_create(owner: Owner, nodes: Iterable[Json], claims: Sequence[Json]) -> int:
    """The number of missing claims: a claim counts until it is gone, and a Node without a node pool is the user's."""
    brought = sum(counts(node, owner) and NODEPOOL not in labels_of(node) for node in nodes)
    return max(0, owner.count - brought - len(claims))


def known_gpus(owner: Owner) -> bool:
    """Whether KAITO knows that this size has GPUs; for other sizes it requests none."""
    return any(family in f"{owner.size}_" for family in GPU_FAMILIES)


def is_labelled(node: Json) -> bool:
    """Whether the Node has KAITO's label."""
    key, value = ACCELERATOR
    return labels_of(node).get(key) == value


def has_gpus(node: Json) -> bool:
    """Whether the Node's capacity has GPUs; KAITO does not read allocatable."""
    return str(((node.get("status") or {}).get("capacity") or {}).get(GPU, "0")) != "0"
