"""Settings whose value is a JSON document of a typed shape.

A field that the type does not have is an error: decoding would leave it out, and the setting would lack an effect that
its author expects.

Source: docs/references/kubernetes.md#nvsentinel, docs/references/kubernetes.md#readiness-rules,
https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/tag-resources (limits of tags).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from provisioner.api import readiness_errors
from provisioner.api.nvsentinel import NVSentinel
from provisioner.api.readiness import SelectedReadinessRule

from .kinds import Kind

T = TypeVar("T")
# Of the 50 tags of a resource, three are the controller's, and a node class may have its own.
TAGS_MAX = 20
KEY_CHARACTERS, VALUE_CHARACTERS = 512, 256
_FORBIDDEN = re.compile(r"[<>%&\\?/\x00-\x1f\x7f]")
_RESERVED = re.compile(r"gpu-provisioner_|microsoft|azure|windows", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_CONDITION_TYPE = re.compile(r"([-.a-z0-9]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _structured(kind: type[T], errors: Callable[[T], Iterable[object]], expects: str) -> Kind:
    """`errors` finds what the type cannot express. Reading raises ValueError with all unknown fields and errors."""

    def read(written: str) -> T:
        try:
            document = msgspec.json.decode(written)
        except msgspec.DecodeError as error:
            raise ValueError(f"it is not JSON: {error}") from None
        try:
            found = msgspec.convert(document, kind)
        except msgspec.ValidationError as error:
            raise ValueError(f"a value has another type: {error}") from None
        unknown = (f"{place}: there is no such field" for place in _unknown_fields(document, kind, ""))
        if wrong := [*unknown, *map(str, errors(found))]:
            raise ValueError("; ".join(wrong))
        return found

    return Kind(read=read, expects=expects)


def _unknown_fields(value: Any, kind: Any, place: str) -> Iterator[str]:
    if isinstance(value, list) and get_origin(kind) is tuple:
        for number, one in enumerate(value):
            yield from _unknown_fields(one, get_args(kind)[0], f"{place}[{number}]")
    elif isinstance(value, dict):
        structs = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
        if structs:
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(structs[0])}
            for name, one in value.items():
                if name not in fields:
                    yield f"{place}.{name}"
                else:
                    yield from _unknown_fields(one, fields[name], f"{place}.{name}")


def _nvsentinel_errors(found: NVSentinel) -> Iterator[str]:
    names = {"group": found.group, "version": found.version, "terminateResource": found.terminate_resource}
    if found.reboot_resource:
        names["rebootResource"] = found.reboot_resource
    for field, value in names.items():
        if _NAME.fullmatch(value) is None:
            yield f'{field}: "{value}" is no name of the API: use lower case letters, digits, "-" and "."'
    types = {
        "terminateConditionType": found.terminate_condition_type,
        "rebootConditionType": found.reboot_condition_type,
    }
    for field, value in types.items():
        if _CONDITION_TYPE.fullmatch(value) is None:
            yield f'{field}: "{value}" is no type of a condition: use one such as NodeTerminated'


def _tag_errors(tags: Mapping[str, str]) -> Iterator[str]:
    if len(tags) > TAGS_MAX:
        yield f"it has {len(tags)} tags, and at most {TAGS_MAX} are possible: remove some"
    if len({key.casefold() for key in tags}) < len(tags):
        yield "two keys differ only in case, which Azure ignores: keep one of them"
    for key, value in tags.items():
        if not 0 < len(key) <= KEY_CHARACTERS or _FORBIDDEN.search(key):
            yield f"key {key[:64]!r}: use 1 to {KEY_CHARACTERS} characters, none of < > % & \\ ? /"
        elif _RESERVED.match(key):
            yield f"key {key[:64]!r}: the prefixes gpu-provisioner_, microsoft, azure and windows are reserved"
        if len(value) > VALUE_CHARACTERS:
            yield f"value of {key[:64]!r}: use at most {VALUE_CHARACTERS} characters"


NVSENTINEL = _structured(
    NVSentinel, _nvsentinel_errors, 'a JSON object such as {"version":"v1alpha1"}; {} for all defaults'
)
READINESS_RULES = _structured(
    tuple[SelectedReadinessRule, ...],
    lambda rules: readiness_errors.errors(rules, ""),
    'a JSON list such as [{"taint":{"key":"example.com/wait","effect":"NoSchedule"},'
    '"until":{"condition":{"type":"GPUReady"}}}]',
)
TAGS = _structured(dict[str, str], _tag_errors, 'a JSON object of texts, such as {"cost-center": "42"}')
