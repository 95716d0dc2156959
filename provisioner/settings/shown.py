"""Settings as text, and the error of invalid settings. All of it masks credentials in addresses."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import msgspec

from provisioner.api.field_error import FieldError
from provisioner.api.repair_policy import RepairPolicy
from provisioner.api.text import printable
from provisioner.api.time import format_duration
from provisioner.runtime.redaction import MASK, redact

from . import kinds, repair_policies
from .option import Option

SHOWN_CHARACTERS = 200
_CREDENTIALS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", re.DOTALL)


class SettingsError(Exception):
    """All invalid settings, in `errors`; values are masked. As text: two lines for each, the second is the remedy."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        count = len(self.errors)
        head = "1 setting is invalid:" if count == 1 else f"{count} settings are invalid:"
        return "\n".join(
            (head, *(f"  {printable(f'{text}: {why}')}\n    {remedy}" for text, why, remedy in self.lines()))
        )

    def lines(self) -> Iterable[tuple[str, str, str]]:
        """Settings, cause and remedy; successive settings with the same cause and remedy are one entry."""
        for (why, remedy), group in groupby(self.errors, lambda error: (error.message, error.remedy)):
            yield ", ".join(map(assignment, group)), why, remedy


def assignment(error: FieldError) -> str:
    """The setting and its value as `name=value`."""
    return f"{error.field}={error.value}" if error.value else error.field


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as text, with credentials masked. `env`: its variables; `error`: why it is missing or invalid."""

    setting: str
    value: str
    source: str
    env: tuple[str, ...]
    error: str = ""
    remedy: str = ""


def describe_values(
    options: Iterable[Option], values: Mapping[str, Any], origins: Mapping[str, str]
) -> list[Described]:
    """Every setting in the order of the options; `values` and `origins` are by field."""
    return [
        Described(
            setting=option.flag,
            value=_value_of(option, values),
            source=origins.get(option.field, "default"),
            env=option.env,
        )
        for option in options
    ]


def _value_of(option: Option, values: Mapping[str, Any]) -> str:
    if option.field == "deployment_mode" and values["azure_cli"]:
        return "(your own login, az login, because the process runs outside a Pod)"
    return shown(values[option.field], option.kind) or f"({option.unset or 'none'})"


def shown(value: Any, kind: kinds.Kind = kinds.DURATION) -> str:
    """A value as text, with credentials masked. A number with a fraction is a duration unless its kind is another."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return format_duration(value) if kind is kinds.DURATION else f"{value:g}"
        case (RepairPolicy(), *_):
            return repair_policies.text_of(value)
        case msgspec.Struct() | (msgspec.Struct(), *_):
            return msgspec.json.encode(value).decode()[:SHOWN_CHARACTERS]
        case tuple():
            return ",".join(f"{name}={shown(on)}" for name, on in value)
    return masked(str(value))


def masked(value: str) -> str:
    """The text without user information before an `@` (passwords of proxies), and without tokens."""
    return redact(_CREDENTIALS.sub(rf"\1{MASK}@", value))[:SHOWN_CHARACTERS]
