"""Generates `docs/reference/commands.md`: every command with its flags and exit codes, from the parser.

The page does not contain the output of argparse, which differs between versions of Python.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from provisioner.cli.arguments import Parser
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.parser import CLUSTER_FLAGS, build_parser
from provisioner.trial.output.records import documented
from provisioner.trial.scenarios import SCENARIOS

from .markdown import block, code, page, table

SOURCE = "provisioner/cli/definitions"

INTRODUCTION = """\
`gpu-provisioner COMMAND --help` prints the same text. Without a command, the flags are those of `run`, as for
Azure/gpu-provisioner. An error is reported on standard error, in one line for the cause and one for the remedy."""

CODES = """\
## Exit codes

| Code | Meaning |
| --- | --- |
| `0` | done; `check` and `plan`: no errors; `uninstall`: nothing remains |
| `1` | failed or refused; `plan`: a NodeClaim has errors |
| `2` | invalid usage or settings |
| `3` | `check`: a check failed; `doctor`: GPUs are missing; `uninstall`: only the Lease of a controller remains |
| `130`, `143` | interrupted by Ctrl-C or by SIGTERM |"""

RECORDS = "`-o json` prints one object on each line, `-o yaml` one document each, of these kinds:"

SETTINGS = {
    "": "",
    "accepted": "The flags of the [settings](settings.md) apply too.",
    "listed": "Its flags are the [settings](settings.md).",
}


def render() -> str:
    """The page."""
    parser = build_parser()
    index = table(["Command", "What it does"], [[f"[{code(n)}](#{n})", c.summary] for n, c in COMMANDS.items()])
    sections = [_section(name, parser.commands[name]) for name in COMMANDS]
    return page("Commands", SOURCE, INTRODUCTION, index, *sections, CODES)


def _section(name: str, parser: Parser) -> str:
    command = COMMANDS[name]
    parts = [
        f"## {name}",
        _prose(command.description),
        SETTINGS[command.settings],
        _flags(parser, CLUSTER_FLAGS if command.kube else ()),
    ]
    if name == "try":
        failures = "\n".join(f"* {code(one)}: {scenario.description}" for one, scenario in SCENARIOS.items())
        kinds = (line.partition(": ") for line in documented())
        objects = "\n".join(f"* {code(kind)}: {fields}" for kind, _, fields in kinds)
        parts += [f"Values of `--fail`:\n\n{failures}", f"{RECORDS}\n\n{objects}"]
    if command.examples:
        parts.append(f"Examples:\n\n{block(command.examples)}")
    return "\n\n".join(filter(None, [*parts, command.exit_codes]))


def _prose(text: str) -> str:
    """Markdown without HTML: placeholders in angle brackets become code."""
    return text.replace("<", "`<").replace(">", ">`")


def _flags(parser: Parser, settings: Sequence[str]) -> str:
    """The table of its flags; of those of the settings it has only these."""
    rows = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of arguments
        if isinstance(action, argparse._HelpAction):  # noqa: SLF001
            continue
        if action.dest.startswith("--") and action.dest[2:] not in settings:
            continue
        names = ", ".join(code(name) for name in action.option_strings) or code(str(action.metavar))
        rows.append([names, _value(action), _default(action), _meaning(action)])
    return table(["Flag", "Value", "Default", "Meaning"], rows) if rows else ""


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        return ", ".join(code(str(choice)) for choice in action.choices)
    if not action.option_strings or action.nargs == 0:
        return ""
    return code(str(action.metavar or action.dest.upper()))


def _default(action: argparse.Action) -> str:
    shown = isinstance(action.default, str | float | Path) and not isinstance(action.default, bool)
    return code(_everywhere(str(action.default))) if shown and action.default not in ("", argparse.SUPPRESS) else ""


def _meaning(action: argparse.Action) -> str:
    text = action.help or ""
    for default in (" (%(default)s)", " (%(default)g)", ": %(choices)s"):
        text = text.replace(default, "")
    return _everywhere(text)


def _everywhere(text: str) -> str:
    """The directory for temporary files differs between machines."""
    return text.replace(tempfile.gettempdir(), "/tmp")  # noqa: S108 - it is only named
