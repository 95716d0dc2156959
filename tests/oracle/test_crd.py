"""The NodePool CRD, compared with that of the Go module of Karpenter that the oracle is built with."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.api.crd_nodepool import nodepool_crd

from .build import SOURCE

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="session")
def karpenters() -> dict[str, Any]:
    if shutil.which("go") is None and not os.environ.get("REQUIRE_GO"):
        pytest.skip("install Go 1.26 or newer: the CRD is a file of a Go module")
    # `go list` names no folder of a module that is not in the module cache yet.
    command = ("go", "mod", "download", "-json", "sigs.k8s.io/karpenter")
    found = subprocess.run(command, cwd=SOURCE, check=True, capture_output=True, text=True)
    crd = Path(json.loads(found.stdout)["Dir"], "pkg", "apis", "crds", "karpenter.sh_nodepools.yaml")
    read: dict[str, Any] = yaml.safe_load(crd.read_text(encoding="utf-8"))
    return read


def test_the_nodepool_crd_is_karpenters(karpenters: dict[str, Any]) -> None:
    """Except for descriptions, bounds of the number of items, and a default that depends on the machine."""
    spec = "versions.v1.schema.openAPIV3Schema.properties.spec.properties."
    template = f"{spec}template.properties.spec.properties."
    policy = f"{spec}disruption.properties.consolidationPolicy"
    assert sorted(_differences(nodepool_crd()["spec"], karpenters["spec"])) == [
        f"{policy}.default: absent here, WhenEmptyOrUnderutilized there",
        f"{template}requirements.items.properties.values.maxItems: 1000 here, absent there",
        f"{template}startupTaints.maxItems: 100 here, absent there",
        f"{template}taints.maxItems: 100 here, absent there",
    ]


def _differences(ours: Any, theirs: Any, path: str = "", *, names: bool = False) -> Iterator[str]:
    """`names`: the keys of the mapping are names of fields, not keywords."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            below = f"{path}.{key}".lstrip(".")
            if key == "description" and not names:
                continue
            if key not in theirs or key not in ours:
                yield f"{below}: {ours.get(key, 'absent')} here, {theirs.get(key, 'absent')} there"
            else:
                yield from _differences(ours[key], theirs[key], below, names=key == "properties")
    elif _keyed(ours) and _keyed(theirs):
        yield from _differences(_keyed(ours), _keyed(theirs), path)
    elif ours != theirs:
        yield f"{path}: {ours} here, {theirs} there"


def _keyed(found: Any) -> Any:
    """Lists whose order has no meaning: versions, CEL rules and enumerations. None for others."""
    if not isinstance(found, list) or not found:
        return None
    if all(isinstance(one, dict) and "rule" in one for one in found):
        return {one["rule"]: one["message"] for one in found}
    if all(isinstance(one, dict) and "schema" in one for one in found):
        return {"v1": found[0]} if len(found) == 1 else None
    return dict.fromkeys(found, True) if all(isinstance(one, str) for one in found) else None
