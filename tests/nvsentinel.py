"""NVSentinel as tests need it: the CRDs of its requests, with what its own schemas require.

With NVSENTINEL_CRDS=<folder> of its own CRDs of the group `janitor.dgxc.nvidia.com`, these are installed instead.

Source: docs/references/kubernetes.md#nvsentinel.
"""

from typing import Any

from tests.custom_resources import crd, given

Json = dict[str, Any]

GROUP, VERSION = "janitor.dgxc.nvidia.com", "v1alpha1"
# What NVSentinel's schemas require of a condition: https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Condition.
_CONDITION: Json = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}
_SCHEMAS: Json = {
    "spec": {
        "type": "object",
        "required": ["force", "nodeName"],
        "properties": {"force": {"type": "boolean", "default": False}, "nodeName": {"type": "string"}},
    },
    "status": {"type": "object", "properties": {"conditions": {"type": "array", "items": _CONDITION}}},
}
TERMINATE_NODES, REBOOT_NODES = f"terminatenodes.{GROUP}", f"rebootnodes.{GROUP}"


def crds() -> tuple[Json, ...]:
    """TerminateNode and RebootNode, which are cluster-scoped."""
    own = (crd(GROUP, VERSION, kind, _SCHEMAS) for kind in ("TerminateNode", "RebootNode"))
    return given("NVSENTINEL_CRDS") or tuple(own)


def request(node: str, *, kind: str = "TerminateNode", name: str = "") -> Json:
    """The object that NVSentinel creates for a Node after its drain."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name or f"maintenance-{node or 'none'}"},
        "spec": {"nodeName": node, "force": False},
    }
