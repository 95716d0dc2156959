"""Builds Karpenter's scheduler as a program that answers scenarios, once for each content of its sources.

python -m tests.oracle.build        build it unless it exists
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parent / "karpenter"
USAGE = 2


class MissingError(Exception):
    """There is no program and none can be built; the message has the remedy in one line."""


def build(env: Mapping[str, str] = os.environ) -> Path:
    """The program, built if it does not exist yet. Raises MissingError."""
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    root = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = root / "gpu-provisioner" / "oracle" / digest.hexdigest()[:8] / "karpenter-scheduler"
    if os.access(program, os.X_OK):
        return program
    if shutil.which("go") is None:
        raise MissingError("no scheduler to compare with: install Go 1.26 or newer; it is built once, in minutes")
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_suffix(".new")
    command = ("go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made), ".")
    if subprocess.run(command, cwd=SOURCE, check=False).returncode:
        raise MissingError("go build of Karpenter's scheduler failed; see above")
    made.rename(program)
    return program


if __name__ == "__main__":
    try:
        print(f"scheduler: {build()}")
    except MissingError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(USAGE)
