"""A GPU node with the kubelet's own device manager and a device plugin, each a process of its own.

    python -m tests.cluster.gpunode       build both unless they exist (part of `make cluster-tools`)

The device manager serves a socket at a fixed path below /var/lib/kubelet, so each node has a mount namespace of its own
with an empty /var/lib. Users other than root get a user namespace as well.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager, tests/cluster/tools/gpunode.
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests import gotool
from tests.gotool import MissingError

from . import assets

Json = dict[str, Any]
SOURCE = assets.TOOLS / "gpunode"
NO_GO = "no device manager to test with: install Go 1.26 or newer; it is built once, in a minute"
RESOURCE = "nvidia.com/gpu"
GPUS = 8
MOUNT = "mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/kubelet/device-plugins && echo ready && exec cat"
STOP_SECONDS = 60.0


def build(env: Mapping[str, str] = os.environ) -> Path:
    """The program, built if it does not exist yet. Raises gotool.MissingError."""
    sources = [assets.TOOLS / "go.mod", assets.TOOLS / "go.sum", *sorted(SOURCE.glob("*.go"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    program = gotool.cache_root(env) / "gpunode" / digest.hexdigest()[:8] / "gpunode"
    if os.access(program, os.X_OK):
        return program
    return gotool.build_program(program, "./gpunode", folder=assets.TOOLS, missing=NO_GO)


class Values(NamedTuple):
    """What the device manager has of the resource, since `at` (seconds of the epoch)."""

    at: float
    capacity: int
    allocatable: int


class GpuNode:
    """The processes of one Node; a context manager. `sync_seconds`: between two updates of the Node's status."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path, node: str, *, sync_seconds: float) -> None:
        self.name = node
        self._program = str(program)
        self._folder = folder
        self._kubelet = ("kubelet", str(kubeconfig), node, str(sync_seconds))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        self._namespace = subprocess.Popen(
            ("unshare", "--mount", *user, "sh", "-c", MOUNT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._namespace.stdout is not None
        if self._namespace.stdout.readline() != b"ready\n":
            _, errors = self._namespace.communicate()
            raise MissingError(f"no device manager to test with: no mount namespace here: {errors.decode().strip()}")

    def __enter__(self) -> "GpuNode":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.kill(name)
        self._namespace.communicate(timeout=STOP_SECONDS)

    # Processes

    def start(self, name: str) -> None:
        """Start "kubelet" or "plugin"."""
        words = self._kubelet if name == "kubelet" else (name, RESOURCE, str(GPUS))
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        enter = ("nsenter", f"--target={self._namespace.pid}", "--mount", *user)
        self._starts += 1
        with self._log(name).open("wb") as out, self._folder.joinpath(f"{name}.err").open("ab") as errors:
            self._running[name] = subprocess.Popen(
                (*enter, self._program, *words), stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

    def kill(self, name: str) -> None:
        """Send SIGKILL."""
        process = self._running.pop(name)
        process.kill()
        process.communicate(timeout=STOP_SECONDS)

    def fail(self, device: int) -> None:
        """The plugin reports a device as unhealthy."""
        self._say("plugin", f"unhealthy gpu-{device}")

    def allocate(self, pod: str, count: int) -> tuple[str, str]:
        """The device manager admits a pod; (reason, message), both "" if it does."""
        self._say("kubelet", f"allocate {pod} {RESOURCE} {count}")
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            for line in self._lines():
                if line.get("pod") == pod:
                    return line["reason"], line["message"]
            time.sleep(0.01)
        raise AssertionError(f"no answer to allocate {pod}: {self.errors()}")

    def _say(self, name: str, line: str) -> None:
        pipe = self._running[name].stdin
        assert pipe is not None
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    # State

    @property
    def values(self) -> Values | None:
        """What the device manager has now; None before the plugin has registered."""
        found = [line for line in self._lines() if "at" in line]
        return Values(found[-1]["at"], found[-1]["capacity"], found[-1]["allocatable"]) if found else None

    def errors(self) -> str:
        """The end of what the processes wrote to stderr."""
        found = (path.read_text(errors="replace").splitlines()[-5:] for path in self._folder.glob("*.err"))
        return "\n".join(line for lines in found for line in lines)

    def _lines(self) -> list[Json]:
        text = self._log("kubelet").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.out"


if __name__ == "__main__":
    gotool.main("device manager", build)
