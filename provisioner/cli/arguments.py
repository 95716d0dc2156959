"""The parser of one command, and the arguments that several commands have."""

import argparse
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, NoReturn

from provisioner.api.field_error import FieldError
from provisioner.settings import masked

from .output import FORMATS

PROGRAM = "gpu-provisioner"
MANIFESTS = "manifests; may be given repeatedly"
# `release` names it in its errors too.
RELEASE_FLAG = "--i-know-the-pool-is-gone"


class UsageError(Exception):
    """The command line is invalid. The text is one line for the cause and one for the remedy."""


class Parser(argparse.ArgumentParser):
    """`commands`: the parsers of the commands by name, for the top-level parser."""

    commands: Mapping[str, "Parser"]

    def error(self, message: str) -> NoReturn:
        self.fail(message, f"See {self.prog} --help.")

    def fail(self, cause: str, remedy: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {cause}\n    {remedy}")

    def unknown(self, word: str) -> FieldError:
        """The error for a word that is neither a flag nor an argument of this command."""
        name, _, value = word.partition("=")
        near = get_close_matches(name, self._option_string_actions, n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"Remove it; {self.prog} --help lists the flags."
        message = "unknown flag" if word.startswith("-") else "unexpected argument"
        return FieldError(masked(name), "FieldValueInvalid", message, masked(value), remedy)


class Completes(Enum):
    """What shells complete the value of an argument with; the last three are read from the cluster."""

    NOTHING = auto()
    FILES = auto()
    REGIONS = auto()
    SIZES = auto()
    CONTEXTS = auto()
    NAMESPACES = auto()
    NODECLAIMS = auto()
    EXPLAINED = auto()  # with their kinds


def add(
    group: argparse._ActionsContainer, *names: str, completes: Completes = Completes.NOTHING, **options: Any
) -> None:
    """Add an argument; `completes`: what shells complete its value with."""
    action: Any = group.add_argument(*names, **options)
    action.completes = completes


def add_files(group: argparse._ActionsContainer, text: str = MANIFESTS, **options: Any) -> None:
    """Add `-f`."""
    add(
        group,
        "-f",
        "--filename",
        action="append",
        metavar="FILE|DIR|-",
        help=text,
        completes=Completes.FILES,
        **options,
    )


def add_output(parser: Parser, formats: Sequence[str] = FORMATS) -> None:
    """Add `-o`."""
    parser.add_argument("-o", "--output", choices=formats, default=formats[0], help="output format (%(default)s)")
