"""Karpenter's CRDs in `provisioner/api/karpenter` are those of the Go module that the oracle is built with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from provisioner.api.crd import KARPENTER

from .build import SOURCE

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="session")
def module() -> Path:
    """The folder of Karpenter's module."""
    if shutil.which("go") is None and not os.environ.get("REQUIRE_GO"):
        pytest.skip("install Go 1.26 or newer: the CRDs are files of a Go module")
    # `go list` names no folder of a module that is not in the module cache yet.
    command = ("go", "mod", "download", "-json", "sigs.k8s.io/karpenter")
    found = subprocess.run(command, cwd=SOURCE, check=True, capture_output=True, text=True)
    return Path(json.loads(found.stdout)["Dir"])


@pytest.mark.parametrize("path", sorted(KARPENTER.iterdir()), ids=lambda path: path.name)
def test_the_file_is_karpenters(module: Path, path: Path) -> None:
    """Unchanged, with its licence and its notice."""
    folder = module / "pkg/apis/crds" if path.suffix == ".yaml" else module
    assert path.read_bytes() == (folder / path.name).read_bytes()
