"""Validation of the manifests that `plan` reads against their CRDs, in the words of the API server.

Each error has a remedy, and the value, of which the API server often states only the type. All errors of a manifest are
returned at once: unlike the API server, which evaluates CEL rules only for objects without other errors, this module
evaluates each rule whose own value is valid.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from controllers.provisioning.instances import WELL_KNOWN
from provisioner.api.crd import nodeclaim_crd, nodeoverlay_crd, nodepool_crd
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd
from provisioner.api.field_error import FieldError
from provisioner.apiextensions.paths import Json, is_within
from provisioner.apiextensions.remedies import of_rule
from provisioner.apiextensions.schema import METADATA_FIELDS, Schema, shown

_CRDS = {
    "nodeclaim": nodeclaim_crd,
    "nodepool": nodepool_crd,
    "nodeoverlay": nodeoverlay_crd,
    "agentpoolnodeclass": agentpoolnodeclass_crd,
}
SHOWN_CHARACTERS = 80
# How similar a label is to a known one that is probably meant.
MEANT = 0.85
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_TYPE_ONLY = re.compile(r'^Invalid value: "(string|integer|number|boolean)":')
_STRINGS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
# The API server validates ObjectMeta itself; a CRD only declares an object.
_METADATA = {name: Json() for name in METADATA_FIELDS} | {
    "name": {"type": "string", "maxLength": 253, "pattern": _NAME},
    "labels": _STRINGS,
    "annotations": _STRINGS,
}
_REMEDIES = {
    "FieldValueRequired": "add it",
    "FieldValueNotSupported": "use one of the supported values",
    "FieldValueTooLong": "shorten it",
    "FieldValueTooMany": "remove the excess items",
}


def claim_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """What the API server would refuse, or drop, of a new NodeClaim; sorted by field."""
    return _errors("nodeclaim", manifest)


def node_class_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """What the API server would refuse, or drop, of a new AgentPoolNodeClass; sorted by field."""
    return _errors("agentpoolnodeclass", manifest)


def node_pool_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """What the API server would refuse, or drop, of a new NodePool; sorted by field."""
    return _errors("nodepool", manifest)


def node_overlay_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """What the API server would refuse, or drop, of a new NodeOverlay; sorted by field."""
    return _errors("nodeoverlay", manifest)


def unreported(errors: Iterable[FieldError], reported: Iterable[FieldError]) -> Iterator[FieldError]:
    """Those of the controller for whose field, or a part of it, the API server has none.

    The API server names the fields of a map as `spec.limits.cpu`, the controller as `spec.limits[cpu]`.
    """
    fields = {_dotted(error.field) for error in reported}
    return (error for error in errors if not any(is_within(one, _dotted(error.field)) for one in fields))


def _dotted(field: str) -> str:
    return field.replace("[", ".").replace("]", "")


def _errors(kind: str, manifest: Mapping[str, Any]) -> list[FieldError]:
    schema = _schema(kind)
    unknown: list[str] = []
    shaped = schema.shape(dict(manifest), unknown)
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict):
        shaped["metadata"] = {name: value for name, value in shaped["metadata"].items() if value is not None}
    elif metadata is not None:
        shaped["metadata"] = metadata
    errors = schema.validate_values(shaped, None)
    errors += schema.validate_rules(shaped, None, invalid=[error.field for error in errors])
    errors += [
        FieldError(path, "FieldValueInvalid", "unknown field", remedy=_unknown_remedy(kind, path)) for path in unknown
    ]
    return sorted((_completed(kind, error, manifest) for error in errors), key=lambda error: error.field)


def _completed(kind: str, error: FieldError, manifest: Mapping[str, Any]) -> FieldError:
    value = _value(manifest, error.field)
    message = error.message
    if isinstance(value, str | bool | int | float):
        message = _TYPE_ONLY.sub(lambda _: f"Invalid value: {shown(value)[:SHOWN_CHARACTERS]}:", message, count=1)
    remedy = error.remedy or _remedy(kind, error, value)
    return replace(error, message=message, value=_shown(value), remedy=remedy)


@cache
def _schema(kind: str) -> Schema:
    schema = _CRDS[kind]()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    metadata = {"type": "object", "properties": _METADATA}
    return Schema({**schema, "properties": {**schema["properties"], "metadata": metadata}})


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode() if value is not None else ""
    return text[:SHOWN_CHARACTERS]


def _value(value: Any, path: str) -> Any:
    """The value at a path; keys of labels and resources contain dots and slashes themselves."""
    if path and isinstance(value, list):
        index, _, rest = path[1:].partition("]")
        return _value(value[int(index)], rest.removeprefix("."))
    if path and isinstance(value, dict):
        name = next((name for name in value if is_within(path, name)), None)
        return None if name is None else _value(value[name], path[len(name) :].removeprefix("."))
    return None if path else value


def _remedy(kind: str, error: FieldError, value: Any) -> str:
    if error.message.endswith("is restricted"):
        near = get_close_matches(value, WELL_KNOWN, n=1, cutoff=MEANT) if isinstance(value, str) else []
        label = error.field.endswith("labels")
        return f"did you mean {near[0]}?" if near else f"remove this {'label' if label else 'requirement'}"
    declared, _ = _declared(kind, error.field)
    explained = f"correct it, see: kubectl explain {'.'.join((kind, *declared))}"
    return of_rule(error.message) or _REMEDIES.get(error.reason, explained)


def _unknown_remedy(kind: str, path: str) -> str:
    _, known = _declared(kind, path)
    near = get_close_matches(path.rpartition(".")[2], known, n=1)
    return f"write {near[0]}" if near else f"remove it; the fields here are {', '.join(sorted(known))}"


def _declared(kind: str, path: str) -> tuple[list[str], list[str]]:
    """The part of a path that the CRD declares, and the names of the fields that it declares below that part."""
    names: list[str] = []
    node = _schema(kind).openapi
    for name in re.sub(r"\[\d+\]", "", path).split("."):
        below = node.get("properties", {}).get(name)
        if below is None:
            break
        names.append(name)
        node = below.get("items", below)
    return names, [*node.get("properties", {})]
