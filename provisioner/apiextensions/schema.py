"""Structural schemas of CRDs: pruning, defaulting, and validation of types, bounds and CEL rules.

Custom resources are processed in the order of the API server, with its error messages. A value that was already invalid
before an update is not an error (ratcheting), so that objects older than a change of their CRD can be updated. A schema
is compiled once.

Sources: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/ (pruning,
defaulting, ratcheting); messages from https://github.com/kubernetes/kube-openapi and from apimachinery's
`util/validation/field`.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jsonschema_rs

from provisioner.api.field_error import FieldError

from . import remedies
from .cel import compile_rules
from .formats import is_date_time
from .paths import Json, dotted

METADATA_FIELDS = frozenset(
    [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ]
)
# After one of these the API server does not evaluate the rules.
_BLOCKING = (
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
)
_UNCHECKED = FieldError(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class Schema:
    """The `openAPIV3Schema` of one version.

    Raises ValueError, CELParseError or ValidationError if it does not compile.
    """

    def __init__(self, openapi: Json) -> None:
        self.openapi = openapi
        self._validator = jsonschema_rs.Draft4Validator(
            _json_schema(openapi), validate_formats=True, formats={"date-time": is_date_time}
        )
        self._rules = compile_rules(openapi)
        self._keyed = list(_keyed_lists(openapi, ()))

    def shape(self, obj: Json, unknown: list[str]) -> Json:
        """Prune unknown fields and set defaults; the paths of unknown fields are appended to `unknown`."""
        envelope: Json = {k: obj[k] for k in ("apiVersion", "kind") if k in obj}
        if isinstance(obj.get("metadata"), dict):
            envelope["metadata"] = known_metadata(obj["metadata"], unknown)
        body = {k: v for k, v in obj.items() if k not in {"apiVersion", "kind", "metadata"}}
        properties = {k: v for k, v in self.openapi.get("properties", {}).items() if k not in envelope}
        shaped = _shape(body, {**self.openapi, "properties": properties}, "", unknown)
        return {**envelope, **shaped}

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """All errors of the API server for `obj` as an update of `old`; `old` is None for a new object."""
        errors = self.validate_values(obj, old)
        if any(error.reason in _BLOCKING for error in errors):
            return [*errors, _UNCHECKED]
        return [*errors, *self.validate_rules(obj, old)]

    def validate_values(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Violations of types, formats, bounds, required fields and unique keys."""
        violations = [error for error in self._validator.iter_errors(obj) if not _is_ratcheted(error, obj, old)]
        errors = [_field_error(violation) for violation in violations]
        for path, keys in self._keyed:
            errors += _duplicates(_at(obj, path), ".".join(path), keys)
        return errors

    def validate_rules(self, obj: Json, old: Json | None, invalid: Sequence[str] = ()) -> list[FieldError]:
        """Violations of CEL rules; rules on values that contain `invalid` fields are not evaluated."""
        return [*self._rules.violations(obj, old, "", invalid)] if self._rules else []


def _is_ratcheted(error: jsonschema_rs.ValidationError, obj: Json, old: Json | None) -> bool:
    """Whether the invalid value is the same in `old`; within a list, whether the whole list is the same."""
    new_value: Any = obj
    old_value: Any = old
    for part in error.instance_path:
        if not (isinstance(new_value, dict) and isinstance(old_value, dict)):
            break
        new_value, old_value = new_value.get(part), old_value.get(part)
    return old is not None and new_value == old_value


