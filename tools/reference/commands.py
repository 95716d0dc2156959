"""`docs/reference/commands.md`: every command with its flags and exit codes.

The page is built from argparse's actions, because the layout of its help differs between versions of Python.
"""

import argparse
import tempfile
from pathlib import Path

from provisioner.cli.commands import flags
from provisioner.cli.main import COMMANDS
from provisioner.trial import command as trial
from provisioner.trial.failures import FAILURES
from provisioner.trial.jsonlines import documented

from .markdown import block, code, page, table

SOURCE = "provisioner/cli/commands/flags.py and provisioner/cli/main.py"

INTRODUCTION = """\
`gpu-provisioner COMMAND --help` prints the same. The default command is `run`, as with Azure/gpu-provisioner. An
error is reported on standard error as one line with the cause and one with the remedy, without a traceback."""

CODES = """\
## Exit codes

| Code | Meaning |
| --- | --- |
| `0` | success; `check` and `plan`: no problem found |
| `1` | failed or refused; `plan`: a NodeClaim is invalid |
| `2` | invalid usage or settings |
| `3` | `check` found a problem |
| `130`, `143` | interrupted before completion, by Ctrl-C or by SIGTERM |"""

RUN = """\
Runs the controller. It serves metrics at `:8080/metrics`, and `/healthz` and `/readyz` at `:8081`. Its flags are the
[settings](settings.md). On SIGTERM, it stops reconciling, releases the Lease and exits with code 0.

Exit codes: 0 stopped by a signal, 1 stopped by an error, 2 invalid settings."""

TRY_JSON = """\
With `-o json`, each line is a JSON object. Its `kind` is one of the following, each with its other fields:"""

TRY_CODES = """\
Exit codes: 0 success (with `--once`: the run was completed), 1 failure, 2 invalid usage, 130 or 143 interrupted with
`--once`."""

CONFIG = """\
Prints each setting with its value and its source: flag, environment variable, file or default. Credentials in
addresses are masked.

Exit codes: 0, 2 invalid settings (all errors are reported together)."""


COMPLETION = """\
Writes what `bash` or `zsh` reads to complete commands, flags and their choices:

```console
$ eval "$(gpu-provisioner completion bash)"
```

Exit codes: 0, 2 no shell was named, or another."""


def render() -> str:
    """The page. Raises KeyError for a command without a description."""
    index = table(["Command", "What it does"], [[f"[{code(n)}](#{n})", what] for n, what in COMMANDS.items()])
    sections = [f"## {name}\n\n{_described(name)}" for name in COMMANDS]
    return page("Commands", SOURCE, INTRODUCTION, index, *sections, CODES)


def _described(name: str) -> str:
    if name in flags.COMMANDS:
        words = flags.COMMANDS[name]
        heading, _, examples = words.examples.partition("\n")
        parser = flags.parser_of(name)
        return "\n\n".join(
            [_prose(words.description), _flags(parser), f"{heading.capitalize()}\n\n{block(examples)}", words.codes]
        )
    if name == "try":
        parser = trial.parser_of_try()
        failures = "\n".join(f"* {code(one)}: {failure.told}" for one, failure in FAILURES.items())
        kinds = "\n".join(
            f"* {code(kind)}: {fields}" for kind, _, fields in (line.partition(": ") for line in documented())
        )
        parts = [f"Values of `--fail`:\n\n{failures}", f"{TRY_JSON}\n\n{kinds}", TRY_CODES]
        return "\n\n".join([parser.description or "", _flags(parser), *parts])
    return {"run": RUN, "config": CONFIG, "completion": COMPLETION, "version": "The version. Exit code: 0."}[name]


def _prose(text: str) -> str:
    """Placeholders in angle brackets as code; Markdown would read them as HTML."""
    return text.replace("<", "`<").replace(">", ">`")


def _flags(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of actions
        if isinstance(action, argparse._HelpAction):  # noqa: SLF001
            continue
        names = ", ".join(code(name) for name in action.option_strings) or code(str(action.metavar))
        rows.append([names, _value(action), _default(action), _help(action)])
    return table(["Flag", "Value", "Default", "Meaning"], rows)


def _value(action: argparse.Action) -> str:
    if not action.option_strings or action.nargs == 0:
        return ""
    if action.choices is not None:
        return ", ".join(code(str(choice)) for choice in action.choices)
    return code(str(action.metavar or action.dest.upper()))


def _default(action: argparse.Action) -> str:
    shown = isinstance(action.default, str | float | Path) and not isinstance(action.default, bool)
    return code(_everywhere(str(action.default))) if shown else ""


def _help(action: argparse.Action) -> str:
    return _everywhere((action.help or "").replace(" (%(default)s)", "").replace(" (%(default)g)", ""))


def _everywhere(text: str) -> str:
    """The text with the same name of the temporary folder on every machine."""
    return text.replace(tempfile.gettempdir(), "/tmp")  # noqa: S108 - the folder is not used
