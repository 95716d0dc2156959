"""Server-side apply: merges the fields that a manager sends, and removes those that it sent before and no longer sends.

Ownership is stored in `metadata.managedFields`, for managers that apply; writes by other requests own nothing here, so
they never conflict, other than on kube-apiserver. Lists are atomic, except finalizers. Pure.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import ApiError
from .objects import Json, copied

Path = tuple[str, ...]
Owned = dict[str, frozenset[Path]]
CONTENT_TYPE = "application/apply-patch+yaml"
_FINALIZERS = ("metadata", "finalizers")
# Fields of the object's identity belong to no manager.
_IDENTITY = {
    ("apiVersion",),
    ("kind",),
    *(("metadata", name) for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")),
    ("metadata", "managedFields"),
}


def applied(old: Json | None, sent: Json, *, manager: str, force: bool, now: str) -> Json:
    """The object after this manager applied `sent`. Raises ApiError 409 for conflicts, without `force`."""
    before: Json = copied(old) if old is not None else {}
    owners = _owners(before)
    wanted = frozenset(path for path in _paths(sent) if path not in _IDENTITY)
    conflicts = {
        (other, path)
        for other, paths in owners.items()
        for path in paths & wanted
        if other != manager and _get(before, path) != _get(sent, path)
    }
    if conflicts and not force:
        raise _conflict(sorted(conflicts))
    lost = {path for _, path in conflicts}
    others = {other: paths - lost for other, paths in owners.items() if other != manager}
    kept = frozenset().union(*others.values()) if others else frozenset[Path]()
    result: Json = _merged(before, sent, ())
    for path in owners.get(manager, frozenset()) - wanted - kept:
        _remove(result, path)
    entries = {**others, manager: wanted}
    result["metadata"]["managedFields"] = [
        _entry(name, paths, before, sent, now) for name, paths in sorted(entries.items()) if paths
    ]
    return result


def _paths(value: Json, at: Path = ()) -> Iterator[Path]:
    for name, below in value.items():
        if isinstance(below, dict) and below:
            yield from _paths(below, (*at, name))
        else:
            yield (*at, name)


def _merged(target: Any, sent: Any, at: Path) -> Any:
    if at == _FINALIZERS:
        return [*(target or []), *(one for one in sent if one not in (target or []))]
    if not isinstance(sent, dict):
        return sent
    found = dict(target) if isinstance(target, dict) else {}
    return found | {name: _merged(found.get(name), below, (*at, name)) for name, below in sent.items()}


def _get(value: Any, path: Path) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _remove(value: Json, path: Path) -> None:
    """Remove the field, and the maps that are empty then."""
    if len(path) > 1 and isinstance(value.get(path[0]), dict):
        _remove(value[path[0]], path[1:])
        if not value[path[0]]:
            del value[path[0]]
    elif len(path) == 1:
        value.pop(path[0], None)


def _owners(obj: Json) -> Owned:
    entries = (obj.get("metadata") or {}).get("managedFields") or ()
    return {entry["manager"]: frozenset(_read(entry["fieldsV1"])) for entry in entries}


def _read(fields: Mapping[str, Any], at: Path = ()) -> Iterator[Path]:
    for name, below in fields.items():
        path = (*at, name.removeprefix("f:"))
        if below:
            yield from _read(below, path)
        else:
            yield path


def _entry(manager: str, paths: frozenset[Path], before: Json, sent: Json, now: str) -> Json:
    """The entry of one manager; its time changes only with its fields."""
    fields: Json = {}
    for path in sorted(paths):
        place = fields
        for name in path:
            place = place.setdefault(f"f:{name}", {})
    old = next((e for e in (before.get("metadata") or {}).get("managedFields") or () if e["manager"] == manager), None)
    if old is not None and old["fieldsV1"] == fields:
        return dict(old)
    head = {"manager": manager, "operation": "Apply", "apiVersion": sent["apiVersion"], "time": now}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields}


def _conflict(conflicts: list[tuple[str, Path]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{other}"', "field": f".{'.'.join(path)}"}
        for other, path in conflicts
    ]
    count = f"{len(causes)} conflict{'' if len(causes) == 1 else 's'}"
    listed = "\n".join(f"- {cause['field']}" for cause in causes)
    head = causes[0]["message"]
    message = f"Apply failed with {count}: {head}: {causes[0]['field']}"
    if len(causes) > 1:
        message = f"Apply failed with {count}: conflicts with {head.removeprefix('conflict with ')}:\n{listed}"
    return ApiError(409, "Conflict", message, {"causes": causes})
