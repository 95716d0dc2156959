"""NVSentinel as tests need it: the CRDs of its requests, with the fields that are read here.

Source: docs/references/kubernetes.md#nvsentinel.
"""

from typing import Any

Json = dict[str, Any]

GROUP, VERSION = "janitor.dgxc.nvidia.com", "v1alpha1"
TERMINATE_NODES, REBOOT_NODES = f"terminatenodes.{GROUP}", f"rebootnodes.{GROUP}"


def crds() -> tuple[Json, ...]:
    """TerminateNode and RebootNode, which are cluster-scoped."""
    return tuple(_crd(kind) for kind in ("TerminateNode", "RebootNode"))


def _crd(kind: str) -> Json:
    plural = f"{kind.lower()}s"
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_object, "status": open_object}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def request(node: str, *, kind: str = "TerminateNode", name: str = "") -> Json:
    """The object that NVSentinel creates for a Node after its drain."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name or f"maintenance-{node or 'none'}"},
        "spec": {"nodeName": node, "force": False},
    }
