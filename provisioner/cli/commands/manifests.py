"""Manifests as people keep them: files, directories, standard input; YAML or JSON, several documents, Lists.

Every document is tried, whatever is wrong with those before it; what cannot be read is told with its place.
Values are what the API server would see: times that YAML recognises become text again.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TextIO

import msgspec
import yaml

from .refusal import USAGE, Refused

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


class Document(msgspec.Struct, frozen=True):
    """`source` names the file, and the document in it if it has several. `flaw`: why there is no `body`."""

    source: str
    body: Any = None
    flaw: str = ""


def documents(names: Sequence[str], typed: TextIO) -> tuple[Document, ...]:
    """Every document of these files and directories (not below them). Raises Refused for what cannot be opened."""
    return tuple(document for name in names for source, text in _texts(name, typed) for document in _read(source, text))


def _texts(name: str, typed: TextIO) -> Iterator[tuple[str, str]]:
    try:
        if name == STDIN:
            yield "standard input", typed.read()
            return
        path = Path(name)
        if not path.is_dir():
            yield name, path.read_text(encoding="utf-8")
            return
        found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        if not found:
            raise Refused(f"{name}: no file in it ends in {', '.join(SUFFIXES)}", "Name the files themselves.", USAGE)
        for file in found:
            yield str(file), file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise Refused(
            f"{name}: {why}", "Name a file of NodeClaims in YAML or JSON, or - for standard input.", USAGE
        ) from None


def _read(source: str, text: str) -> Iterator[Document]:
    found: list[Any] = []
    flaw = ""
    try:
        # JSON is YAML, and is read as such; one by one, so that what comes before a mistake is kept.
        for body in yaml.safe_load_all(text):
            found.append(body)  # noqa: PERF402 - a list() would lose what was read before a mistake
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        flaw = _mistake(error)
    several = len(found) + bool(flaw) > 1
    for number, body in enumerate(found, start=1):
        place = f"{source}, document {number}" if several else source
        yield from _items(place, _plain(body))
    if flaw:
        yield Document(f"{source}, document {len(found) + 1}" if several else source, flaw=flaw)


def _items(source: str, body: Any) -> Iterator[Document]:
    """The document, or what is in it if it is a List; an empty one is none."""
    if isinstance(body, dict) and str(body.get("kind", "")).endswith("List") and isinstance(body.get("items"), list):
        for number, item in enumerate(body["items"], start=1):
            yield Document(f"{source}, item {number}", item)
    elif body is not None:
        yield Document(source, body)


def _mistake(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{where}{problem or 'it is nested too deeply, or holds what is no value'}"


def _plain(value: Any) -> Any:
    """The value as JSON has it; what only YAML has (times, binary, sets) as text."""
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _plain(below) for key, below in value.items()}
        case list():
            return [_plain(below) for below in value]
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
    return str(value)
