"""The three patch formats: merge (RFC 7386), JSON (RFC 6902) and strategic merge.

Promise: pure functions that never change their arguments and share what they did not touch. A JSON patch is all or
nothing; an operation that fails or is malformed is a 422 that does not say which, as the real server answers.
Left to others: which format a resource accepts (custom resources refuse the strategic one), and everything about
versions and validation.

Source: the RFCs; apimachinery's `strategicpatch`; merge keys from the Kubernetes API types' `patchMergeKey` tags.
"""

from typing import Any, Literal

from .errors import ApiError, bad_request
from .objects import Json

PatchKind = Literal["merge", "json", "strategic"]

# Where a list is merged by key; keyed by the field's path in the object. All other lists are replaced whole: taints and
# tolerations too, which the API types declare atomic.
MERGE_KEYS: dict[tuple[str, ...], str] = {
    ("metadata", "ownerReferences"): "uid",
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
    ("spec", "template", "spec", "containers"): "name",
}
# Lists of plain values that are merged as sets.
MERGED_SETS = (("metadata", "finalizers"), ("spec", "podCIDRs"))


def merge(target: Any, patch: Any) -> Any:
    """Apply an RFC 7386 merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        else:
            result[field] = merge(result.get(field), value)
    return result


def json_patch(target: Json, operations: object) -> Json:
    """Apply an RFC 6902 patch, all of it or nothing. Raises ApiError 400 (malformed) or 422 (`test`, missing path)."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    document: Any = target
    for operation in operations:
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise _refused()
    return document


def _refused() -> ApiError:
    """The real server hides the library's words here; clients see only this, whatever does not fit or is malformed."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def _operate(document: Any, operation: Any) -> Any:
    try:
        kind, path = operation["op"], _pointer(operation["path"])
        source = _pointer(operation["from"]) if kind in {"move", "copy"} else []
        value = operation["value"] if kind == "test" else operation.get("value")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _refused() from error
    try:
        match kind:
            case "test":
                if not _same(_tested(document, path), value):
                    raise _refused()
                return document
            case "add":
                return _change(document, path, value, "add")
            case "remove":
                return _change(document, path, None, "remove")
            case "replace":
                return _change(document, path, value, "replace")
            case "copy":
                return _change(document, path, _find(document, source), "add")
            case "move":
                moved = _find(document, source)
                return _change(_change(document, source, None, "remove"), path, moved, "add")
    except (LookupError, TypeError, ValueError) as error:
        raise _refused() from error
    raise _refused()


def _tested(document: Any, path: list[str]) -> Any:
    """Like the real server's library, `test` takes a field that is absent for null."""
    if not path:
        return document
    parent = _find(document, path[:-1])
    return parent.get(path[-1]) if isinstance(parent, dict) else _find(parent, path[-1:])


def _same(left: Any, right: Any) -> bool:
    """JSON equality: true is not 1, though Python says so."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(v, right[k]) for k, v in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _pointer(text: str) -> list[str]:
    """Split an RFC 6901 pointer."""
    if text == "":
        return []
    if not text.startswith("/"):
        raise ValueError(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], part: str, *, beyond: bool = False) -> int:
    if not part.isdigit() or (part != "0" and part.startswith("0")):
        raise ValueError(part)
    index = int(part)
    if index >= len(items) + beyond:
        raise IndexError(part)
    return index


def _find(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value[_index(value, part)] if isinstance(value, list) else value[part]
    return value


def _change(value: Any, path: list[str], new: Any, how: str) -> Any:
    """A copy of `value` along `path`, changed at its end."""
    if not path:
        return new
    part, rest = path[0], path[1:]
    if isinstance(value, list):
        items = list(value)
        if rest:
            index = _index(items, part)
            items[index] = _change(items[index], rest, new, how)
        elif how == "add":
            items.insert(len(items) if part == "-" else _index(items, part, beyond=True), new)
        elif how == "replace":
            items[_index(items, part)] = new
        else:
            del items[_index(items, part)]
        return items
    fields = dict(value)
    if rest:
        fields[part] = _change(fields[part], rest, new, how)
    elif how == "add":
        fields[part] = new
    elif how == "replace":
        # Against the RFC the library adds a member that is not there.
        fields[part] = new
    else:
        del fields[part]
    return fields


def strategic(target: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    """Apply a strategic merge patch, with `$patch` (replace, delete), `$deleteFromPrimitiveList`, `$setElementOrder`
    and `$retainKeys` understood. Lists merge where the API types say so (`MERGE_KEYS`), else they are replaced.
    """
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, path)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "delete":
        return {}
    whole = patch.get("$patch") == "replace"
    if patch.get("$patch") not in {None, "replace", "delete", "merge"}:
        raise ApiError(500, "", f"unknown patch type: {patch['$patch']} in map: {patch!r}")
    result = dict(target) if isinstance(target, dict) and not whole else {}
    if "$retainKeys" in patch:
        result = {k: v for k, v in result.items() if k in patch["$retainKeys"]}
    for field, value in patch.items():
        if field.startswith("$deleteFromPrimitiveList/"):
            name = field.partition("/")[2]
            result[name] = [v for v in result.get(name, []) if v not in value]
        elif field.startswith("$"):
            continue
        elif value is None:
            result.pop(field, None)
        else:
            result[field] = strategic(result.get(field), value, (*path, field))
    return result


def _strategic_list(target: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    if path in MERGED_SETS:
        return [*target, *(v for v in patch if v not in target)]
    key = MERGE_KEYS.get(path)
    if key is None:
        return patch
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    result = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise ApiError(500, "", f"map: {item!r} does not contain declared merge key: {key}")
        places = [i for i, old in enumerate(result) if old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            result = [old for i, old in enumerate(result) if i not in places]
        elif places:
            result[places[0]] = strategic(result[places[0]], item)
        else:
            result.append(strategic({}, item))
    return result
