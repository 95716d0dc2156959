"""CustomResourceDefinitions of other projects, as tests install them: schemas of this project, or the project's own."""

import os
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def crd(group: str, version: str, kind: str, properties: Json, *, namespaced: bool = False) -> Json:
    """The definition of one kind with a status subresource. `properties`: the schemas of its spec and status."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }


def given(variable: str) -> tuple[Json, ...]:
    """The definitions in the folder that this environment variable names; none if it is not set."""
    folder = os.environ.get(variable)
    if not folder:
        return ()
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.yaml")))
