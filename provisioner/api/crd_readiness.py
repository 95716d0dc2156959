"""The schema of readiness rules, in the CRD of AgentPoolNodeClass.

Source: docs/references/kubernetes.md#readiness-rules.
"""

from .crd_parts import CONDITION_TYPE, DRIVER, LABEL_VALUE, QUALIFIED_KEY
from .jsonpath import PATH_CHARACTERS, PATTERN
from .readiness import (
    CONDITION_STATUSES,
    FOREIGN_TAINTS,
    RULES_MAX,
    TAINT_EFFECTS,
    TIMEOUT_ACTIONS,
    TIMEOUT_DEFAULT,
    TIMEOUT_SECONDS,
)
from .schema import Schema, atomic_list, rules, structure, text

NAME_CHARACTERS = 253
VALUES_MAX = 16


def readiness_rules() -> Schema:
    """The list of rules, each with a taint of its own."""
    rule = structure(
        "A startup taint of new Nodes, and what must be ready before it is removed.",
        {
            "onTimeout": text(
                "What happens at the timeout: Keep leaves the taint, Release removes it, Replace deletes the NodeClaim"
                " within the limits on repairs.",
                default="Keep",
                enum=list(TIMEOUT_ACTIONS),
            ),
            "taint": _taint(),
            "timeoutSeconds": {
                "description": "Seconds from the registration of the Node to the timeout.",
                "type": "integer",
                "format": "int32",
                "default": TIMEOUT_DEFAULT,
                "minimum": TIMEOUT_SECONDS[0],
                "maximum": TIMEOUT_SECONDS[1],
            },
            "until": _until(),
        },
        required=["taint", "until"],
    )
    same = "a.taint.key == b.taint.key && a.taint.effect == b.taint.effect"
    value = "(has({0}.taint.value) ? {0}.taint.value : '')"
    listed = atomic_list(
        "Startup taints that new Nodes bear until something else is ready, in this order. Rules with the same taint are"
        " joined: all must be satisfied.",
        rule,
        maxItems=RULES_MAX,
    )
    return listed | rules(
        (
            f"self.all(a, self.all(b, !({same}) || {value.format('a')} == {value.format('b')}))",
            "two rules have the same taint with different values: give them the same value, or keys of their own",
        ),
        (
            f"self.all(a, self.exists_one(b, {same} && a.until == b.until))",
            "two rules are the same: remove one of them",
        ),
    )


def _taint() -> Schema:
    foreign = " || ".join(f"self.startsWith('{prefix}')" for prefix in FOREIGN_TAINTS)
    key = text("The key of the taint.", minLength=1, maxLength=316, pattern=QUALIFIED_KEY) | rules(
        (f"!({foreign})", f"keys of {', '.join(FOREIGN_TAINTS)} belong to other controllers: use another key")
    )
    return structure(
        "The taint.",
        {
            "effect": text("The effect of the taint.", enum=list(TAINT_EFFECTS)),
            "key": key,
            "value": text("The value of the taint.", maxLength=63, pattern=LABEL_VALUE),
        },
        required=["effect", "key"],
    )


def _until() -> Schema:
    kinds = ("condition", "resource", "devices", "pod", "object")
    given = ", ".join(f"has(self.{kind})" for kind in kinds)
    return structure(
        "What must be ready: exactly one of condition, resource, devices, pod and object.",
        {
            "condition": structure(
                "A condition of the Node.",
                {
                    "status": text("The status that it must have.", default="True", enum=list(CONDITION_STATUSES)),
                    "type": text("The type of the condition.", minLength=1, maxLength=316, pattern=CONDITION_TYPE),
                },
                required=["type"],
            ),
            "devices": structure(
                "Devices that a DRA driver has published on the Node: of a driver of GPUs, whole GPUs.",
                {
                    "count": _count("The least number that must be usable."),
                    "driver": text("The name of the driver.", minLength=1, maxLength=63, pattern=DRIVER),
                },
                required=["driver"],
            ),
            "object": _object(),
            "pod": structure(
                "A Ready pod on the Node.",
                {
                    "labelSelector": text("A label selector, as for kubectl.", minLength=1, maxLength=NAME_CHARACTERS),
                    "namespace": text("The namespace of the pod.", minLength=1, maxLength=63),
                },
                required=["labelSelector", "namespace"],
            ),
            "resource": structure(
                "An allocatable extended resource of the Node.",
                {
                    "count": _count("The least number that must be allocatable."),
                    "name": text("The name of the resource, with its domain.", maxLength=316, pattern="^[^/]+/[^/]+$"),
                },
                required=["name"],
            ),
        },
    ) | rules((f"[{given}].filter(one, one).size() == 1", f"set exactly one of {', '.join(kinds)}"))


def _count(description: str) -> Schema:
    return {"description": description, "type": "integer", "format": "int32", "default": 1, "minimum": 1}


def _object() -> Schema:
    values = atomic_list(
        "The values of which each that is found must be one.",
        {"type": "string", "maxLength": NAME_CHARACTERS},
        minItems=1,
        maxItems=VALUES_MAX,
    )
    pattern = PATTERN.replace("\\", "\\\\")
    path = text("Where the values are, as for kubectl.", minLength=2, maxLength=PATH_CHARACTERS) | rules(
        (
            f"self.matches('{pattern}')",
            "jsonPath must be a path as of kubectl that starts with .metadata, .spec, .status or .data, for example"
            ' {.status.conditions[?(@.type=="Ready")].status}',
        )
    )
    return structure(
        "Values of another object: at least one exists, and each satisfies equals or oneOf, if set.",
        {
            "equals": text("The value that must be found.", minLength=1, maxLength=NAME_CHARACTERS),
            "group": text("The API group of the resource; none means the core group.", maxLength=NAME_CHARACTERS),
            "jsonPath": path,
            "oneOf": values,
            "name": text("The name of the object; none means the name of the Node.", maxLength=NAME_CHARACTERS),
            "namespace": text("The namespace of the object; none for cluster-scoped resources.", maxLength=63),
            "resource": text("The resource, in the plural.", minLength=1, maxLength=NAME_CHARACTERS),
            "version": text("The version of the API.", minLength=1, maxLength=63),
        },
        required=["jsonPath", "resource", "version"],
    ) | rules(("!has(self.equals) || !has(self.oneOf)", "set equals or oneOf, not both"))
