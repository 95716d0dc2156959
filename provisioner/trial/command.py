"""`gpu-provisioner try`: its flags, what it prints, how it ends.

With `--once` the exit code is 0 only if the whole story was seen; without, it serves until Ctrl-C or SIGTERM
and then ends with 0. Mistakes in flags and files are a line for the cause and one for the remedy, exit code 2, before
anything heavy is imported.

    command.py   flags and exit codes          session.py  a world, and the real controller in it
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
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled

from .claims import UnusableFile, examples, read_claims, read_faults
from .failures import FAILURES
from .jsonlines import documented
from .piping import piped
from .showing import OUTPUTS, show_for

OK, USAGE = 0, 2
SPEED = 60.0


def run(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these arguments; returns the exit code."""
    try:
        wanted = parser_of_try().parse_args(arguments)
    except SystemExit as ended:
        return USAGE if ended.code else OK
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


def parser_of_try() -> argparse.ArgumentParser:
    """What reads the words after `try`."""
    parser = argparse.ArgumentParser(
        prog="gpu-provisioner try",
        description="The real controller against an embedded Kubernetes API server and an embedded Azure.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="play the whole life of the claims once and exit")
    parser.add_argument("--speed", type=_speed, default=SPEED, help="how much faster Azure's time passes (%(default)g)")
    wrong = parser.add_mutually_exclusive_group()
    wrong.add_argument("--fail", choices=sorted(FAILURES), default="", help="let something go wrong")
    wrong.add_argument("--faults", type=Path, metavar="FILE", help="let Azure do wrong what this fault plan says")
    parser.add_argument("-f", "--filename", action="append", type=Path, help="NodeClaims in YAML (default: examples)")
    default = Path(tempfile.gettempdir()) / "gpu-provisioner-try.kubeconfig"
    parser.add_argument("--kubeconfig", type=Path, default=default, help="where to write it (%(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="the API server's port on loopback (any free one)")
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, help="how it is shown (a live table on a terminal, lines elsewhere)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the controller's log as well, on stderr")
    return parser


def _epilog() -> str:
    failures = [f"  {name:<10}{failure.told}" for name, failure in FAILURES.items()]
    kinds = [f"  {kind}" for kind in documented()]
    json_lines = ["-o json prints an object a line; its kind, and the other fields of each kind:", *kinds]
    return "\n".join(["what can be made to fail:", *failures, "", *json_lines])


def _speed(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1 <= (value := float(text.removesuffix("x"))) <= 1000:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no speed: use 1 (real time) to 1000")


def _port(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= (value := int(text)) <= 65535:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no port: use 1 to 65535, or 0 for any free one")
