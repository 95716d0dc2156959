"""KAITO's karpenter mode as pure functions over raw JSON: its node classes and NodePools, and what it counts.

Like `kaito_predicates`, it imports nothing of the program.

Source: docs/references/kaito.md#karpenter-mode.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import kaito_predicates
from .kaito_predicates import NODEPOOL, Owner, is_deleting, labels_of

Json = dict[str, Any]

DOMAIN = "karpenter.kaito.sh"
MANAGED_BY = {f"{DOMAIN}/managed-by": "kaito"}
DEFAULT = f"{DOMAIN}/default"
WORKSPACE, LEGACY_WORKSPACE = f"{DOMAIN}/workspace-name", "kaito.sh/workspace"
NAME_MOST, HASH_DIGITS = 63, 9
REPLICAS = "replicas"


@dataclass(frozen=True, kw_only=True)
class NodeClasses:
    """The values `karpenterProviders.<key>` of KAITO's chart. `specs`: by name; `default`: the name of one of them."""

    group: str
    kind: str
    version: str
    resource: str
    default: str
    specs: Mapping[str, Json]

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}/{self.resource}"

    @property
    def crds(self) -> tuple[str, ...]:
        """The CRDs without which KAITO does not start."""
        return "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", f"{self.resource}.{self.group}"

    def objects(self) -> list[Json]:
        """The node classes that KAITO creates when it starts."""
        return [
            {
                "apiVersion": f"{self.group}/{self.version}",
                "kind": self.kind,
                "metadata": {
                    "name": name,
                    "labels": {**MANAGED_BY, **({DEFAULT: "true"} if name == self.default else {})},
                },
                "spec": spec,
            }
            for name, spec in sorted(self.specs.items())
        ]


def node_classes(values: Json) -> NodeClasses:
    """The node classes in the values of KAITO's chart."""
    provider = values["karpenterProviders"][values["karpenterProvider"]]
    entries = provider["nodeClasses"]
    (default,) = (one["name"] for one in entries if one.get("default"))
    return NodeClasses(
        group=provider["group"],
        kind=provider["kind"],
        version=provider["version"],
        resource=provider["resourceName"],
        default=default,
        specs={one["name"]: one.get("spec") or {} for one in entries},
    )


@dataclass(frozen=True, kw_only=True)
class PoolOwner(Owner):
    """A Workspace in karpenter mode. `inference_set`: the InferenceSet that created it. `labels`: the user's
    matchLabels. `node_class`: that of its annotation, "" for the default one.
    """

    kind: Literal["workspace", "ragengine"] = "workspace"
    inference_set: str = ""
    node_class: str = ""

    @property
    def pool(self) -> str:
        """The name of its NodePool."""
        full = f"{self.namespace}-{self.name}"
        if len(full) <= NAME_MOST:
            return full
        digits = hashlib.sha256(full.encode()).hexdigest()[:HASH_DIGITS]
        return f"{full[: NAME_MOST - 1 - HASH_DIGITS]}-{digits}"

    @property
    def marks(self) -> dict[str, str]:
        """The labels by which KAITO finds what belongs to the Workspace, and to its InferenceSet."""
        own = {WORKSPACE: self.name, f"{DOMAIN}/workspace-namespace": self.namespace}
        return own | (marks_of_set(self.inference_set, self.namespace) if self.inference_set else {})


def marks_of_set(name: str, namespace: str) -> dict[str, str]:
    """The labels of the NodePools and NodeClaims of an InferenceSet."""
    return {f"{DOMAIN}/inferenceset": name, f"{DOMAIN}/inferenceset-namespace": namespace}


def node_pool(owner: PoolOwner, classes: NodeClasses, replicas: int) -> Json:
    """The NodePool that KAITO creates, as its client writes it: durations that are not set are `Never`."""
    reference = {"kind": classes.kind, "name": owner.node_class or classes.default, "group": classes.group}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": owner.pool, "labels": {**MANAGED_BY, **owner.marks}},
        "spec": {
            "template": {
                "metadata": {"labels": {**owner.marks, **owner.labels}},
                "spec": {
                    "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
                    "requirements": [{"key": kaito_predicates.INSTANCE_TYPE, "operator": "In", "values": [owner.size]}],
                    "nodeClassRef": reference,
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"reasons": ["Drifted"], "nodes": "0" if owner.inference_set else "1"}],
            },
            REPLICAS: replicas,
        },
        "status": {"nodes": None},
    }


@dataclass(frozen=True, kw_only=True)
class Count:
    """`covered`: machines that need no NodePool: Ready Nodes that the user brought, and claims of the direct mode.
    `ready`: all Ready Nodes of the Workspace.
    """

    covered: int
    ready: int


def count(owner: PoolOwner, nodes: Iterable[Json], legacy: Iterable[Json]) -> Count:
    """`nodes`: those with the user's labels. `legacy`: the claims of the direct mode."""
    ready = [node for node in nodes if kaito_predicates.counts(node, owner) and not _is_of_another(owner, node)]
    brought = [node for node in ready if not {WORKSPACE, LEGACY_WORKSPACE} & labels_of(node).keys()]
    return Count(covered=len(brought) + sum(not is_deleting(claim) for claim in legacy), ready=len(ready))


def _is_of_another(owner: PoolOwner, node: Json) -> bool:
    """Whether the Node belongs to another Workspace with the same labels of the user."""
    names = [labels_of(node).get(key) for key in (WORKSPACE, LEGACY_WORKSPACE)]
    return any(name is not None and name != owner.name for name in names)


def pool_of(claim: Json) -> str:
    """The NodePool by which KAITO groups claims."""
    return labels_of(claim).get(NODEPOOL, "")


def drift_budget(pool: Json) -> Json | None:
    """The first budget for drift."""
    return next((one for one in pool["spec"]["disruption"]["budgets"] if "Drifted" in one.get("reasons", ())), None)


def is_drifted(claims: Iterable[Json]) -> bool:
    """Whether one of the claims is Drifted; those that are being deleted count."""
    return any(kaito_predicates.is_true(claim, "Drifted") for claim in claims)


def shown(claims: Sequence[Json], target: int) -> str:
    """The cause in the Workspace's condition NodeClaimReady; "" if enough claims are ready."""
    if sum(kaito_predicates.is_ready(claim) for claim in claims) >= target:
        return ""
    return kaito_predicates.error_of(claims) or "NodeClaimNotReady: Ready NodeClaims are not enough"
