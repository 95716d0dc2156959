"""`gpu-provisioner try`: its flags, what it prints, how it ends.

Promise: with `--once` the exit code is 0 only if the whole story was seen; without, it serves until Ctrl-C. Colours
only on a terminal (and never with NO_COLOR). Nothing is written but the kubeconfig.
Left to others: the world (`session.py`), the story (`story.py`), the script (`script.py`).
"""

import argparse
import asyncio
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import yaml
from rich.console import Console

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock

from .failures import FAILURES
from .script import Json, examples, play, read_claims
from .session import Trial, TrialSettings, trial
from .story import CONTROLLER, Line, Story

OK, FAILED, USAGE = 0, 1, 2
SPEED = 60.0
PATIENCE_SECONDS = 120.0
DEMO = ("kaito-workspace.yaml", "first-gpu.yaml", "a100-multi.yaml")
STYLES = {"plain": "", "good": "green", "bad": "red", "quiet": "dim"}


def run(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run `gpu-provisioner try` with these arguments; returns the exit code."""
    parser = _parser()
    try:
        wanted = parser.parse_args(arguments)
        paths = wanted.filename or [examples() / name for name in DEMO]
        claims = read_claims(paths)
    except SystemExit as ended:
        return USAGE if ended.code else OK
    except (OSError, yaml.YAMLError) as error:
        err.write(f"gpu-provisioner try: {error}\n    Name files with NodeClaims in YAML.\n")
        return USAGE
    if not claims:
        err.write(
            f"gpu-provisioner try: no NodeClaim in {', '.join(map(str, paths))}\n    Name files that hold some.\n"
        )
        return USAGE
    if not wanted.verbose:
        logs.configure(SystemClock(), level="error", stream=io.StringIO(), console=False)
    console = Console(file=out, highlight=False, soft_wrap=True)
    try:
        return asyncio.run(_run(wanted, claims, console))
    except KeyboardInterrupt:
        console.print("\nstopped; nothing is left running")
        return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-provisioner try",
        description="The real controller against an embedded Kubernetes API server and an embedded Azure.",
    )
    parser.add_argument("--once", action="store_true", help="play the whole life of the claims once and exit")
    parser.add_argument("--speed", type=_speed, default=SPEED, help="how much faster Azure's time passes (%(default)g)")
    parser.add_argument("--fail", choices=sorted(FAILURES), default="", help="let something go wrong")
    parser.add_argument("-f", "--filename", action="append", type=Path, help="claims to apply (default: examples)")
    default = Path(tempfile.gettempdir()) / "gpu-provisioner-try.kubeconfig"
    parser.add_argument("--kubeconfig", type=Path, default=default, help="where to write it (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="the API server's port on loopback (any free one)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the controller's log as well")
    return parser


def _speed(text: str) -> float:
    value = float(text.removesuffix("x"))
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text}: use 1 (real time) to 1000")
    return value


async def _run(wanted: argparse.Namespace, claims: list[Json], console: Console) -> int:
    loop = asyncio.get_running_loop()
    settings = TrialSettings(speed=wanted.speed, fail=wanted.fail, kubeconfig=wanted.kubeconfig, kube_port=wanted.port)

    def tell(line: Line) -> None:
        console.print(str(line), style=STYLES[line.tone], markup=False)

    async with trial(settings) as running:
        story = Story(running.world, loop.time, tell)
        console.print(
            f"An embedded cluster and an embedded Azure, whose minutes pass {wanted.speed:g} times faster;"
            " the controller is the real one, at its real pace.\n",
            style="bold",
        )
        if wanted.fail:
            console.print(f"What goes wrong: {FAILURES[wanted.fail].told}.\n")
        if wanted.once:
            return await _once(running, story, claims, console)
        return await _serve(running, wanted.filename or [examples() / DEMO[0]], claims, console)


async def _once(running: Trial, story: Story, claims: list[Json], console: Console) -> int:
    missing = await play(running, story, claims, patience_seconds=PATIENCE_SECONDS)
    if missing:
        console.print("\nNot seen:", style="bold red")
        for what in missing:
            console.print(f"  {what}", markup=False)
        return FAILED
    requests = running.world.ledger.calls(system="arm", kind="pools")
    calls = sum(call.verb != "LIST" and call.who == CONTROLLER for call in requests)
    console.print(
        f"\n{len(claims)} claims became Ready nodes and went again, in the order instance, Node, NodeClaim."
        f"\nLeft of them: agent pools 0, Nodes 0, NodeClaims 0 (asked of ARM and of the API server)."
        f"\nARM calls: {calls / len(claims):g} a claim, and {story.lists} shared LISTs.",
        style="bold green",
    )
    return OK


async def _serve(running: Trial, paths: list[Path], claims: list[Json], console: Console) -> int:
    name = claims[0]["metadata"]["name"]
    console.print(
        f"  export KUBECONFIG={running.kubeconfig}\n"
        f"  kubectl apply -f {paths[0]} && kubectl get nodeclaims -w\n"
        f"  kubectl describe nodeclaim {name}\n"
        f"  kubectl delete nodeclaim {name}\n\nCtrl-C ends it.\n",
        markup=False,
    )
    await asyncio.get_running_loop().create_future()
    return OK
