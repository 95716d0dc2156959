"""Pure functions from the stored and the sent object to the next version.

The rules are those of kube-apiserver. Clients cannot set the server's fields. The status subresource and the main
resource do not change each other's part. The generation counts changes of the desired state. uid and resourceVersion,
if sent, are preconditions.

Source: https://github.com/kubernetes/apiserver/tree/master/pkg/registry/rest (create, update),
https://github.com/kubernetes/kubernetes/tree/master/pkg/registry (strategies).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from provisioner.api.field_error import FieldError
from provisioner.apiextensions.schema import known_metadata

from . import builtin_decoding
from .errors import ApiError, bad_request, conflict, invalid, invalid_patch, stale
from .objects import Json
from .patches import PatchKind, json_patch, merge, strategic
from .resources import Resource

FieldValidation = Literal["Ignore", "Warn", "Strict"]
# Field, its type, and the type of what it holds.
_TYPES: tuple[tuple[str, type, type], ...] = (
    *((name, str, str) for name in ("name", "generateName", "namespace", "uid", "resourceVersion")),
    ("labels", dict, str),
    ("annotations", dict, str),
    ("finalizers", list, str),
    ("ownerReferences", list, dict),
)
_SENT_FIELDS = ("labels", "annotations", "ownerReferences", "finalizers")
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
_STANDARD_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes")
_PLAIN_FINALIZER = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _partitioned(_: str) -> None:
    """Ignores warnings."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query parameters of a write. `warn` gets unknown fields under `Warn`, for Warning headers."""

    dry_run: bool = False
    field_validation: FieldValidation = "Strict"
    warn: Callable[[str], None] = _partitioned


STRICT = WriteOptions()


def shaped(resource: Resource, obj: Json, options: WriteOptions) -> Json:
    """The object without unknown fields and with defaults.

    Raises ApiError 400 for values of the wrong types, and for unknown fields under Strict.
    """
    sent_meta, unknown = sent_metadata(resource, obj), list[str]()
    try:
        if resource.schema is not None:
            result = resource.schema.shape(obj, unknown)
        else:
            result = builtin_decoding.shape(
                resource.key, {**obj, "metadata": known_metadata(sent_meta, unknown)}, unknown
            )
    except ApiError as error:
        raise _unhandled(resource, error.message) from error
    words = [f'unknown field "{path}"' for path in sorted(unknown)]
    if words and options.field_validation == "Strict":
        raise _unhandled(resource, f"strict decoding error: {', '.join(words)}")
    if resource.schema is not None:
        for finalizer in sent_meta.get("finalizers") or ():
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
                options.warn(f'metadata.finalizers: "{finalizer}": {_PLAIN_FINALIZER}')
    if options.field_validation == "Warn":
        for word in words:
            options.warn(word)
    return result


def _unhandled(resource: Resource, why: str) -> ApiError:
    return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}')


def sent_metadata(resource: Resource, obj: Json) -> Json:
    """The metadata of a sent object. Raises ApiError 400 if its parts have the wrong types, as Go's decoder does."""
    meta = {} if obj.get("metadata") is None else obj["metadata"]
    wrong = [] if isinstance(meta, dict) else ["metadata"]
    for field, kind, inner in _TYPES if not wrong else ():
        value = kind() if meta.get(field) is None else meta[field]
        inside = value.values() if isinstance(value, dict) else value
        if not isinstance(value, kind) or not all(isinstance(item, inner) for item in inside):
            wrong.append(f"metadata.{field}")
    if wrong:
        raise _unhandled(resource, f"json: cannot unmarshal into Go struct field {wrong[0]}")
    return meta


def created(resource: Resource, sent: Json, *, name: str, namespace: str, uid: str, now: str) -> Json:
    """The new object, without its resourceVersion."""
    sent_meta = sent.get("metadata") or {}
    meta: Json = {"name": name}
    if resource.namespaced:
        meta["namespace"] = namespace
    meta |= {"uid": uid, "creationTimestamp": now}
    if resource.counts_generation:
        meta["generation"] = 1
    meta |= {
        field: sent_meta[field] for field in ("generateName", "managedFields", *_SENT_FIELDS) if sent_meta.get(field)
    }
    body = {k: v for k, v in sent.items() if k not in {"apiVersion", "kind", "metadata"}}
    if resource.has_status and resource.initial_status is not None:
        body.pop("status", None)
        if resource.initial_status:
            body["status"] = resource.initial_status
    if resource.key == "nodes":
        body["spec"] = _not_ready(body.get("spec") or {})
    if resource.key == "pods":
        body["spec"] = {"terminationGracePeriodSeconds": 30, **(body.get("spec") or {})}
        if body["spec"]["terminationGracePeriodSeconds"] < 0:
            body["spec"]["terminationGracePeriodSeconds"] = 1
        if body["spec"].get("schedulingGates"):
            body["status"] = {**body["status"], "conditions": [_GATED]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}


