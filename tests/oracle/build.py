"""Builds Karpenter's scheduler and disruption as a program that answers scenarios, once for each of its versions.

python -m tests.oracle.build        build it unless it exists
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from tests import gotool

SOURCE = Path(__file__).parent / "karpenter"
SOURCES = ("go.mod", "go.sum", "main.go", "disrupt.go")
NO_GO = "no Karpenter to compare with: install Go 1.26 or newer; it is built once, in minutes"


def build(env: Mapping[str, str] = os.environ) -> Path:
    """The program, built if it does not exist yet. Raises gotool.MissingError."""
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in SOURCES))
    program = gotool.cache_root(env) / "oracle" / digest.hexdigest()[:8] / "karpenter"
    if os.access(program, os.X_OK):
        return program
    return gotool.build_program(program, ".", folder=SOURCE, missing=NO_GO)


if __name__ == "__main__":
    gotool.main("Karpenter", build)
