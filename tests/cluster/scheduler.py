"""The real kube-scheduler beside a control plane.

Only tests that need it run it: it binds every pending pod of the shared control plane.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.ports import free_port

from .controlplane import ControlPlane
from .processes import Program, answers


@asynccontextmanager
async def kube_scheduler(plane: ControlPlane) -> AsyncIterator[Program]:
    """Run it, with its default configuration, until the context ends."""
    port = free_port()
    command = [
        str(plane.assets / "kube-scheduler"),
        f"--kubeconfig={plane.kubeconfig(plane.workdir / 'scheduler.kubeconfig')}",
        f"--secure-port={port}",
        f"--cert-dir={plane.workdir / 'scheduler'}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--authentication-skip-lookup=true",
    ]
    program = Program("kube-scheduler", command, plane.workdir / "kube-scheduler.log")
    program.start()
    try:
        await program.ready(lambda: _is_ready(port))
        yield program
    finally:
        program.stop()


def _is_ready(port: int) -> bool:
    unknown = ssl.create_default_context()
    unknown.check_hostname, unknown.verify_mode = False, ssl.CERT_NONE
    return answers(port, "/healthz", trust=unknown)
