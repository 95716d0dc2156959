"""The flags of `gpu-provisioner try`."""

import argparse
import contextlib
import tempfile
from pathlib import Path

from provisioner.cli.output import FORMATS

from .output.records import documented
from .scenarios import SCENARIOS

OUTPUTS = (*FORMATS, "lines")
SPEED = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `try` to its parser."""
    parser.add_argument("--once", action="store_true", help="run the whole lifecycle of the NodeClaims once, then exit")
    parser.add_argument("--speed", type=_speed, default=SPEED, help="speed of Azure's clock (%(default)g)")
    parser.add_argument("--pods", action="store_true", help="create pods and a NodePool instead of NodeClaims")
    failure = parser.add_mutually_exclusive_group()
    failure.add_argument("--fail", choices=sorted(SCENARIOS), default="", help="simulate a failure")
    failure.add_argument("--faults", type=Path, metavar="FILE", help="a fault plan for the simulated Azure")
    parser.add_argument(
        "-f", "--filename", action="append", type=Path, metavar="FILE", help="NodeClaims in YAML (default: examples)"
    )
    default = Path(tempfile.gettempdir()) / "gpu-provisioner-try.kubeconfig"
    parser.add_argument(
        "--kubeconfig", type=Path, default=default, metavar="FILE", help="the kubeconfig to write (%(default)s)"
    )
    parser.add_argument("--port", type=_port, default=0, help="port of the API server on loopback (any free port)")
    text = "output format (%(default)s); table: live on a terminal, lines elsewhere"
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=text)
    parser.add_argument("-v", "--verbose", action="store_true", help="also print the controller's log, on stderr")


def epilog() -> str:
    """The failures, and the objects of `-o json` and `-o yaml`."""
    failures = [f"  {name:<10}{scenario.description}" for name, scenario in SCENARIOS.items()]
    kinds = [f"  {kind}" for kind in documented()]
    records = ["-o json prints one object on each line, -o yaml one document each, of these kinds:", *kinds]
    return "\n".join(["values of --fail:", *failures, "", *records])


def _speed(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1 <= (value := float(text.removesuffix("x"))) <= 1000:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a speed: use 1 (real time) to 1000")


def _port(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= (value := int(text)) <= 65535:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 1 to 65535, or 0 for any free port")
