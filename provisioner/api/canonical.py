"""One form of a value for hashes: written defaults and absent fields are equal, and so are orders of map keys.

Fields with their default are left out, so that a field which a later version adds does not change the hash of objects
that do not use it. The encoder of msgspec leaves out a default only if it is the same object, which a decoded one need
not be.
"""

import functools
import hashlib
from collections.abc import Mapping

import msgspec


def digest(value: object) -> str:
    """16 hexadecimal digits of a SHA-256 over the value without its defaults."""
    return hashlib.sha256(msgspec.json.encode(_sparse(value), order="sorted")).hexdigest()[:16]


def _sparse(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        fields = _fields(type(value))
        return {one.name: _sparse(got) for one in fields if (got := getattr(value, one.name)) != one.default}
    if isinstance(value, Mapping):
        return {str(key): _sparse(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_sparse(one) for one in value]
    return value


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Evaluating the annotations takes most of the time of a digest."""
    return msgspec.structs.fields(kind)
