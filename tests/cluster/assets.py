"""Finds and builds the binaries of a real control plane.

    python -m tests.cluster.assets        build them unless they exist (`make cluster-tools`)

`KUBEBUILDER_ASSETS` or `ENVTEST_BIN` names a directory with existing binaries; otherwise they are built from the module
file of `KUBE_VERSION` (a minor version, 1.34 by default) in `tools/` into a cache directory, once for each set of
module versions. A further tool of the same versions is added to an existing cache. Missing prerequisites are reported
in one line.

A release build sets the version by linker flags; without them the API server reports v0.0.0, and Helm's `kubeVersion`
and kubectl's skew check refuse it.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests import gotool
from tests.gotool import MissingError

TOOLS = Path(__file__).parent / "tools"
NAMES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
OWN = ("KUBEBUILDER_ASSETS", "ENVTEST_BIN")
DEFAULT_MINOR = "1.34"
NO_GO = (
    "no control plane to test against: install Go 1.26 or newer (it is built once, in minutes),"
    f" or set KUBEBUILDER_ASSETS to a directory with {', '.join(NAMES)}"
)


def module_file(env: Mapping[str, str]) -> Path:
    """The Go module file of the wanted minor. Raises MissingError if that minor is not pinned."""
    minor = env.get("KUBE_VERSION") or DEFAULT_MINOR
    path = TOOLS / ("go.mod" if minor == DEFAULT_MINOR else f"go-{minor}.mod")
    if not path.exists():
        pinned = [DEFAULT_MINOR, *(found.stem.removeprefix("go-") for found in sorted(TOOLS.glob("go-*.mod")))]
        raise MissingError(f"KUBE_VERSION={minor} is not pinned in {TOOLS.name}/; pinned are {', '.join(pinned)}")
    return path


def kubernetes_version(module: Path) -> str:
    """The release that a module file builds, as in v1.34.4."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", module.read_text(encoding="utf-8"))
    if found is None:
        raise MissingError(f"{module.name} names no version of k8s.io/kubernetes")
    return found[1]


def cache(module: Path, env: Mapping[str, str]) -> Path:
    """The directory for binaries of the module versions in that module file, whichever tools it lists."""
    digest = hashlib.sha256("\n".join(_versions(module)).encode()).hexdigest()[:8]
    return gotool.cache_root(env) / "cluster-tools" / f"{kubernetes_version(module)}-{digest}"


def _versions(module: Path) -> list[str]:
    """The version of each module, and the replacements, sorted. A direct and an indirect requirement are the same."""
    lines = (line.partition("//")[0].split() for line in module.read_text(encoding="utf-8").splitlines())
    return sorted(" ".join(line) for line in lines if any(word.startswith("v") and "." in word for word in line[1:]))


def missing(folder: Path) -> list[str]:
    """The binaries that are not in that directory."""
    return [name for name in NAMES if not os.access(folder / name, os.X_OK)]


def find(env: Mapping[str, str] = os.environ) -> Path:
    """The directory with all binaries. Raises MissingError if there is none yet."""
    for variable in OWN:
        if given := env.get(variable):
            folder = Path(given)
            if absent := missing(folder):
                raise MissingError(f"{variable}={given} has no {' and no '.join(absent)}")
            return folder
    folder = cache(module_file(env), env)
    if missing(folder):
        raise MissingError("no control plane to test against: run make cluster-tools")
    return folder


def named(folder: Path) -> str:
    """The Kubernetes version that these binaries report."""
    version = subprocess.run((str(folder / "kube-apiserver"), "--version"), check=True, capture_output=True, text=True)
    return version.stdout.strip()


def build(env: Mapping[str, str] = os.environ) -> Path:
    """Build what `find` does not find. Raises MissingError if it cannot be built here."""
    module = module_file(env)
    folder = cache(module, env)
    if any(env.get(variable) for variable in OWN) or not missing(folder):
        return find(env)
    version = kubernetes_version(module)
    _, minor, _ = version.split(".", 2)
    known = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    stamps = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in known.items())
    print(f"building the control plane of Kubernetes {version} into {folder}", flush=True)
    for name in missing(folder):
        flags = (f"-modfile={module.name}",)
        gotool.build_program(folder / name, NAMES[name], folder=TOOLS, missing=NO_GO, flags=flags, stamps=stamps)
    return folder


if __name__ == "__main__":
    gotool.main("control plane", build)
