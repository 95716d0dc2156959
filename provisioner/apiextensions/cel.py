"""CEL validation rules of a CRD (`x-kubernetes-validations`), transition rules included.

Each expression is compiled once, and evaluated once for each pair of values: rules are pure. A rule that fails to
evaluate rejects the object. Transition rules (those with `oldSelf`) apply to updates only, and not within lists, where
old and new items cannot be correlated. All other rules are skipped for a value that an update does not change. Cost
limits are not implemented.

Sources: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules;
messages from apiextensions-apiserver's `schema/cel`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import celpy
import msgspec
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from provisioner.api.field_error import FieldError

from .paths import Json, is_within


def _find(text: celtypes.StringType, pattern: celtypes.StringType) -> celtypes.StringType:
    """The function `find` of Kubernetes' CEL library: the first match, or an empty string."""
    found = re.search(str(pattern), str(text))
    return celtypes.StringType(found.group(0) if found else "")


_ENVIRONMENT = celpy.Environment(runner_class=celpy.InterpretedRunner)
_FUNCTIONS: dict[str, Any] = {"find": _find}
_ABSENT = b""


class Expression:
    """A compiled expression over `self` and, for transition rules, `oldSelf`. Calling it raises CELEvalError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_transition = re.search(r"\boldSelf\b", text) is not None
        program = _ENVIRONMENT.program(_ENVIRONMENT.compile(text), functions=_FUNCTIONS)

        @lru_cache(maxsize=2048)
        def evaluate(new: bytes, old: bytes) -> object:
            values = {"self": json_to_cel(msgspec.json.decode(new))}
            if old is not _ABSENT:
                values["oldSelf"] = json_to_cel(msgspec.json.decode(old))
            return program.evaluate(values)

        self._evaluate = evaluate

    def __call__(self, new: object, old: object) -> object:
        encoded_old = msgspec.json.encode(old) if self.is_transition else _ABSENT
        return self._evaluate(msgspec.json.encode(new), encoded_old)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule and the message of its violation."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str

    def violation(self, new: object, old: object, path: str, kind: str) -> FieldError | None:
        """The error if `new` violates the rule."""
        if old is None if self.expression.is_transition else old is not None and new == old:
            return None
        try:
            if self.expression(new, old):
                return None
            message = self._violation_message(new, old)
        except CELEvalError as error:
            message = f"{_cel_go_message(str(error.args[0]))} evaluating rule: {self.message}"
        return FieldError(path + self.field_path, self.reason, _printed(self.reason, kind, message))

    def _violation_message(self, new: object, old: object) -> str:
        return str(self.message_expression(new, old)) if self.message_expression else self.message


def _cel_go_message(text: str) -> str:
    """The error message of cel-go for an error message of celpy."""
    text = re.sub(r"^no such member in mapping: '(.*)'$", r"no such key: \1", text)
    return "type conversion error from 'string' to 'int'" if text == "return error for overflow" else text


def _printed(reason: str, kind: str, message: str) -> str:
    """The message as `field.Error` prints it for each reason; of the value it prints only the type."""
    match reason:
        case "FieldValueForbidden":
            return f"Forbidden: {message}"
        case "FieldValueRequired":
            return f"Required value: {message}"
        case "FieldValueDuplicate":
            return f'Duplicate value: "{kind}"'
    return f'Invalid value: "{kind}": {message}'


@dataclass(slots=True)
class Rules:
    """The rules of one schema node and of the nodes below it."""

    kind: str = "object"
    own: list[Rule] = field(default_factory=list)
    properties: dict[str, "Rules"] = field(default_factory=dict)
    items: "Rules | None" = None
    values: "Rules | None" = None

    def violations(self, new: object, old: object, path: str, invalid: Sequence[str]) -> Iterator[FieldError]:
        """The errors of all violated rules, outermost first; rules on values with `invalid` fields are skipped."""
        for rule in () if any(is_within(name, path) for name in invalid) else self.own:
            error = rule.violation(new, old, path or "<nil>", self.kind)
            if error is not None:
                yield error
        if isinstance(new, list) and self.items is not None:
            for index, item in enumerate(new):
                yield from self.items.violations(item, item if new == old else None, f"{path}[{index}]", invalid)
        elif isinstance(new, dict):
            before = old if isinstance(old, dict) else {}
            for name, value in new.items():
                below = self.properties.get(name) or self.values
                if below is not None and value is not None:
                    yield from below.violations(value, before.get(name), f"{path}.{name}" if path else name, invalid)


def compile_rules(schema: Json) -> Rules | None:
    """Compile the rules of a structural schema; None if it has none. Raises CELParseError."""
    items, values = schema.get("items"), schema.get("additionalProperties")
    rules = Rules(
        kind=schema.get("type", "object"),
        own=[_rule(rule) for rule in schema.get("x-kubernetes-validations", [])],
        properties={name: r for name, below in schema.get("properties", {}).items() if (r := compile_rules(below))},
        items=compile_rules(items) if isinstance(items, dict) else None,
        values=compile_rules(values) if isinstance(values, dict) else None,
    )
    return rules if rules.own or rules.properties or rules.items or rules.values else None


def _rule(rule: Json) -> Rule:
    message_expression = rule.get("messageExpression")
    return Rule(
        expression=Expression(rule["rule"]),
        message=rule.get("message") or f"failed rule: {rule['rule']}",
        message_expression=Expression(message_expression) if message_expression else None,
        reason=rule.get("reason", "FieldValueInvalid"),
        field_path=rule.get("fieldPath", ""),
    )
