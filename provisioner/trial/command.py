"""`gpu-provisioner try`: runs it with parsed flags, and gives the exit code.

With `--once`, the exit code is 0 only if the run succeeded; without, the command serves until Ctrl-C or SIGTERM and
exits with 0. Invalid flags and files are reported with a remedy before the servers and SDKs are imported, with exit
code 2.
"""

import argparse
import asyncio
from typing import TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled

from .manifests import InvalidFile, examples, pod_examples, read_claims, read_faults
from .output.select import select_renderer, stop_at_closed_pipe
from .scenarios import SCENARIOS

OK, USAGE = 0, 2


def run(wanted: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these flags; returns the exit code."""
    if refused := conflict(wanted):
        err.write(f"gpu-provisioner try: --pods: not allowed with {refused}\n    See gpu-provisioner try --help.\n")
        return USAGE
    try:
        if wanted.pods:
            paths, claims = pod_examples(), []
        else:
            paths = wanted.filename or (examples() if wanted.once and not wanted.fail else examples()[:1])
            claims = read_claims(paths)
        faults = read_faults(wanted.faults) if wanted.faults is not None else ()
    except InvalidFile as error:
        err.write(f"gpu-provisioner try: {error}\n")
        return USAGE
    from . import runner  # imports both SDKs and the servers, which takes a second
    from .session import SessionSettings, StartError

    settings = SessionSettings(
        speed=wanted.speed, fail=wanted.fail, faults=faults, kubeconfig=wanted.kubeconfig, kube_port=wanted.port
    )
    plan = runner.Plan(once=wanted.once, pods=wanted.pods, paths=tuple(paths), claims=tuple(claims))
    renderer, log_stream = select_renderer(wanted.output, stop_at_closed_pipe(out), err)
    logs.configure(SystemClock(), level="info" if wanted.verbose else "error", stream=log_stream)
    try:
        return asyncio.run(until_signalled(runner.run(settings, plan, renderer)))
    except Signalled as received:
        renderer.stopped()
        return received.exit_code if wanted.once else OK
    except StartError as error:
        err.write(f"gpu-provisioner try: {error}\n")
        return USAGE


def conflict(wanted: argparse.Namespace) -> str:
    """What `--pods` cannot be combined with, "" if all is well."""
    if not wanted.pods:
        return ""
    if wanted.filename:
        return "-f"
    endless = wanted.once and wanted.fail and not SCENARIOS[wanted.fail].recovers
    return f"--once and --fail {wanted.fail}, with which its pods never run" if endless else ""
