"""The last word on an object before it is stored.

One 422 with all causes, metadata's first; nothing new where its namespace or its kind is ending.

Source: https://github.com/kubernetes/apiserver/tree/master/pkg/registry/rest (validation comes before the check whether
the name is taken).
"""

from collections.abc import Mapping

from provisioner.api.field_error import FieldError

from . import builtin_validation
from .errors import ApiError, forbidden, invalid
from .objects import Json
from .resources import Resource


def admit(kind: Resource, new: Json, old: Json | None, sent_meta: Json | None = None) -> None:
    """Raises ApiError 422 if `new` may not be, or may not follow `old`. `sent_meta`: what the writer sent of it."""
    causes = list(builtin_validation.metadata(new["metadata"], built_in=kind.schema is None))
    if old is not None:
        causes += builtin_validation.metadata_change(new["metadata"], old["metadata"], sent_meta or {})
    causes += kind.check(new, old)
    if kind.schema is not None:
        causes += kind.schema.validate(new, old)
    if causes:
        raise _refusal(kind, new, causes)


def require_version(kind: Resource, sent: Json, old: Json) -> None:
    """Raises ApiError 422 for a PUT that does not say what it replaces, where the kind asks for it."""
    if kind.needs_version and not (sent.get("metadata") or {}).get("resourceVersion"):
        words = "Invalid value: 0: must be specified for an update"
        causes = [FieldError("metadata.resourceVersion", "FieldValueInvalid", words)]
        raise invalid(kind.group, kind.plural, old["metadata"]["name"], causes)


def require_place(kind: Resource, name: str, namespace: Json | None, crd: Json | None) -> None:
    """Raises ApiError 403 or 405 for something new in a namespace, or of a kind, that is being removed."""
    if namespace is not None and "deletionTimestamp" in namespace["metadata"]:
        place = namespace["metadata"]["name"]
        why = f"unable to create new content in namespace {place} because it is being terminated"
        raise forbidden(kind.key, name, why)
    if crd is not None and "deletionTimestamp" in crd["metadata"]:
        words = "create not allowed while custom resource definition is terminating"
        raise ApiError(405, "MethodNotAllowed", words, {"group": kind.group, "kind": kind.plural})


def _refusal(kind: Resource, obj: Mapping[str, Json], causes: list[FieldError]) -> ApiError:
    return invalid(kind.group, kind.kind, obj["metadata"].get("name", ""), causes)
