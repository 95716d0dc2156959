"""The CustomResourceDefinition of NodePool (`karpenter.sh/v1`).

The schema has the fields, patterns, enums, defaults, list types, columns, subresources and CEL rules of Karpenter
v1.14.1, and bounds the number of taints besides. Only `consolidationPolicy` has no default: where it is missing, it
depends on whether a machine has GPUs.

Source: docs/references/karpenter.md#nodepool.
"""

from typing import Any

from .causes import REASONS
from .crd_parts import (
    DURATION_OR_NEVER,
    HOSTNAME_RESTRICTED,
    LABEL_VALUE,
    NODEPOOL_RESTRICTED,
    OWN_DOMAIN_RESTRICTED,
    conditions,
    node_class_ref,
    requirements,
    template_fields,
)
from .schema import Schema, column, definition, quantities, rules, structure, text, type_meta

BUDGET_SCHEDULE = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
BUDGET_DURATION = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"


def nodepool_crd() -> Schema:
    """The CRD of NodePool."""
    return definition(
        group="karpenter.sh",
        names={
            "categories": ["karpenter"],
            "kind": "NodePool",
            "listKind": "NodePoolList",
            "plural": "nodepools",
            "singular": "nodepool",
        },
        version="v1",
        columns=[
            column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            column("Nodes", ".status.nodes"),
            column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            column("Age", ".metadata.creationTimestamp", kind="date"),
            column("Weight", ".spec.weight", kind="integer", priority=1),
            column("CPU", ".status.resources.cpu", priority=1),
            column("Memory", ".status.resources.memory", priority=1),
        ],
        schema=structure(
            "What NodeClaims may be created for pending pods, and how many.",
            {**type_meta(), "spec": _spec(), "status": _status()},
            required=["spec"],
        ),
        scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    )


def _spec() -> Schema:
    return structure(
        "The template of the NodeClaims, and the limits of the NodePool.",
        {
            "disruption": _disruption(),
            "limits": quantities("The maximum resources of all machines of the NodePool; nodes counts machines."),
            "replicas": {
                "description": "The number of machines of a static NodePool, which pods do not change (alpha).",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "template": structure(
                "The template of the NodeClaims.",
                {"metadata": _template_metadata(), "spec": _template_spec()},
                required=["spec"],
            ),
            "weight": {
                "description": "The order of NodePools: those of a greater weight are tried first; none means 0.",
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": 100,
            },
        },
        required=["template"],
    ) | rules(
        (
            "has(self.replicas) == has(oldSelf.replicas)",
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        ),
        (
            "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0"
            " || (size(self.limits) == 1 && 'nodes' in self.limits))",
            "only 'limits.nodes' is supported on static NodePools",
        ),
        ("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
    )


def _template_metadata() -> Schema:
    values: Schema = {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE}
    keys = rules(
        (
            'self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"]'
            ' || !x.find("^([^/]+)").endsWith("karpenter.sh"))',
            'label domain "karpenter.sh" is restricted',
        ),
        ('self.all(x, x != "karpenter.sh/nodepool")', 'label "karpenter.sh/nodepool" is restricted'),
        ('self.all(x, x != "kubernetes.io/hostname")', 'label "kubernetes.io/hostname" is restricted'),
    )
    return structure(
        "Labels and annotations of the NodeClaims.",
        {
            "annotations": _map("Annotations of the NodeClaims.", {"type": "string"}, kind="granular"),
            "labels": _map("Labels of the NodeClaims and their Nodes.", values, kind="atomic", maxProperties=100)
            | keys,
        },
    )


def _map(description: str, values: Schema, *, kind: str, **more: Any) -> Schema:
    found: Schema = {"description": description, "type": "object", "additionalProperties": values}
    return found | {"x-kubernetes-map-type": kind} | more


def _template_spec() -> Schema:
    reference = node_class_ref() | rules(
        ("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
        ("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
    )
    fields = template_fields() | {
        "nodeClassRef": reference,
        "requirements": requirements(OWN_DOMAIN_RESTRICTED, NODEPOOL_RESTRICTED, HOSTNAME_RESTRICTED),
    }
    return structure(
        "The specs of the NodeClaims; pods add further requirements.",
        dict(sorted(fields.items())),
        required=["nodeClassRef", "requirements"],
    )


def _disruption() -> Schema:
    reasons: Schema = {
        "description": "The reasons that this budget limits; none means all.",
        "type": "array",
        "items": text("A reason of a disruption.", enum=[*REASONS]),
        "maxItems": 50,
        "x-kubernetes-list-type": "set",
    }
    budget = structure(
        "A limit on simultaneous disruptions.",
        {
            "duration": text("How long the budget is active after each time of its schedule.", pattern=BUDGET_DURATION),
            "nodes": text(
                "The maximum number or percentage of machines that are disrupted at once.",
                default="10%",
                pattern="^((100|[0-9]{1,2})%|[0-9]+)$",
            ),
            "reasons": reasons,
            "schedule": text(
                "When the budget becomes active, in the syntax of cron, in UTC; none means always.",
                pattern=BUDGET_SCHEDULE,
            ),
        },
        required=["nodes"],
    )
    budgets: Schema = {
        "description": "Limits on simultaneous disruptions; the least active one applies.",
        "type": "array",
        "default": [{"nodes": "10%"}],
        "items": budget,
        "maxItems": 50,
        "x-kubernetes-list-type": "atomic",
    }
    budgets |= rules(
        ("self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'"),
    )
    return structure(
        "When machines of the NodePool may be replaced or removed.",
        {
            "budgets": budgets,
            "consolidateAfter": text(
                "How long a machine must be underutilized before it is removed, or Never.", pattern=DURATION_OR_NEVER
            ),
            "consolidationPolicy": text(
                "Which machines consolidation may remove. Without it, machines with GPUs only when they are empty"
                " (WhenEmpty), others also when that saves money (WhenEmptyOrUnderutilized).",
                enum=["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
            ),
        },
        required=["consolidateAfter"],
    ) | {"default": {"consolidateAfter": "0s"}}


def _status() -> Schema:
    return structure(
        "The observed state of the NodePool.",
        {
            "conditions": conditions(
                "NodePool", "Conditions of the NodePool; Ready summarizes ValidationSucceeded and NodeClassReady."
            ),
            "nodeClassObservedGeneration": {
                "description": "The generation of the node class that NodeRegistrationHealthy refers to.",
                "type": "integer",
                "format": "int64",
            },
            "nodes": {
                "description": "The number of machines of the NodePool.",
                "type": "integer",
                "format": "int64",
                "default": 0,
            },
            "resources": quantities("The resources of all machines of the NodePool."),
        },
    )
