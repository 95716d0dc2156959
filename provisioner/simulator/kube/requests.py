"""Parses a request: path, query and Accept header, as kube-apiserver does.

Pure; an invalid request is an ApiError with the status of kube-apiserver (400, 404, 406, 415).

Source: https://github.com/kubernetes/apiserver/blob/master/pkg/endpoints/request/requestinfo.go,
https://github.com/kubernetes/apiserver/tree/master/pkg/endpoints/handlers/negotiation,
https://github.com/kubernetes/apimachinery/tree/master/pkg/conversion/queryparams.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from provisioner.api.field_error import FieldError

from .deletion import Propagation
from .errors import ApiError, bad_request, invalid_option, unsupported_media_type
from .objects import Json
from .patches import PatchKind
from .table import IncludeObject
from .writes import FieldValidation

Shape = Literal["object", "table"]

PATCH_TYPES: dict[str, PatchKind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The object in a path: `resource` is a key (`nodes`, `nodeclaims.karpenter.sh`); "" is a collection."""

    resource: str
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target(path: str) -> Target | None:
    """The object in a path; None if it is not a path of a resource."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = [*rest, "", ""][:3]
    return Target(f"{plural}.{group}" if group else plural, version, namespace, name, subresource)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean as in apimachinery: true unless absent, `false` or `0`."""
    return name in query and query[name].lower() not in {"false", "0"}


def number(query: Mapping[str, Any], name: str) -> int:
    """A whole number, as a number or as text; 0 if absent."""
    text = str(query.get(name) or "0")
    if not re.fullmatch(r"-?[0-9]+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _unsupported(options: str, field: str, shown: str, *supported: str) -> ApiError:
    words = ", ".join(f'"{value}"' for value in supported)
    return invalid_option(
        options, FieldError(field, "FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {words}")
    )


def field_validation(query: Mapping[str, str], options: str) -> FieldValidation:
    """The validation of unknown fields; the default is to warn. `options`: `CreateOptions` and the like."""
    text = query.get("fieldValidation") or "Warn"
    if text not in get_args(FieldValidation):
        raise _unsupported(options, "fieldValidation", f'"{text}"', "", "Ignore", "Strict", "Warn")
    return text  # type: ignore[return-value]


def dry_run(values: list[str], options: str) -> bool:
    """Whether it is a dry run; the only value is All."""
    if any(value != "All" for value in values if value):
        raise _unsupported(options, "dryRun", json.dumps(values), "All")
    return any(values)


def propagation(text: str | None) -> Propagation:
    """The propagation policy of a deletion."""
    if not text:
        return "Background"
    if text not in get_args(Propagation):
        raise _unsupported(
            "DeleteOptions", "propagationPolicy", f'"{text}"', "Foreground", "Background", "Orphan", "nil"
        )
    return text  # type: ignore[return-value]


def check_list(query: Mapping[str, str]) -> None:
    """Raises ApiError 422 for options of a list or a watch that contradict each other."""
    watching, match = flag(query, "watch"), query.get("resourceVersionMatch", "")
    version, streaming = query.get("resourceVersion", ""), "sendInitialEvents" in query
    # A watch with initial events is a streaming list.
    legacy = watching and not streaming and not match and version in {"", "0"}
    why = ""
    if watching and streaming and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif watching and match and not streaming:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif match and not watching and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif (match or legacy) and query.get("continue"):
        why = "resourceVersionMatch is forbidden when continue is provided"
    elif match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        raise invalid_option(
            "ListOptions", FieldError("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {why}")
        )
    if match not in {"", "Exact", "NotOlderThan"}:
        raise _unsupported("ListOptions", "resourceVersionMatch", f'"{match}"', "Exact", "NotOlderThan", "")


def include_object(query: Mapping[str, str]) -> IncludeObject:
    """How much of each object a Table contains."""
    text = query.get("includeObject") or "Metadata"
    if text not in get_args(IncludeObject):
        raise bad_request(f'Unsupported value: "{text}": supported values: "Object", "Metadata", "None"')
    return text  # type: ignore[return-value]


def media_types(header: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, in the client's order."""
    found = []
    for part in header.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        found.append((name, {key: value for key, _, value in pairs}))
    return found


def shape(header: str) -> Shape:
    """The first supported form in the Accept header. Raises ApiError 406."""
    for name, parameters in media_types(header or "*/*"):
        if name not in {"application/json", "application/*", "*/*"}:
            continue
        wanted = parameters.get("as")
        if wanted is None:
            return "object"
        if wanted == "Table" and parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1":
            return "table"
    message = "only the following media types are accepted: application/json"
    raise ApiError(406, "NotAcceptable", message)


def decode(body: bytes, content_type: str, kind: str, *, custom: bool = False) -> Json:
    """A JSON object of this kind from a request's body. Raises ApiError 415 for other formats, 400 for other JSON.

    The kind is required for custom resources; for built-in ones the path implies it.
    """
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    if content_type not in {"application/json", "application/octet-stream", ""}:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json; "
            f"this server does not read {content_type}"
        )
    decoded = _json(body, f"{unrecognized}: couldn't get version/kind; json parse error")
    if not isinstance(decoded, dict):
        raise bad_request(f"{unrecognized}: couldn't get version/kind; json parse error: json: cannot unmarshal")
    for field in ("kind", "apiVersion") if custom else ():
        if not decoded.get(field):
            words = f"Object '{field[0].upper()}{field[1:]}' is missing in '{body.decode(errors='replace')}'"
            raise bad_request(f"{unrecognized}: {words}")
    return decoded


def decode_patch(body: bytes, content_type: str, *, custom: bool) -> tuple[object, PatchKind]:
    """A patch and its kind. Custom resources do not support strategic merge."""
    how = PATCH_TYPES.get(content_type)
    if how is None or (custom and how == "strategic"):
        accepted = ", ".join(kind for kind, name in PATCH_TYPES.items() if not (custom and name == "strategic"))
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    patch = _json(body, "error decoding patch")
    if not isinstance(patch, list if how == "json" else dict):
        raise bad_request(f"error decoding patch: json: cannot unmarshal {type(patch).__name__} into Go value")
    return patch, how


def decode_apply(body: bytes) -> Json:
    """The object of a server-side apply. Raises ApiError 400."""
    try:
        sent = msgspec.yaml.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(sent, dict):
        raise bad_request("error decoding YAML: the body of an apply is an object")
    return sent


def field_manager(query: Mapping[str, str]) -> str:
    """The manager of a server-side apply. Raises ApiError 422."""
    manager = query.get("fieldManager", "")
    if not manager:
        why = "Required value: is required for apply patch"
        raise invalid_option("PatchOptions", FieldError("fieldManager", "FieldValueRequired", why))
    return manager


def _json(body: bytes, wrong: str) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"{wrong}: {error}") from error
