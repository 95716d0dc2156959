"""The three patch formats: merge (RFC 7386), JSON (RFC 6902) and strategic merge.

Each is a function of the stored object and the patch, which it does not change. An invalid or failing operation of a
JSON patch is a 422 whose message does not name it, and no operation is applied.

Source: https://www.rfc-editor.org/rfc/rfc6902, https://www.rfc-editor.org/rfc/rfc7396,
https://github.com/kubernetes/apimachinery/tree/master/pkg/util/strategicpatch; merge keys from the `patchMergeKey` tags
of https://github.com/kubernetes/api.
"""

from typing import Any, Literal

import jsonpatch

from .errors import ApiError, bad_request
from .objects import Json, copied

PatchKind = Literal["merge", "json", "strategic"]

# Lists merged by key: the path of the list, and the key. Every other list is replaced, also taints and tolerations,
# which the API types declare atomic.
MERGE_KEYS: dict[tuple[str, ...], str] = {
    ("metadata", "ownerReferences"): "uid",
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
    ("spec", "template", "spec", "containers"): "name",
}
# Lists of scalars that are merged as sets.
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
    """Apply an RFC 6902 patch, all of it or nothing.

    Raises ApiError 400 for a patch that is not a list, 422 for an operation that is malformed or does not apply.
    """
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    document: Any = copied(target)
    try:
        for operation in jsonpatch.JsonPatch(operations):
            document = jsonpatch.apply_patch(document, _by_the_rfc(document, operation), in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise _failed() from error
    if not isinstance(document, dict):
        raise _failed()
    return document


def _failed() -> ApiError:
    """The API server does not return the cause of a failed JSON patch."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def _by_the_rfc(document: Any, operation: Json) -> list[Json]:
    """An operation of the API server's library, https://github.com/evanphx/json-patch, as operations of RFC 6902.

    The library takes a missing value for null, adds the absent member that a `replace` names, and an absent member
    passes a `test` for null.
    """
    operation = {"value": None, **operation}
    parent, member = jsonpatch.JsonPointer(operation["path"]).to_last(document)
    if isinstance(parent, dict) and member is not None and member not in parent:
        if operation["op"] == "replace":
            return [{**operation, "op": "add"}]
        if operation["op"] == "test" and operation["value"] is None:
            return []
    return [operation]


def strategic(target: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    """Apply a strategic merge patch, with `$patch` (replace, delete), `$deleteFromPrimitiveList`, `$setElementOrder`
    and `$retainKeys`. Lists in `MERGE_KEYS` and `MERGED_SETS` are merged, all others are replaced.

    Raises ApiError 500 for an unknown directive and for an element without its merge key.
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
