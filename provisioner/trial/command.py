"""`gpu-provisioner try`: its flags, what it prints, how it ends.

Promise: with `--once` the exit code is 0 only if the whole story was seen; without, it serves until Ctrl-C or SIGTERM
and then ends with 0. Mistakes in flags and files are a line for the cause and one for the remedy, exit code 2; nothing
is written but the kubeconfig, and that goes at the end.
Left to others: the world (`session.py`), the story (`story.py`), the script (`script.py`), the words (`guide.py`).
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
from provisioner.runtime.signals import until_signalled
from provisioner.simulator.invariants import InvariantError

from .changes import Json
from .claims import UnusableFile, examples, read_claims
from .failures import FAILURES
from .guide import announcement, commands, opening, verdict
from .printing import Printer
from .script import play
from .session import CannotBegin, Trial, TrialSettings, trial
from .story import CONTROLLER, Story

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
SPEED = 60.0
# For each wait of `--once`: the controller's own pace, and what Azure takes at most.
OWN_PATIENCE_SECONDS, AZURE_PATIENCE_SECONDS = 60.0, 1800.0


def run(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these arguments; returns the exit code."""
    try:
        wanted = _parser().parse_args(arguments)
    except SystemExit as ended:
        return USAGE if ended.code else OK
    printer = Printer(out)
    try:
        # A failure is easier to follow on one claim.
        paths = wanted.filename or (examples() if wanted.once and not wanted.fail else examples()[:1])
        claims = read_claims(paths)
        logs.configure(SystemClock(), level="info" if wanted.verbose else "error", stream=err)
        code = asyncio.run(until_signalled(_run(wanted, paths, claims, printer)))
    except (UnusableFile, CannotBegin) as error:
        err.write(f"gpu-provisioner try: {error}\n")
        return USAGE
    except InvariantError as error:
        printer.verdict(f"\nA promise was broken:\n{error}", good=False)
        return FAILED
    if code is None:
        printer.prose("\nstopped; nothing is left running")
        return INTERRUPTED if wanted.once else OK
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-provisioner try",
        description="The real controller against an embedded Kubernetes API server and an embedded Azure.",
        epilog="; ".join(f"{name}: {failure.told}" for name, failure in FAILURES.items()),
    )
    parser.add_argument("--once", action="store_true", help="play the whole life of the claims once and exit")
    parser.add_argument("--speed", type=_speed, default=SPEED, help="how much faster Azure's time passes (%(default)g)")
    parser.add_argument("--fail", choices=sorted(FAILURES), default="", help="let something go wrong")
    parser.add_argument("-f", "--filename", action="append", type=Path, help="NodeClaims in YAML (default: examples)")
    default = Path(tempfile.gettempdir()) / "gpu-provisioner-try.kubeconfig"
    parser.add_argument("--kubeconfig", type=Path, default=default, help="where to write it (%(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="the API server's port on loopback (any free one)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the controller's log as well, on stderr")
    return parser


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


async def _run(wanted: argparse.Namespace, paths: Sequence[Path], claims: Sequence[Json], printer: Printer) -> int:
    loop = asyncio.get_running_loop()
    settings = TrialSettings(speed=wanted.speed, fail=wanted.fail, kubeconfig=wanted.kubeconfig, kube_port=wanted.port)
    async with trial(settings) as running:
        story = Story(running.world, loop.time, printer.line)
        printer.prose(opening(wanted.speed) + "\n", "bold")
        if running.failure is not None:
            printer.prose(announcement(running.failure) + "\n")
        if wanted.once:
            return await _once(running, story, claims, printer)
        names = [claim["metadata"]["name"] for claim in claims]
        printer.verbatim(commands(wanted.kubeconfig, paths, names, running.failure) + "\n")
        await loop.create_future()  # until somebody ends it
        return OK


async def _once(running: Trial, story: Story, claims: Sequence[Json], printer: Printer) -> int:
    patience = OWN_PATIENCE_SECONDS + AZURE_PATIENCE_SECONDS / running.settings.speed
    missing = await play(running, story, claims, patience_seconds=patience)
    if missing:
        printer.verdict("\nIt did not go as it should:", good=False)
        for what in missing:
            printer.prose(f"  {what}")
        return FAILED
    requests = running.world.ledger.calls(who=CONTROLLER, system="arm", kind="pools")
    calls = sum(call.verb != "LIST" for call in requests)
    printer.verdict("\n" + verdict(len(claims), running.failure, calls=calls, lists=story.lists), good=True)
    return OK
