"""Writes the Go module file of a Kubernetes version: `python tests/cluster/tools/pin.py v1.36.3 v3.6.16 go-1.36.mod`.

Kubernetes' go.mod replaces modules by staging directories of its source tree. This module file replaces each of them by
the published module of the same release, and runs `go mod tidy`. The module files and their hashes are committed.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEAD = "// The control plane that tests run, as Go tools. Written by pin.py; built by `make cluster-tools`."
TOOLS = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
)


def staged(kubernetes: str) -> list[str]:
    """The modules in the staging directories of this Kubernetes version."""
    found = subprocess.run(
        ("go", "mod", "download", "-json", f"k8s.io/kubernetes@{kubernetes}"), check=True, capture_output=True
    )
    text = Path(json.loads(found.stdout)["GoMod"]).read_text(encoding="utf-8")
    return re.findall(r"^\s*(k8s\.io/[\w-]+) => \./staging/", text, re.MULTILINE)


def module(kubernetes: str, etcd: str) -> str:
    """A go.mod before `go mod tidy`."""
    staging = kubernetes.replace("v1.", "v0.")
    blocks = {
        "tool": TOOLS,
        "require": (f"k8s.io/kubernetes {kubernetes}", f"go.etcd.io/etcd/server/v3 {etcd}"),
        "replace": [f"{name} => {name} {staging}" for name in staged(kubernetes)],
    }
    lines = [HEAD, "module cluster-tools", "go 1.26.0"]
    for word, entries in blocks.items():
        lines += [f"{word} (", *entries, ")"]
    return "\n".join(lines) + "\n"


def main(kubernetes: str, etcd: str, file: str) -> None:
    path = HERE / file
    path.write_text(module(kubernetes, etcd), encoding="utf-8")
    subprocess.run(("go", "mod", "tidy", f"-modfile={file}"), cwd=HERE, check=True)
    subprocess.run(("go", "mod", "edit", "-fmt", file), cwd=HERE, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