def _not_ready(spec: Json) -> Json:
    """The taint of a new Node, as set by the admission plugin TaintNodesByCondition."""
    taints = spec.get("taints") or []
    if any(taint.get("key") == NOT_READY_TAINT and taint.get("effect") == "NoSchedule" for taint in taints):
        return spec
    return {**spec, "taints": [*taints, {"key": NOT_READY_TAINT, "effect": "NoSchedule"}]}


def check_identity(resource: Resource, obj: Json, *, name: str, namespace: str) -> None:
    """Raises ApiError 400 if the sent object has another kind, name or namespace."""
    meta = sent_metadata(resource, obj)
    if (
        obj.get("kind", resource.kind) != resource.kind
        or obj.get("apiVersion", resource.api_version) != resource.api_version
    ):
        found = f"{obj.get('apiVersion')}, Kind={obj.get('kind')}"
        raise bad_request(
            f"the object provided is unrecognized: {found} does not match {resource.api_version}, Kind={resource.kind}"
        )
    if name and not meta.get("name"):
        words = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise bad_request(words)
    if name and meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if resource.namespaced and (meta.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


_PATCHES = {"merge": merge, "json": json_patch, "strategic": strategic}


def patched(resource: Resource, old: Json, patch: Any, how: PatchKind, options: WriteOptions) -> Json:
    """The patched object. Raises ApiError 422 if the result is not an object of this kind."""
    made = _PATCHES[how](old, patch)
    try:
        sent = shaped(resource, made, options)
    except ApiError as error:
        raise invalid_patch(made, error.message) from error
    causes = [
        FieldError(field, "FieldValueInvalid", f'Invalid value: "{sent.get(field)}": must be {right}')
        for field, right in (("kind", resource.kind), ("apiVersion", resource.api_version))
        if sent.get(field) != right
    ]
    if causes and resource.schema is not None:
        raise invalid(resource.group, str(sent.get("kind")), sent["metadata"].get("name", ""), causes)
    return sent


def check_uid(resource: Resource, old: Json, uid: str | None) -> None:
    """Raises ApiError 409 if the uid of a PUT differs."""
    meta = old["metadata"]
    if uid and uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise conflict(resource.key, meta["name"], why)


def check_version(resource: Resource, old: Json, revision: str | None) -> None:
    """Raises ApiError 409 if the resourceVersion of a write differs."""
    if revision and revision != old["metadata"]["resourceVersion"]:
        raise stale(resource.key, old["metadata"]["name"])


def check_preconditions(resource: Resource, old: Json, *, uid: str | None, revision: str | None) -> None:
    """Raises ApiError 409 if a precondition of a DELETE differs."""
    meta = old["metadata"]
    for word, requested, found, why in (
        ("UID", uid, meta["uid"], "The object might have been deleted and then recreated"),
        ("ResourceVersion", revision, meta["resourceVersion"], "The object might have been modified"),
    ):
        if requested and requested != found:
            words = f"the {word} in the precondition ({requested}) does not match the {word} in record ({found}). {why}"
            raise conflict(resource.qualified_kind, meta["name"], words)


def succeeded(resource: Resource, old: Json, sent: Json, subresource: str) -> Json:
    """The next version of `old`, with the old resourceVersion; equal to `old` if nothing changes."""
    old_meta, sent_meta = old["metadata"], sent.get("metadata") or {}
    if subresource == "status":
        meta = _moved(old_meta, sent_meta) if resource.status_moves_metadata else old_meta
        new = {**old, "metadata": meta}
        new.pop("status", None)
        if sent.get("status") is not None:
            new["status"] = sent["status"]
        return new
    if subresource == "binding":
        return {**old, "metadata": _moved(old_meta, sent_meta), "spec": sent["spec"], "status": sent["status"]}
    new = {"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": _moved(old_meta, sent_meta)}
    new |= {k: v for k, v in sent.items() if k not in new and not (k == "status" and resource.has_status)}
    if resource.has_status and "status" in old:
        new["status"] = old["status"]
    if resource.counts_generation and _wanted(new, resource) != _wanted(old, resource):
        new["metadata"]["generation"] = old_meta.get("generation", 0) + 1
    return new


def _wanted(obj: Json, resource: Resource) -> Json:
    """The desired state: everything except metadata and a separate status."""
    return {k: v for k, v in obj.items() if k != "metadata" and not (k == "status" and resource.has_status)}


def _moved(old_meta: Json, sent_meta: Json) -> Json:
    """The old metadata with the sent values of the fields that clients own."""
    kept = {k: v for k, v in old_meta.items() if k not in _SENT_FIELDS}
    if "managedFields" in sent_meta:
        kept["managedFields"] = sent_meta["managedFields"]
    return kept | {field: sent_meta[field] for field in _SENT_FIELDS if sent_meta.get(field)}
