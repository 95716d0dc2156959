"""Extracts the commands from the documentation.

`shown()` returns each command of every `console` block and each inline code that begins with one of `INLINE`. In a
block, commands begin with `$ `; a block without `$` that begins with one of `INLINE` contains only commands. Lines that
end with a backslash are joined. Pipes, `&&`, redirections and `$(…)` are split into single commands with the variables
that are set for them.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    path
    for path in (
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "charts").glob("*/README.md"),
        *(ROOT / "provisioner").rglob("*.md"),
    )
)
# Programs whose commands are also extracted from inline code.
INLINE = ("gpu-provisioner", "make", "kubectl", "helm", "az")
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_INNER = re.compile(r"\$\(([^()]*)\)")
OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<"}


class Shown(NamedTuple):
    """A command of a document; `variables`: the names of the environment variables that are set for it."""

    document: str
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.document}: {' '.join(self.words)}"


def shown() -> list[Shown]:
    """The commands of all documents."""
    found = []
    for path in DOCUMENTS:
        document, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for line in lines(text):
            found += [Shown(document, words, variables) for words, variables in commands(line)]
        for code in _INLINE.findall(_BLOCK.sub("", text)):
            if code.split(" ")[0] in INLINE and " " in code and "…" not in code:
                found += [Shown(document, words, variables, inline=True) for words, variables in commands(code)]
    return found


def lines(text: str, under: str = "") -> list[str]:
    """The command lines of the `console` blocks of a text, or of its section with the heading `under`."""
    if under:
        text = text.partition(f"\n{under}\n")[2]
        level = under.partition(" ")[0]
        text = re.split(rf"^#{{1,{len(level)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    found = []
    for language, block in _BLOCK.findall(text):
        if language != "console":
            continue
        joined = block.replace("\\\n", " ").splitlines()
        prompted = [line[2:] for line in joined if line.startswith("$ ")]
        bare = joined[:1] and joined[0].split(" ")[0] in INLINE
        found += prompted or [line for line in joined if bare and line.strip()]
    return found


def commands(line: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words of each command of a line, and the names of the variables that are set for it."""
    while inner := _INNER.search(line):
        yield from commands(inner[1])
        line = line[: inner.start()] + "VALUE" + line[inner.end() :]
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    skip = False
    for token in [*lexer, ";"]:
        if token in OPERATORS:
            if single := _single(words):
                yield single
            words, skip = [], token in {">", ">>", "<"}
        elif skip:
            skip = False
        else:
            words.append(token)


def _single(words: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    if words[:1] in (["for"], ["done"]):
        return None
    left = [word for word in words if word not in {"export", "do"}]
    variables = []
    while left and _ASSIGNED.fullmatch(left[0]):
        variables.append(left.pop(0).partition("=")[0])
    return (tuple(left), tuple(variables)) if left else None
