"""Validation of an object before it is stored.

All causes are in one 422, those of metadata first. Creation is rejected in a terminating namespace, and for a CRD
that is being deleted.

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
    """Raises ApiError 422 if `new` is invalid, or as an update of `old`. `sent_meta`: the metadata in the request."""
    causes = list(builtin_validation.metadata(new["metadata"], built_in=kind.schema is None))
    if old is not None:
        causes += builtin_validation.metadata_change(new["metadata"], old["metadata"], sent_meta or {})
    causes += kind.check(new, old)
    if kind.schema is not None:
        causes += kind.schema.validate(new, old)
    if causes:
        raise _refusal(kind, new, causes)


def require_version(kind: Resource, sent: Json, old: Json) -> None:
    """Raises ApiError 422 for a PUT without resourceVersion, for kinds that require it."""
    if kind.needs_version and not (sent.get("metadata") or {}).get("resourceVersion"):
        words = "Invalid value: 0: must be specified for an update"
        causes = [FieldError("metadata.resourceVersion", "FieldValueInvalid", words)]
        raise invalid(kind.group, kind.plural, old["metadata"]["name"], causes)


def require_place(kind: Resource, name: str, namespace: Json | None, crd: Json | None) -> None:
    """Raises ApiError 403 or 405 for a create in a terminating namespace, or of a kind whose CRD is being deleted."""
    if namespace is not None and "deletionTimestamp" in namespace["metadata"]:
        place = namespace["metadata"]["name"]
        why = f"unable to create new content in namespace {place} because it is being terminated"
        raise forbidden(kind.key, name, why)
    if crd is not None and "deletionTimestamp" in crd["metadata"]:
        words = "create not allowed while custom resource definition is terminating"
        raise ApiError(405, "MethodNotAllowed", words, {"group": kind.group, "kind": kind.plural})


def _refusal(kind: Resource, obj: Mapping[str, Json], causes: list[FieldError]) -> ApiError:
    return invalid(kind.group, kind.kind, obj["metadata"].get("name", ""), causes)
