"""`docs/reference/commands.md`: every command, its flags and exit codes, from what reads them.

The same on every Python: argparse lays its help out differently in each, so the page is built from the flags
themselves. `--help` of each command says the same.
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
`gpu-provisioner COMMAND --help` says the same on a terminal. Without a command it is `run`, as with
Azure/gpu-provisioner. A mistake is a line for the cause and one for the remedy on standard error, never a traceback."""

CODES = """\
## Exit codes

| Code | Meaning |
| --- | --- |
| `0` | done; of `check` and `plan`: nothing is wrong |
| `1` | failed or refused; of `plan`: something is wrong with a claim |
| `2` | wrong usage, or wrong settings |
| `3` | `check` found something |
| `130`, `143` | interrupted before it was done, by Ctrl-C or by SIGTERM |"""

RUN = """\
The controller. It serves metrics at `:8080/metrics`, and `/healthz` and `/readyz` at `:8081`. Its flags are the
[settings](settings.md). SIGTERM ends it: work stops, the lease is released, exit code 0.

Exit codes: 0 asked to end, 1 ended by itself (it says why), 2 bad settings."""

TRY_JSON = """\
With `-o json` each line is an object; its `kind` is one of these, and its other fields are:"""

TRY_CODES = """\
Exit codes: 0 done (with `--once`: the whole story was seen), 1 it was not, 2 bad usage, 130 or 143
interrupted with `--once`."""

CONFIG = """\
Every setting, its value, and where it came from: flag, variable, file or default. Credentials in addresses are masked.

Exit codes: 0, 2 bad settings (all that is wrong is told at once)."""


COMPLETION = """\
Writes what `bash` or `zsh` reads to complete commands, flags and their choices:

```console
$ eval "$(gpu-provisioner completion bash)"
```

Exit codes: 0, 2 no shell was named, or another."""


def render() -> str:
    """The page; raises KeyError for a command that nothing here describes."""
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
        told = [f"What `--fail` can do:\n\n{failures}", f"{TRY_JSON}\n\n{kinds}", TRY_CODES]
        return "\n\n".join([parser.description or "", _flags(parser), *told])
    return {"run": RUN, "config": CONFIG, "completion": COMPLETION, "version": "The version. Exit code: 0."}[name]


def _prose(text: str) -> str:
    """Placeholders in angle brackets would be taken for HTML."""
    return text.replace("<", "`<").replace(">", ">`")


def _flags(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask for them
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
    """The folder for temporary files differs from machine to machine."""
    return text.replace(tempfile.gettempdir(), "/tmp")  # noqa: S108 - it is only named
