"""Schemas that the CRDs of NodeClaim, NodePool and AgentPoolNodeClass share.

Source: docs/references/karpenter.md#nodeclaim-api, docs/references/karpenter.md#nodepool.
"""

from typing import Any

from .schema import Schema, atomic_list, rules, structure, text, time

QUALIFIED_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
CONDITION_REASON_OR_EMPTY = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"
# The name of a DRA driver is a DNS subdomain.
DRIVER = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
DURATION = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"

# Rules of Karpenter on the keys of requirements.
OWN_DOMAIN_RESTRICTED = (
    'self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"]'
    ' || !self.find("^([^/]+)").endsWith("karpenter.sh")',
    'label domain "karpenter.sh" is restricted',
)
NODEPOOL_RESTRICTED = ('self != "karpenter.sh/nodepool"', 'label "karpenter.sh/nodepool" is restricted')
HOSTNAME_RESTRICTED = ('self != "kubernetes.io/hostname"', 'label "kubernetes.io/hostname" is restricted')


def node_class_ref() -> Schema:
    """A reference to a node class."""

    def part(name: str, description: str, **more: Any) -> Schema:
        return text(description, **more) | rules(("self != ''", f"{name} may not be empty"))

    return structure(
        "A reference to the node class.",
        {
            "group": part("group", "The API group of the node class, without a version.", pattern="^[^/]*$"),
            "kind": part("kind", "The kind of the node class."),
            "name": part("name", "The name of the node class."),
        },
        required=["group", "kind", "name"],
    )


def requirements(*key_rules: tuple[str, str]) -> Schema:
    """Requirements on labels, whose keys obey these rules."""
    values: Schema = {
        "description": "The values of the operator, in order of preference.",
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 1000,
        # Limits of a string on a list, which no API server enforces; kept as in Karpenter's CRD.
        "maxLength": 63,
        "pattern": LABEL_VALUE,
        "x-kubernetes-list-type": "atomic",
    }
    requirement = structure(
        "A requirement on one label of the Node.",
        {
            "key": text("The key of the label.", maxLength=316, pattern=QUALIFIED_KEY) | rules(*key_rules),
            "minValues": {
                "description": "The minimum number of different values to choose from (alpha).",
                "type": "integer",
                "minimum": 1,
                "maximum": 50,
            },
            "operator": text(
                "The relation of the label's value to the given values.",
                enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"],
            ),
            "values": values,
        },
        required=["key", "operator"],
    )
    return atomic_list("Requirements on the Node's labels; all must be satisfied.", requirement, maxItems=100) | rules(
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


def taints(description: str) -> Schema:
    """A list of taints."""
    taint = structure(
        "A taint, which has an effect on pods that do not tolerate it.",
        {
            "effect": text("The effect on these pods.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "key": text("The taint's key.", minLength=1, pattern=QUALIFIED_KEY),
            "timeAdded": time("When the taint was added."),
            "value": text("The taint's value.", pattern=QUALIFIED_KEY),
        },
        required=["effect", "key"],
    )
    return atomic_list(description, taint, maxItems=100)


def template_fields() -> Schema:
    """The fields that the specs of a NodeClaim and of the template of a NodePool share, except for two."""
    return {
        "expireAfter": text(
            "The maximum lifetime of the machine, or Never.", default="720h", pattern=DURATION_OR_NEVER
        ),
        "startupTaints": taints(
            "Taints of the new Node that another component, usually a DaemonSet, removes; "
            "the claim is not initialized before."
        ),
        "taints": taints("Taints of the Node."),
        "terminationGracePeriod": text(
            "The maximum duration of a drain, after which pods are deleted regardless of PodDisruptionBudgets; "
            "without it a drain has no limit.",
            pattern=DURATION,
        ),
    }


def conditions(kind: str, description: str, *, complete: bool = True) -> Schema:
    """The conditions of an object of that kind. `complete`: each has a reason and a message."""
    condition = structure(
        f"A condition of the {kind}.",
        {
            "lastTransitionTime": time("When the status last changed."),
            "message": text("The cause, since when, and the remedy.", maxLength=32768),
            "observedGeneration": {
                "description": f"The generation of the {kind} that was observed.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "reason": text("The cause in one word.", maxLength=1024, pattern=CONDITION_REASON_OR_EMPTY)
            | ({"minLength": 1, "pattern": CONDITION_REASON} if complete else {}),
            "status": text("The status of the condition.", enum=["True", "False", "Unknown"]),
            "type": text("The type of the condition.", maxLength=316, pattern=CONDITION_TYPE),
        },
        required=["lastTransitionTime", *(("message", "reason") if complete else ()), "status", "type"],
    )
    return {
        "description": description,
        "type": "array",
        "items": condition,
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
    }
