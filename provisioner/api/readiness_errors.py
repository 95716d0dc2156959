"""Validation of readiness rules: those of the settings, and those of an AgentPoolNodeClass that another version of its
CRD accepted.

Source: docs/references/kubernetes.md#readiness-rules.
"""

import re
from collections.abc import Iterator, Sequence

from .crd_parts import CONDITION_TYPE, DRIVER, LABEL_VALUE, QUALIFIED_KEY
from .field_error import FieldError
from .jsonpath import JsonPath
from .readiness import (
    CONDITION_STATUSES,
    FOREIGN_TAINTS,
    OF_PLUGINS,
    RULES_MAX,
    TAINT_EFFECTS,
    TIMEOUT_ACTIONS,
    TIMEOUT_SECONDS,
    ReadinessRule,
    Until,
    UntilObject,
)

RESOURCE = r"^[^/\s]+/[^/\s]+$"


def errors(rules: Sequence[ReadinessRule], field: str) -> Iterator[FieldError]:
    """The error of each invalid field of the rules in this field."""
    if len(rules) > RULES_MAX:
        yield _error(field, str(len(rules)), "there are too many rules", f"leave at most {RULES_MAX}")
    for number, rule in enumerate(rules):
        place = f"{field}[{number}]"
        yield from _of_taint(rules[:number], rule, f"{place}.taint")
        yield from _of_until(rule.until, f"{place}.until")
        least, most = TIMEOUT_SECONDS
        if not least <= rule.timeout_seconds <= most:
            remedy = f"set it to {least} to {most}"
            yield _error(f"{place}.timeoutSeconds", str(rule.timeout_seconds), "it is out of range", remedy)
        if rule.on_timeout not in TIMEOUT_ACTIONS:
            remedy = f"set it to {', '.join(TIMEOUT_ACTIONS)}"
            yield _error(f"{place}.onTimeout", rule.on_timeout, "it is not supported", remedy)


def errors_with_dra(rules: Sequence[ReadinessRule], field: str) -> Iterator[FieldError]:
    """The error of each rule that waits for a device plugin where a DRA driver publishes the GPUs."""
    for number, rule in enumerate(rules):
        name = rule.until.resource.name if rule.until.resource is not None else ""
        if name.startswith(OF_PLUGINS):
            remedy = "use until.devices with the driver, such as gpu.nvidia.com, in its place"
            place = f"{field}[{number}].until.resource.name"
            yield _error(place, name, "with gpu.mode DRA no device plugin offers GPUs", remedy)


def _of_taint(before: Sequence[ReadinessRule], rule: ReadinessRule, field: str) -> Iterator[FieldError]:
    taint = rule.taint
    if re.search(QUALIFIED_KEY, taint.key) is None:
        yield _error(
            f"{field}.key", taint.key, "it is not a key of a taint", "set it to a key such as example.com/wait"
        )
    if taint.key.startswith(FOREIGN_TAINTS):
        remedy = "use another key, whose taint only this rule removes"
        yield _error(f"{field}.key", taint.key, "it belongs to another controller", remedy)
    if re.search(LABEL_VALUE, taint.value) is None or len(taint.value) > 63:
        yield _error(f"{field}.value", taint.value, "it is not a value of a taint", "set it to a word, or remove it")
    if taint.effect not in TAINT_EFFECTS:
        remedy = f"set it to {', '.join(TAINT_EFFECTS)}"
        yield _error(f"{field}.effect", taint.effect, "it is not an effect of a taint", remedy)
    for other in before:
        if other.taint.matches(taint) and other.taint.value != taint.value:
            remedy = "give both the same value, or keys of their own"
            yield _error(f"{field}.value", taint.value, "a rule before it has this taint with another value", remedy)
        elif other.taint.matches(taint) and other.until == rule.until:
            yield _error(field, str(taint), "a rule before it is the same", "remove one of them")


def _of_until(until: Until, field: str) -> Iterator[FieldError]:
    given = [name for name in until.__struct_fields__ if getattr(until, name) is not None]
    if len(given) != 1:
        remedy = f"set exactly one of {', '.join(until.__struct_fields__)}"
        yield _error(field, ", ".join(given), "it does not name exactly one condition", remedy)
    if until.condition is not None:
        kind, status = until.condition.type, until.condition.status
        if re.search(CONDITION_TYPE, kind) is None:
            remedy = "set it to a type such as Ready"
            yield _error(f"{field}.condition.type", kind, "it is not a type of a condition", remedy)
        if status not in CONDITION_STATUSES:
            remedy = f"set it to {', '.join(CONDITION_STATUSES)}"
            yield _error(f"{field}.condition.status", status, "it is not a status of a condition", remedy)
    if until.resource is not None:
        name, count = until.resource.name, until.resource.count
        if re.search(RESOURCE, name) is None:
            remedy = "set it to a name with a domain, such as nvidia.com/gpu"
            yield _error(f"{field}.resource.name", name, "it is not an extended resource", remedy)
        if count < 1:
            yield _error(f"{field}.resource.count", str(count), "it is out of range", "set it to 1 or more")
    if until.devices is not None:
        driver, count = until.devices.driver, until.devices.count
        if re.search(DRIVER, driver) is None:
            remedy = "set it to a name such as gpu.nvidia.com"
            yield _error(f"{field}.devices.driver", driver, "it is not a DRA driver", remedy)
        if count < 1:
            yield _error(f"{field}.devices.count", str(count), "it is out of range", "set it to 1 or more")
    if until.pod is not None and not (until.pod.namespace and until.pod.label_selector):
        yield _error(f"{field}.pod", "", "namespace or labelSelector is missing", "set both")
    if until.object is not None:
        yield from _of_object(until.object, f"{field}.object")


def _of_object(until: UntilObject, field: str) -> Iterator[FieldError]:
    for name, value in (("version", until.version), ("resource", until.resource)):
        if not value or "/" in value:
            remedy = "set it, for example version v1alpha1 and resource gkmcachenodes"
            yield _error(f"{field}.{name}", value, "it is not part of an API", remedy)
    try:
        JsonPath(until.json_path)
    except ValueError as error:
        remedy = 'set it to a path as of kubectl, such as {.status.conditions[?(@.type=="Ready")].status}'
        yield _error(f"{field}.jsonPath", until.json_path, str(error), remedy)
    if until.equals and until.one_of:
        yield _error(f"{field}.oneOf", ", ".join(until.one_of), "equals is set too", "remove one of equals and oneOf")


def _error(field: str, value: str, message: str, remedy: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"{value[:80]!r}: {message}", value, remedy)
