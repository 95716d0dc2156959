"""JSON patches that change only fields of this controller.

A list is replaced only under a `test` of its content, so that no entry of another writer is lost; map keys are added
one by one (docs/references/rules.md#field-ownership). An absent member is tested as null, which the API server accepts.

Source: https://www.rfc-editor.org/rfc/rfc6902, https://github.com/evanphx/json-patch (which the API server uses).
"""

from collections.abc import Mapping, Sequence

import msgspec

Operation = Mapping[str, object]


def escaped(key: str) -> str:
    """A map key as one JSON pointer token (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def replace_list(path: str, before: Sequence[object], after: Sequence[object]) -> tuple[Operation, ...]:
    """Replace the list at `path`, provided it still is `before`; an empty list is an absent member."""
    old, new = msgspec.to_builtins(list(before)) or None, msgspec.to_builtins(list(after))
    if (old or []) == new:
        return ()
    test: Operation = {"op": "test", "path": path, "value": old}
    if new:
        return (test, {"op": "add", "path": path, "value": new})
    return (test, {"op": "remove", "path": path})


def add_keys(path: str, before: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[Operation, ...]:
    """Set keys of the map at `path`; the map itself is created if it is absent."""
    missing = {key: value for key, value in wanted.items() if before.get(key) != value}
    if not missing:
        return ()
    if not before:
        return ({"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": missing})
    return tuple({"op": "add", "path": f"{path}/{escaped(key)}", "value": value} for key, value in missing.items())
