"""Reads manifests from files, directories and standard input: YAML or JSON, several documents, Lists.

JSON, as kubectl writes a whole cluster, may be long: its parser is a hundred times as fast as that of YAML.

A document that cannot be read does not affect the documents before it; its error names its place. Timestamps that YAML
parses become text again, as the API server receives them.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

import msgspec
import yaml

from provisioner.api.time import rfc3339
from provisioner.settings import bounded_yaml

from .manifest_lines import line_of
from .refusal import USAGE, Refused

SUFFIXES = (".yaml", ".yml", ".json")
# Some 50,000 pods.
JSON_CHARACTERS_MAX = 2**28
STDIN = "-"
T = TypeVar("T")


class Document(msgspec.Struct, frozen=True):
    """`source`: the file, and the document if it has several. `error`: why `body` could not be read.

    `text`: the file; `place`: of the body in it, as the number of the document and the path of the item.
    """

    source: str
    body: Any = None
    error: str = ""
    text: str = ""
    place: tuple[int, str] = (0, "")

    def line_of(self, field: str) -> int:
        """The line of a field, or of the lowest written field above it, from 1; 0 for a long text."""
        number, item = self.place
        long = not self.text or len(self.text) > bounded_yaml.CHARACTERS_MAX
        return 0 if long else line_of(self.text, number, f"{item}.{field}" if item else field)


def documents(names: Sequence[str], typed: TextIO) -> tuple[Document, ...]:
    """The documents of files and directories, without subdirectories. Raises Refused if one cannot be opened."""
    return tuple(document for name in names for source, text in _texts(name, typed) for document in _read(source, text))


def converted(body: Any, wanted: type[T]) -> T:
    """The object of a document. Raises msgspec.ValidationError.

    A field that is null is unset, as for the API server; one pass over most objects is enough to know that none is.
    """
    try:
        return msgspec.convert(body, wanted)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(body), wanted)


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(below) for key, below in value.items() if below is not None}
        case list():
            return [_without_nulls(below) for below in value]
    return value


def _texts(name: str, typed: TextIO) -> Iterator[tuple[str, str]]:
    try:
        if name == STDIN:
            yield "standard input", _text(typed)
            return
        path = Path(name)
        if not path.is_dir():
            yield name, _text_of(path)
            return
        found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        if not found:
            raise Refused(f"{name}: no file with the suffix {', '.join(SUFFIXES)}", "Name the files.", USAGE)
        for file in found:
            yield str(file), _text_of(file)
    except bounded_yaml.LimitExceeded as error:
        raise _beyond(name, error) from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise Refused(f"{name}: {why}", "Name a file in YAML or JSON, or - for standard input.", USAGE) from None


def _text_of(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return _text(file)


def _text(file: TextIO) -> str:
    """The text; JSON, which begins with a brace, may be longer than YAML. Raises LimitExceeded."""
    text = file.read(bounded_yaml.CHARACTERS_MAX + 1)
    if len(text) <= bounded_yaml.CHARACTERS_MAX:
        return text
    most = JSON_CHARACTERS_MAX if text.lstrip().startswith("{") else bounded_yaml.CHARACTERS_MAX
    text += file.read(most + 1 - len(text)) if most > len(text) else ""
    if len(text) > most:
        raise bounded_yaml.LimitExceeded(f"more than {most} characters")
    return text


def _beyond(source: str, error: bounded_yaml.LimitExceeded) -> Refused:
    return Refused(f"{source}: {error}", "Write JSON, or plain YAML in files of at most 1 MiB.", USAGE)


def _read(source: str, text: str) -> Iterator[Document]:
    found: list[Any] = []
    error_text = ""
    try:
        found.append(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        if len(text) > bounded_yaml.CHARACTERS_MAX:
            yield Document(source, error=_describe(error))
            return
    if found:
        try:
            bounded_yaml.check(found[0])
        except bounded_yaml.LimitExceeded as error:
            raise _beyond(source, error) from None
        yield from _items(source, found[0], text, 0)
        return
    try:
        # JSON is valid YAML. Documents are read one by one, so that those before an error are kept.
        for body in bounded_yaml.load_all(text):
            found.append(body)  # noqa: PERF402 - list() would lose the documents before an error
    except bounded_yaml.LimitExceeded as error:
        raise _beyond(source, error) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        error_text = _describe(error)
    several = len(found) + bool(error_text) > 1
    for number, body in enumerate(found, start=1):
        place = f"{source}, document {number}" if several else source
        yield from _items(place, _plain(body), text, number - 1)
    if error_text:
        yield Document(f"{source}, document {len(found) + 1}" if several else source, error=error_text)


def _items(source: str, body: Any, text: str, document: int) -> Iterator[Document]:
    """The document, or the items of a List; nothing for an empty document."""
    if isinstance(body, dict) and str(body.get("kind", "")).endswith("List") and isinstance(body.get("items"), list):
        for number, item in enumerate(body["items"], start=1):
            yield Document(f"{source}, item {number}", item, text=text, place=(document, f"items[{number - 1}]"))
    elif body is not None:
        yield Document(source, body, text=text, place=(document, ""))


def _describe(error: Exception) -> str:
    if isinstance(error, msgspec.DecodeError):
        return str(error)
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{where}{problem or 'it is nested too deeply or has an invalid value'}"


def _plain(value: Any) -> Any:
    """The value as JSON; types that only YAML has (timestamps, binary, sets) as text."""
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _plain(below) for key, below in value.items()}
        case list():
            return [_plain(below) for below in value]
        case datetime():
            return rfc3339(value.replace(tzinfo=UTC) if value.tzinfo is None else value)
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
    return str(value)