def _keyed_lists(schema: Json, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The path and the keys of each list of type map; lists within lists are not supported."""
    if schema.get("x-kubernetes-list-type") == "map":
        yield path, tuple(schema["x-kubernetes-list-map-keys"])
    for name, below in schema.get("properties", {}).items():
        yield from _keyed_lists(below, (*path, name))


def _at(obj: Json, path: tuple[str, ...]) -> object:
    """The value at a path of field names, None where the path ends early."""
    value: Any = obj
    for field in path:
        value = value.get(field) if isinstance(value, dict) else None
    return value


def _duplicates(items: object, path: str, keys: tuple[str, ...]) -> Iterator[FieldError]:
    seen: list[Json] = []
    for index, item in enumerate(items if isinstance(items, list) else ()):
        found = {key: item[key] for key in keys if key in item} if isinstance(item, dict) else {}
        if found and found in seen:
            yield FieldError(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown(found)}")
        seen.append(found)


def known_metadata(metadata: Json, unknown: list[str]) -> Json:
    """Prune `metadata` to the fields of ObjectMeta; the paths of other fields are appended to `unknown`."""
    unknown.extend(f"metadata.{name}" for name in metadata if name not in METADATA_FIELDS)
    return {name: value for name, value in metadata.items() if name in METADATA_FIELDS}


def _shape(value: Any, schema: Json, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        return [_shape(v, items, f"{path}[{i}]", unknown) for i, v in enumerate(value)] if items else value
    if not isinstance(value, dict):
        is_whole = isinstance(value, float) and value.is_integer() and schema.get("type") == "integer"
        return int(value) if is_whole else value
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    shaped: Json = {}
    for name, field in value.items():
        where = f"{path}.{name}" if path else name
        below = properties.get(name) or (extra if isinstance(extra, dict) else None)
        if below is None:
            if keeps_all:
                shaped[name] = field
            else:
                unknown.append(where)
        elif field is not None or below.get("nullable"):
            shaped[name] = _shape(field, below, where, unknown)
    for name, below in properties.items():
        if name not in shaped and "default" in below:
            shaped[name] = _shape(copy.deepcopy(below["default"]), below, path, unknown)
    return shaped


_DROPPED = ("default", "description", "title", "example", "externalDocs", "nullable")


def _json_schema(schema: Json) -> Json:
    """A structural schema as JSON Schema draft 4, where exclusive bounds are booleans as in OpenAPI v3."""
    result: Json = {}
    for word, value in schema.items():
        if word in _DROPPED or word.startswith("x-"):
            continue
        if word == "properties":
            result[word] = {name: _json_schema(below) for name, below in value.items()}
        elif word in {"allOf", "anyOf", "oneOf"}:
            result[word] = [_json_schema(below) for below in value]
        elif word in {"items", "additionalProperties", "not"} and isinstance(value, dict):
            result[word] = _json_schema(value)
        else:
            result[word] = value
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("anyOf", None)
        result["type"] = ["integer", "string"]
    if "integer" in result.get("type", ()):
        # Others are no integers for the API server, nor for CEL.
        result = {"minimum": -(2**63), "maximum": 2**63 - 1, **result}
    if schema.get("nullable"):
        kinds = result.get("type", "object")
        result["type"] = [*(kinds if isinstance(kinds, list) else [kinds]), "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    return result


def _field_error(error: jsonschema_rs.ValidationError) -> FieldError:
    """An error of the validator with the message of kube-openapi."""
    path, value, limit = dotted(error.instance_path), cast("Any", error.instance), error.kind.as_dict()
    invalid = f"Invalid value: {shown(value)}: {path} in body should "
    match error.kind.name:
        case "required":
            return FieldError(f"{path}.{limit['property']}".lstrip("."), "FieldValueRequired", "Required value")
        case "type":
            found = _type_name(value)
            wanted = ",".join(kind for kind in limit["types"] if kind != "null")
            message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
            return FieldError(path, "FieldValueTypeInvalid", message, remedy=remedies.of_type(limit["types"], value))
        case "enum":
            options = ", ".join(shown(option) for option in limit["options"])
            message = f"Unsupported value: {shown(value)}: supported values: {options}"
            remedy = remedies.of_values(limit["options"], value)
            return FieldError(path, "FieldValueNotSupported", message, remedy=remedy)
        case "maxLength":
            return FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {limit['limit']} bytes")
        case "maxItems" | "maxProperties":
            message = f"Too many: {len(value)}: must have at most {limit['limit']} items"
            return FieldError(path, "FieldValueTooMany", message)
        case "pattern":
            message, remedy = f"{invalid}match '{limit['pattern']}'", remedies.of_pattern(limit["pattern"])
            return FieldError(path, "FieldValueInvalid", message, remedy=remedy)
        case "minLength":
            return FieldError(path, "FieldValueInvalid", f"{invalid}be at least {limit['limit']} chars long")
        case "minItems":
            return FieldError(path, "FieldValueInvalid", f"{invalid}have at least {limit['limit']} items")
        case "minimum" | "maximum" as bound:
            relation = "greater" if bound == "minimum" else "less"
            message = f"{invalid}be {relation} than or equal to {limit['limit']}"
            remedy = f"set it to {limit['limit']} or {'more' if bound == 'minimum' else 'less'}"
            return FieldError(path, "FieldValueInvalid", message, remedy=remedy)
        case "format":
            message = f"Invalid value: {shown(value)}: {path} in body must be of type {limit['format']}: {shown(value)}"
            return FieldError(path, "FieldValueTypeInvalid", message)
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {shown(value)}: {error.message}")


def shown(value: object) -> str:
    """A value as `field.Error` prints it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _type_name(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")
