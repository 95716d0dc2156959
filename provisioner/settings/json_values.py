"""Settings whose value is a JSON document of a typed shape.

A field that the type does not have is an error: decoding would leave it out, and the setting would lack an effect that
its author expects.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, get_args, get_origin

import msgspec

T = TypeVar("T")


def read_json(written: str, kind: type[T], errors: Callable[[T], Iterable[object]]) -> T:
    """The value. `errors` finds what the type cannot express. Raises ValueError with all unknown fields and errors."""
    try:
        document = msgspec.json.decode(written)
        found = msgspec.convert(document, kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    unknown = (f"{place}: there is no such field" for place in _unknown_fields(document, kind, ""))
    if wrong := [*unknown, *map(str, errors(found))]:
        raise ValueError("; ".join(wrong))
    return found


def _unknown_fields(value: Any, kind: Any, place: str) -> Iterator[str]:
    if isinstance(value, list) and get_origin(kind) is tuple:
        for number, one in enumerate(value):
            yield from _unknown_fields(one, get_args(kind)[0], f"{place}[{number}]")
    elif isinstance(value, dict):
        structs = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
        if structs:
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(structs[0])}
            for name, one in value.items():
                if name not in fields:
                    yield f"{place}.{name}"
                else:
                    yield from _unknown_fields(one, fields[name], f"{place}.{name}")
