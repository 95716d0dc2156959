"""`gpu-provisioner try`: flags and exit codes.

With `--once` the exit code is 0 only if the whole story was seen; without, it serves until Ctrl-C or SIGTERM
and then ends with 0. Mistakes in flags and files are a line for the cause and one for the remedy, exit code 2, before
anything heavy is imported.

    command.py   what it prints, exit codes    session.py  a world, and the real controller in it
    claims.py    the claims of files           causes.py   what goes wrong in it
    failures.py  what can be made to fail      story.py    what happens, as lines
    guide.py     the words around the story    changes.py  what is new about an object, in words
    playing.py   from opening to verdict       script.py   the main job, played and proved
    person.py    somebody with kubectl and az  phases.py   what a claim is at
    board.py     rows.py                       what stands of each claim, and since when
    shows.py     showing.py                    the ways to show it, of which there are three:
    printing.py  terminal.py                   lines, coloured on a terminal
    live.py      layout.py                     a table on a terminal
    jsonlines.py  JSON
    piping.py    a reader who has read enough
"""

import argparse
import asyncio
from typing import TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled

from .claims import examples, read_claims, read_faults

OK, USAGE = 0, 2


def run(wanted: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these flags; returns the exit code."""
    try:
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
    plan = runner.Plan(once=wanted.once, paths=tuple(paths), claims=tuple(claims))
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
