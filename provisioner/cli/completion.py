"""Shell completion: the script for a shell, and the words that the script requests from the program at each Tab."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import argcomplete
from argcomplete.completers import FilesCompleter

from .parser import PROGRAM, build_parser

# The variable by which the script marks its calls of the program.
REQUEST = "_ARGCOMPLETE"


def script(shell: str) -> str:
    """The script that completes commands, flags, choices and files in this shell of `SHELLS`."""
    return f"{argcomplete.shellcode([PROGRAM], shell=shell).strip()}\n"


def complete() -> None:
    """Print the completions that the environment requests, and exit."""
    argcomplete.autocomplete(build_parser(list_settings=True), default_completer=_complete_files)


def _complete_files(prefix: str, action: argparse.Action, **_: object) -> Iterable[str]:
    is_file = getattr(action, "is_file", False) or action.type is Path
    return FilesCompleter()(prefix) if is_file else ()
