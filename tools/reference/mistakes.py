"""`docs/troubleshooting/mistakes.md`: mistakes in files and on the command line, and what the program prints for each.

Each row changes a valid file, or a command line, in one place. The page has what the program prints now; a test
requires that it names the field, the value and the remedy.
"""

import io
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from provisioner.cli.arguments import PROGRAM
from provisioner.cli.main import run_command

from .markdown import block, code, page, table

SOURCE = "tools/reference/mistakes.toml"
TABLE = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))
FILES: dict[str, str] = TABLE["files"]
FILE = "file.yaml"
# Notes on each NodePool and NodeClaim of the table.
NOT_OF_THE_MISTAKE = ("a100 is not in these files", "are unknown before its creation")

INTRODUCTION = """\
This page lists frequent mistakes, and the message and the remedy that the program prints for each. None of these
commands needs a cluster. Run `plan` and `schedule` before `kubectl apply`, for example as a check of each pull request,
and `config` before an installation or an upgrade. Each mistake is the only one in the manifest of its section."""

COMMANDS = {
    **dict.fromkeys(("NodePool", "AgentPoolNodeClass", "NodeClaim", "NodeOverlay"), f"plan -f {FILE}"),
    "Pod": f"schedule -f {FILE}",
    "settings": f"config --config {FILE}",
}
SHOWN_CHARACTERS = 60

HEADS = {
    "NodePool": "NodePools",
    "AgentPoolNodeClass": "AgentPoolNodeClasses",
    "NodeClaim": "NodeClaims",
    "NodeOverlay": "NodeOverlays",
    "Pod": "Pods",
    "settings": "Settings",
    "none": "Command lines",
}


class Mistake(NamedTuple):
    """`given` of the file is replaced by `written`. `field`, `value`, `remedy`: what the message must contain."""

    what: str
    command: str
    file: str
    field: str
    value: str
    remedy: str
    given: str = ""
    written: str = ""


MISTAKES = tuple(Mistake(**row) for row in TABLE["mistake"])


class Printed(NamedTuple):
    """What the program prints about a mistake: the cause, and the remedy of the line below it."""

    code: int
    cause: str
    remedy: str


def printed(mistake: Mistake) -> Printed:
    """Run the command on the file with the mistake."""
    base = FILES[mistake.file]
    if base.count(mistake.given) != 1 and mistake.given:
        raise ValueError(f"{mistake.given!r} is not once in the file of a {mistake.file}")
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text(base.replace(mistake.given, mistake.written) if mistake.given else base, encoding="utf-8")
        words = [str(path) if word == FILE else word for word in mistake.command.split()]
        exit_code = run_command(words, {}, out, err)
        lines = (out.getvalue() + err.getvalue()).replace(f"{folder}/", "").splitlines()
    return Printed(exit_code, *_message(lines))


def _message(lines: list[str]) -> tuple[str, str]:
    """The first error or warning, and the line below it, if it is indented; a note if there is neither."""
    for begins in ("  ✗ ", "  note ", "warning: ", PROGRAM, "default/"):
        for number, line in enumerate(lines):
            if line.startswith(begins) and not line.endswith(NOT_OF_THE_MISTAKE):
                head = line.endswith(" invalid:")  # of a list of settings
                return _lines_of(lines[number + 1 :] if head else lines[number:])
    return "", ""


def _lines_of(lines: list[str]) -> tuple[str, str]:
    below = lines[1] if len(lines) > 1 and lines[1].startswith("    ") else ""
    cause = lines[0].strip().removeprefix("✗").removeprefix("note").strip()
    return cause.partition(": ")[2] if cause.startswith(PROGRAM) else cause, below.strip()


def render() -> str:
    """The page."""
    sections = [_section(file, head) for file, head in HEADS.items()]
    return page("Mistakes and messages", SOURCE, INTRODUCTION, *sections)


def _section(file: str, head: str) -> str:
    rows = [_row(one) for one in MISTAKES if one.file == file]
    text = f"## {head}\n\n{table(['Mistake', 'Message, and remedy'], rows)}"
    return (
        f"{text}\n\nWithout a mistake:\n\n{block(FILES[file], 'text' if file == 'settings' else 'yaml')}"
        if FILES[file]
        else text
    )


def _row(mistake: Mistake) -> tuple[str, str]:
    reported = printed(mistake)
    shown = [mistake.command.removesuffix(f" -f {FILE}")] if mistake.command != COMMANDS.get(mistake.file) else []
    if mistake.given:
        base = FILES[mistake.file].splitlines()
        changed = FILES[mistake.file].replace(mistake.given, mistake.written).splitlines()
        shown += [
            line.strip() if len(line) <= SHOWN_CHARACTERS else mistake.written for line in changed if line not in base
        ]
    cells = (", ".join(map(code, shown)), "<br>".join(code(line) for line in (reported.cause, reported.remedy) if line))
    return f"{mistake.what}: {cells[0]}" if shown else mistake.what, cells[1]
