"""JSONPath as kubectl reads it, without recursive descent, slices and unions: the paths of readiness rules.

A path starts with a field and has these parts; surrounding braces and a leading `$` may be left out:

    .name  ['name']  a field; a dot in a name of the first form is escaped: .metadata.labels.example\\.com/zone
    .*  [*]          every value of a map or a list
    [0]  [-1]        an element of a list
    [?(@.a.b=="c")]  the elements of a list whose field equals, or with != differs from, a text, a number or a boolean

Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

PATH_CHARACTERS = 512
ROOTS = ("metadata", "spec", "status", "data")

# The syntax is that of RE2 too, and has no quotes, so that rules of a CRD can contain it: \x22 is ", \x27 is '.
_NAME = r"(?:\\.|[^.\[\]\\{}()\x22\x27\s*?@=!])+"
_VALUE = r"(?:\x22[^\x22\x27\\]*\x22|\x27[^\x22\x27\\]*\x27|true|false|-?\d{1,18}(?:\.\d{1,18})?)"
_QUOTED = r"\[(?:\x22[^\x22\x27\\]+\x22|\x27[^\x22\x27\\]+\x27)\]"
_FIELD = rf"\.{_NAME}"
_ALL = r"(?:\.\*|\[\*\])"
_INDEX = r"\[-?\d{1,6}\]"
_ON = rf"(?:\.{_NAME})+"
_CHOSEN = rf"\[\?\(\s*@{_ON}\s*[!=]=\s*{_VALUE}\s*\)\]"
_NAMES = "|".join(ROOTS)
_ROOT = rf"(?:\.(?:{_NAMES})|\[\x22(?:{_NAMES})\x22\]|\[\x27(?:{_NAMES})\x27\])"
_REST = rf"(?:{_FIELD}|{_ALL}|{_INDEX}|{_QUOTED}|{_CHOSEN})*"
# A whole path.
PATTERN = rf"^(?:\$?{_ROOT}{_REST}|[{{]\$?{_ROOT}{_REST}[}}])$"
_PART = re.compile(
    rf"(?P<field>{_FIELD})|(?P<all>{_ALL})|(?P<index>{_INDEX})|(?P<quoted>{_QUOTED})"
    rf"|\[\?\(\s*@(?P<on>{_ON})\s*(?P<op>[!=]=)\s*(?P<value>{_VALUE})\s*\)\]"
)
_ESCAPED = re.compile(r"\\(.)")

_Part = Callable[[Any], Iterator[Any]]


class JsonPath:
    """A compiled path. Raises ValueError, with the position, for one that this subset does not have.

    `field`: the names of the fields at its beginning; all values of the path are below it.
    """

    def __init__(self, path: str) -> None:
        self.text = path
        inner = path[1:-1] if path.startswith("{") and path.endswith("}") else path
        inner = inner.removeprefix("$")
        if len(path) > PATH_CHARACTERS:
            raise ValueError(f"it has more than {PATH_CHARACTERS} characters")
        self._parts, position = list[_Part](), 0
        first, fields, plain = "", list[str](), True
        while position < len(inner):
            match = _PART.match(inner, position)
            if match is None:
                raise ValueError(
                    f"{inner[position : position + 20]!r} at character {position + 1} is no part of a path"
                )
            first = first or _name(match) or "?"
            plain = plain and bool(_name(match))
            if plain:
                fields.append(_name(match))
            self._parts.append(_part(match))
            position = match.end()
        self.field = tuple(fields)
        if first not in ROOTS:
            raise ValueError(f"it does not start with .{', .'.join(ROOTS[:-1])} or .{ROOTS[-1]}")

    def values(self, document: Any) -> tuple[str, ...]:
        """The text of each value at this path, in the order of the document; values that are null are left out."""
        found = [document]
        for part in self._parts:
            found = [below for one in found for below in part(one)]
        return tuple(_text(one) for one in found if one is not None)


def _name(match: re.Match[str]) -> str:
    """The name of a field, "" for another part."""
    if match["quoted"] is not None:
        return match["quoted"][2:-2]
    return _ESCAPED.sub(r"\1", match["field"][1:]) if match["field"] is not None else ""


def _part(match: re.Match[str]) -> _Part:
    if match["on"] is not None:
        names = [_ESCAPED.sub(r"\1", name) for name in re.findall(rf"\.({_NAME})", match["on"])]
        return _filter(names, match["value"].strip("\"'"), equal=match["op"] == "==")
    if match["all"] is not None:
        return _every
    if match["index"] is not None:
        return _element(int(match["index"][1:-1]))
    return _field(_name(match))


def _field(name: str) -> _Part:
    def part(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return part


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _element(index: int) -> _Part:
    def part(value: Any) -> Iterator[Any]:
        if isinstance(value, list | tuple) and -len(value) <= index < len(value):
            yield value[index]

    return part


def _filter(names: list[str], wanted: str, *, equal: bool) -> _Part:
    def part(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list | tuple) else ():
            found = item
            for name in names:
                found = found.get(name) if isinstance(found, Mapping) else None
            if found is not None and (_text(found) == wanted) is equal:
                yield item

    return part


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
