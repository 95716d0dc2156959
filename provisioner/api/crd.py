"""The two CustomResourceDefinitions: NodeClaim (`karpenter.sh/v1`) and KaitoNodeClass (`kaito.sh/v1alpha1`).

The NodeClaim schema has the fields, patterns, enums, defaults, list types, columns and CEL rules of Karpenter
v1.14, word for word where a client can tell, which accepts all that older v1 releases accept. `python -m
provisioner.api.crd DIR` writes both as YAML; the chart `gpu-provisioner-crd` ships exactly these files.
Claims of the time before `nodeClassRef.group` stay editable and deletable although their empty group would be refused
today: the API server (Kubernetes 1.30 and newer) does not re-validate values that an update leaves as they are.

Source: docs/references/karpenter.md#nodeclaim-api, and https://github.com/Azure/gpu-provisioner for KaitoNodeClass,
whose definition no chart ships.
"""

import sys
from pathlib import Path
from typing import Any

from .schema import Schema, atomic_list, column, definition, quantities, rules, structure, text, time, type_meta

QUALIFIED_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
DURATION = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"

HEAD = "# Written by `make generate` from provisioner/api/crd.py; change it there.\n"


def nodeclaim_crd() -> Schema:
    """The NodeClaim's CustomResourceDefinition."""
    return definition(
        group="karpenter.sh",
        names={
            "categories": ["karpenter"],
            "kind": "NodeClaim",
            "listKind": "NodeClaimList",
            "plural": "nodeclaims",
            "singular": "nodeclaim",
        },
        version="v1",
        columns=[
            column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            column("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
            column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            column("Node", ".status.nodeName"),
            column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            column("Age", ".metadata.creationTimestamp", kind="date"),
            column("ImageID", ".status.imageID", priority=1),
            column("ID", ".status.providerID", priority=1),
            column("NodePool", r".metadata.labels.karpenter\.sh/nodepool", priority=1),
            column("NodeClass", ".spec.nodeClassRef.name", priority=1),
            column("Drifted", '.status.conditions[?(@.type=="Drifted")].status', priority=1),
        ],
        schema=structure(
            "One machine that is asked for, and what has become of it.",
            {**type_meta(), "spec": _spec(), "status": _status()},
            required=["spec"],
        ),
    )


def kaitonodeclass_crd() -> Schema:
    """The KaitoNodeClass's CustomResourceDefinition. Claims name such an object; it is empty and need not exist."""
    return definition(
        group="kaito.sh",
        names={
            "categories": ["karpenter"],
            "kind": "KaitoNodeClass",
            "listKind": "KaitoNodeClassList",
            "plural": "kaitonodeclasses",
            "shortNames": ["knc"],
            "singular": "kaitonodeclass",
        },
        version="v1alpha1",
        columns=[],
        schema=structure(
            "The kind of nodes that KAITO's claims name; it has no settings.",
            {
                **type_meta(),
                "spec": structure("Reserved; there is nothing to set."),
                "status": structure("Reserved; there is nothing to report."),
            },
        ),
    )


def all_crds() -> dict[str, Schema]:
    """Every definition by the file name it is shipped under."""
    return {"karpenter.sh_nodeclaims.yaml": nodeclaim_crd(), "kaito.sh_kaitonodeclasses.yaml": kaitonodeclass_crd()}


def _spec() -> Schema:
    return structure(
        "What the machine must be like. It cannot be changed afterwards; make a new claim instead.",
        {
            "expireAfter": text(
                "How long the machine may live from its creation, or Never.", default="720h", pattern=DURATION_OR_NEVER
            ),
            "nodeClassRef": _node_class_ref(),
            "requirements": _requirements(),
            "resources": structure(
                "What the machine must at least offer.",
                {"requests": quantities("Amounts by resource name, such as storage.")},
            ),
            "startupTaints": _taints(
                "Taints the Node starts with and somebody else, usually a DaemonSet, takes away; "
                "the claim is not initialized before they are gone."
            ),
            "taints": _taints("Taints the Node bears from its start."),
            "terminationGracePeriod": text(
                "How long pods may hold up the removal of the machine, whatever their disruption budgets say; "
                "without it a drain may wait for ever.",
                pattern=DURATION,
            ),
        },
        required=["nodeClassRef", "requirements"],
    ) | rules(("self == oldSelf", "spec is immutable"))


def _node_class_ref() -> Schema:
    def part(name: str, description: str, **more: Any) -> Schema:
        return text(description, **more) | rules(("self != ''", f"{name} may not be empty"))

    return structure(
        "The kind of nodes wanted.",
        {
            "group": part("group", "The API group of the node class, without a version.", pattern="^[^/]*$"),
            "kind": part("kind", "The kind of the node class."),
            "name": part("name", "The name of the node class."),
        },
        required=["group", "kind", "name"],
    )


def _requirements() -> Schema:
    key = text("The label the requirement is about.", maxLength=316, pattern=QUALIFIED_KEY) | rules(
        (
            'self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"]'
            ' || !self.find("^([^/]+)").endsWith("karpenter.sh")',
            'label domain "karpenter.sh" is restricted',
        ),
        ('self != "kubernetes.io/hostname"', 'label "kubernetes.io/hostname" is restricted'),
    )
    values: Schema = {
        "description": "The values the operator compares with, in order of preference.",
        "type": "array",
        "items": {"type": "string"},
        # A text's limits on a list, where no API server enforces them: Karpenter has them so, and so they stay.
        "maxLength": 63,
        "pattern": LABEL_VALUE,
        "x-kubernetes-list-type": "atomic",
    }
    requirement = structure(
        "One demand on one label of the machine.",
        {
            "key": key,
            "minValues": {
                "description": "How many different values must remain to choose from (alpha).",
                "type": "integer",
                "minimum": 1,
                "maximum": 50,
            },
            "operator": text(
                "How the label's value relates to the given ones.",
                enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"],
            ),
            "values": values,
        },
        required=["key", "operator"],
    )
    return atomic_list("Demands on the machine's labels; it must meet all of them.", requirement, maxItems=100) | rules(
        (
            "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            "requirements with operator 'In' must have a value defined",
        ),
        (
            "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte')"
            " ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        ),
        (
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        ),
    )


def _taints(description: str) -> Schema:
    taint = structure(
        "One taint; pods that do not tolerate it feel its effect.",
        {
            "effect": text("What happens to such pods.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "key": text("The taint's key.", minLength=1, pattern=QUALIFIED_KEY),
            "timeAdded": time("When the taint was added."),
            "value": text("The taint's value.", pattern=QUALIFIED_KEY),
        },
        required=["effect", "key"],
    )
    return atomic_list(description, taint)


def _status() -> Schema:
    condition = structure(
        "One answer about the claim.",
        {
            "lastTransitionTime": time("When the status last changed."),
            "message": text("Why, for people: the cause, since when, and what to do.", maxLength=32768),
            "observedGeneration": {
                "description": "The generation of the claim that the answer is about.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "reason": text("Why, for programs.", maxLength=1024, pattern=CONDITION_REASON),
            "status": text("Whether it is so.", enum=["True", "False", "Unknown"]),
            "type": text("What the answer is about.", maxLength=316, pattern=CONDITION_TYPE),
        },
        required=["lastTransitionTime", "status", "type"],
    )
    conditions: Schema = {
        "description": "How far the claim has come; Ready sums up Launched, Registered and Initialized.",
        "type": "array",
        "items": condition,
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
    }
    return structure(
        "What has become of the claim.",
        {
            "allocatable": quantities("What the Node has to give to pods."),
            "capacity": quantities("What the Node has in all."),
            "conditions": conditions,
            "imageID": text("The image the machine runs."),
            "lastPodEventTime": time("When a pod last came to the Node or left it."),
            "nodeName": text("The Node that the machine became."),
            "providerID": text("The cloud's name for the machine, as the Node states it."),
        },
    )


def main() -> int:
    """Write every definition as YAML into the directory named on the command line."""
    import yaml  # the build needs it; the running program does not

    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m provisioner.api.crd DIRECTORY\n")
        return 2
    for name, crd in all_crds().items():
        body = yaml.safe_dump(crd, sort_keys=False, width=1000, allow_unicode=True)
        Path(sys.argv[1], name).write_text(HEAD + body, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
