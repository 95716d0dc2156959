"""A CRD with one field for each feature of a schema that NodeClaim's CRD does not use."""

from typing import Any

Json = dict[str, Any]

_PART: Json = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": {
            "type": "string",
            "maxLength": 30,
            "x-kubernetes-validations": [
                {
                    "rule": "!self.find('^[^/]+').endsWith('.test')",
                    "messageExpression": "'not in ' + self",
                    "reason": "FieldValueForbidden",
                }
            ],
        },
        "values": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
    },
}

_SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {"rule": "!has(oldSelf.fixed) || self.fixed == oldSelf.fixed", "message": "fixed is immutable"},
        {
            "rule": "!has(self.least) || self.least <= self.size",
            "message": "least may not be above size",
            "fieldPath": ".least",
        },
    ],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "least": {"type": "integer"},
        "fixed": {"type": "string", "maxLength": 10},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
        "amount": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+Mi$"},
        "maybe": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "since": {"type": "string", "format": "date-time"},
        "deep": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-validations": [
                {"rule": "self.all(p, p.values.size() != 0)", "message": "each part needs a value"}
            ],
            "items": _PART,
        },
    },
}

_STATUS: Json = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": {"type": "string"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}

_SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": _SPEC,
        "status": _STATUS,
    },
}


def widget_crd(group: str) -> Json:
    """The CustomResourceDefinition of the kind Widget in this group."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["things"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                    "additionalPrinterColumns": [
                        {
                            "name": "Zone",
                            "type": "string",
                            "jsonPath": r".metadata.labels.topology\.kubernetes\.io/zone",
                        },
                        {
                            "name": "Ready",
                            "type": "string",
                            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                            "description": "Whether it is.",
                        },
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                    ],
                    "schema": {"openAPIV3Schema": _SCHEMA},
                }
            ],
        },
    }
