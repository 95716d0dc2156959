"""`gpu-provisioner try`: its flags, what it prints, how it ends.

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

from .claims import UnusableFile, examples, read_claims, read_faults
from .piping import piped
from .showing import show_for

OK, USAGE = 0, 2


def run(wanted: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these flags; returns the exit code."""
    try:
        # A failure is easier to follow on one claim.
        paths = wanted.filename or (examples() if wanted.once and not wanted.fail else examples()[:1])
        claims = read_claims(paths)
        plan = read_faults(wanted.faults) if wanted.faults is not None else ()
    except UnusableFile as error:
        err.write(f"gpu-provisioner try: {error}\n")
        return USAGE
    from .playing import Playbill, perform  # both SDKs and the embedded servers: a second, and not for a mistake
    from .session import CannotBegin, TrialSettings

    settings = TrialSettings(
        speed=wanted.speed, fail=wanted.fail, faults=plan, kubeconfig=wanted.kubeconfig, kube_port=wanted.port
    )
    playbill = Playbill(once=wanted.once, paths=tuple(paths), claims=tuple(claims))
    show, log_stream = show_for(wanted.output, piped(out), err)
    logs.configure(SystemClock(), level="info" if wanted.verbose else "error", stream=log_stream)
    try:
        return asyncio.run(until_signalled(perform(settings, playbill, show)))
    except Signalled as asked:
        show.stopped()
        return asked.exit_code if wanted.once else OK
    except CannotBegin as error:
        err.write(f"gpu-provisioner try: {error}\n")
        return USAGE
