"""The words that the script of `completion` requests from the program at each Tab."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter

from .parser import build_parser


def complete() -> None:
    """Print the completions that the environment requests, and exit."""
    argcomplete.autocomplete(build_parser(list_settings=True), default_completer=_Files())


class _Files(BaseCompleter):
    """Completes the names of files where the value of a flag is one."""

    def __call__(self, *, prefix: str, action: argparse.Action, **_: object) -> Iterable[str]:
        is_file = getattr(action, "is_file", False) or action.type is Path
        return list(FilesCompleter()(prefix)) if is_file else []
