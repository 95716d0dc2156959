"""Building blocks of a CustomResourceDefinition, as plain dictionaries.

Every block is a structural schema as Kubernetes demands it (a type everywhere, a description for
`kubectl explain`), and built anew on each call, so that nothing is shared between two places of one document.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/.
"""

from typing import Any

Schema = dict[str, Any]

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def definition(*, group: str, names: Schema, version: str, columns: list[Schema], schema: Schema) -> Schema:
    """A whole definition: cluster-scoped, with one version and a status subresource, and never removed by Helm."""
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{group}",
            # Removing the definition would remove every claim, and with the claims every machine.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": "Cluster",
            "versions": [served | ({"additionalPrinterColumns": columns} if columns else {})],
        },
    }


def column(name: str, path: str, *, kind: str = "string", priority: int = 0) -> Schema:
    """A column of `kubectl get`; those of priority 1 appear with `-o wide` only."""
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})


def type_meta() -> Schema:
    """What every object has; the API server itself validates it."""
    return {
        "apiVersion": text("The version of the schema that this object is written in."),
        "kind": text("The kind of this object."),
        "metadata": {"type": "object"},
    }


def structure(description: str, properties: Schema | None = None, *, required: list[str] | None = None) -> Schema:
    """An object with these properties."""
    schema: Schema = {"description": description, "type": "object"}
    return schema | ({"properties": properties} if properties else {}) | ({"required": required} if required else {})


def atomic_list(description: str, items: Schema, **more: Any) -> Schema:
    """A list that is always replaced whole."""
    return {"description": description, "type": "array", "items": items, "x-kubernetes-list-type": "atomic"} | more


def text(description: str, **more: Any) -> Schema:
    """A string; further keywords are its limits."""
    return {"description": description, "type": "string"} | more


def time(description: str) -> Schema:
    """A time as RFC 3339 writes it."""
    return text(description, format="date-time")


def quantities(description: str) -> Schema:
    """A map from resource names to quantities."""
    amount = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
    return {"description": description, "type": "object", "additionalProperties": amount}


def rules(*pairs: tuple[str, str]) -> Schema:
    """CEL rules, each a pair of the rule and the message that its breach shows."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
