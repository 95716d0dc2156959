"""Building blocks of a CustomResourceDefinition, as plain dictionaries.

Every block is a structural schema with a description for `kubectl explain`. Each call returns a new dictionary, so that
nothing is shared within a document.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/.
"""

from typing import Any

Schema = dict[str, Any]

# Deleting a CRD would delete every object of its kind; of claims, with their machines.
KEPT = {"helm.sh/resource-policy": "keep"}


def definition(*, group: str, names: Schema, version: str, columns: list[Schema], schema: Schema) -> Schema:
    """A CRD: cluster-scoped, with one version and a status subresource, and kept by `helm uninstall`."""
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
            "annotations": {**KEPT},
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
    """The fields that every object has; the API server validates them."""
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
    """A list that is replaced as a whole."""
    return {"description": description, "type": "array", "items": items, "x-kubernetes-list-type": "atomic"} | more


def text(description: str, **more: Any) -> Schema:
    """A string; further keywords are its limits."""
    return {"description": description, "type": "string"} | more


def time(description: str) -> Schema:
    """A time in RFC 3339 format."""
    return text(description, format="date-time")


def rules(*pairs: tuple[str, str]) -> Schema:
    """CEL rules, each a pair of the rule and the message of its violation."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
