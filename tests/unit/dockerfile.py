"""A Dockerfile as its tests need it: stages of instructions, and which files of the tree a build is sent.

Promise: what `Dockerfile` uses is read as BuildKit reads it (continued lines, comments between them, flags, exec forms,
quoted pairs, build arguments of a stage); anything else raises ValueError, so that nothing is passed over unread.
Left to others: carrying it out (`tests/image/replay.py`).

Source: docs.docker.com/reference/dockerfile and its page on .dockerignore.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
KNOWN = frozenset(
    {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
)
VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Instruction:
    """One of them: `flags` without their dashes, the rest as it stands."""

    name: str
    flags: Mapping[str, str]
    text: str

    @property
    def words(self) -> list[str]:
        """An exec form's or a plain one's."""
        if self.text.startswith("["):
            found: list[str] = json.loads(self.text)
            return found
        return shlex.split(self.text)

    @property
    def pairs(self) -> dict[str, str]:
        """Of ENV and LABEL."""
        return dict(word.split("=", 1) for word in self.words)


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next."""

    image: str
    name: str
    flags: Mapping[str, str]
    instructions: tuple[Instruction, ...]

    def of(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def only(self, name: str) -> Instruction:
        """The one of that name. Raises ValueError if there are more or none."""
        (found,) = self.of(name)
        return found

    def arguments(self, given: Mapping[str, str]) -> dict[str, str]:
        """The build arguments that the stage declares: as given, else their defaults."""
        declared = dict(each.text.split("=", 1) for each in self.of("ARG"))
        return {name: given.get(name, default) for name, default in declared.items()}


def read(path: Path = ROOT / "Dockerfile") -> list[Stage]:
    """The stages, in their order."""
    stages: list[Stage] = []
    for each in _instructions(path.read_text(encoding="utf-8")):
        if each.name == "FROM":
            image, *rest = each.words
            stages.append(Stage(image, rest[1] if rest else "", each.flags, ()))
        elif not stages:
            raise ValueError(f"{each.name} before the first FROM")
        else:
            last = stages[-1]
            stages[-1] = Stage(last.image, last.name, last.flags, (*last.instructions, each))
    return stages


def substituted(text: str, values: Mapping[str, str]) -> str:
    """With the values of its build arguments. Raises KeyError for one that is not declared."""
    return VARIABLE.sub(lambda match: values[match[1]], text)


def sent(files: Iterable[str], ignore: Path = ROOT / ".dockerignore") -> list[str]:
    """Those of the files that a build is sent: the last pattern that fits a file, or a folder above it, decides."""
    patterns = [line for line in ignore.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [path for path in files if not _ignored(path, patterns)]


def _instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [_instruction(line) for line in joined.splitlines()]


def _instruction(line: str) -> Instruction:
    name, rest = line.split(maxsplit=1)
    if name not in KNOWN:
        raise ValueError(f"an instruction that this reader does not know: {line}")
    flags = {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
        flags[match[1]] = match[2]
        rest = rest[match.end() :]
    return Instruction(name, flags, rest.strip())


def _ignored(path: str, patterns: Iterable[str]) -> bool:
    above = [path, *(str(folder) for folder in PurePosixPath(path).parents if str(folder) != ".")]
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        if any(_fits(each, plain) for each in above):
            ignored = not pattern.startswith("!")
    return ignored


def _fits(path: str, pattern: str) -> bool:
    """`*` does not cross a slash; a leading `**/` is any depth."""
    if pattern.startswith("**/"):
        return any(_fits("/".join(path.split("/")[start:]), pattern[3:]) for start in range(path.count("/") + 1))
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
