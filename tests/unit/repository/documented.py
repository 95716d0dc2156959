"""The command lines that our documents show, taken out of them.

`shown()` yields each command of every `console` block (a line that begins with `$ `, and the lines that a
backslash joins to it; without any `$`, each line of a block that begins with one of `INLINE`), and each piece of inline
code that begins with one of `INLINE`. Pipes, `&&`, redirections and `$(…)` are taken apart, so that each command stands
alone, with the variables that are set before it.
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
# What begins a command line also outside a block.
INLINE = ("gpu-provisioner", "make", "kubectl", "helm", "az")
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_INNER = re.compile(r"\$\(([^()]*)\)")
OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<"}


class Shown(NamedTuple):
    """One command: the document, its words, and the names of the variables set for it."""

    document: str
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.document}: {' '.join(self.words)}"


def shown() -> list[Shown]:
    """Every command of every document."""
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
    """The command lines of the `console` blocks; `under`: only of the section with that heading."""
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
    """The single commands of a line, with the names of the variables that are set before each."""
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
