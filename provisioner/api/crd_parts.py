"""Patterns of Kubernetes and Karpenter, and the conditions of an object, for the CRD of AgentPoolNodeClass.

Source: docs/references/karpenter.md#nodepool.
"""

from .schema import Schema, structure, text, time

QUALIFIED_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
# The name of a DRA driver is a DNS subdomain.
DRIVER = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"


def conditions(kind: str, description: str) -> Schema:
    """The conditions of an object of that kind."""
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
            "reason": text("The cause in one word.", maxLength=1024, pattern=CONDITION_REASON, minLength=1),
            "status": text("The status of the condition.", enum=["True", "False", "Unknown"]),
            "type": text("The type of the condition.", maxLength=316, pattern=CONDITION_TYPE),
        },
        required=["lastTransitionTime", "message", "reason", "status", "type"],
    )
    return {
        "description": description,
        "type": "array",
        "items": condition,
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
    }
