"""`docs/reference/nodepool.md` and `docs/reference/agentpoolnodeclass.md`: fields, limits and rules of the CRDs."""

import json
from collections.abc import Iterator
from typing import Any

from provisioner.api.crd import nodepool_crd
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd

from .markdown import code, page, table

Schema = dict[str, Any]

NODEPOOL = """\
The schema and its descriptions are those of Karpenter's CRD, so that its manifests are valid.
[NodePools](../concepts/nodepools.md) explains what the controller does with them. Unlike there, `consolidationPolicy`
has no default: without it, machines with GPUs are removed only when they are empty."""
NODECLASS = """\
All fields are optional. [What a node class determines](../concepts/nodepools.md#what-a-node-class-determines) states
the member of the agent pool that each sets."""
CONDITIONS = "[Conditions](conditions.md) explains the conditions and their reasons."
LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters: at most",
    "minLength": "characters: at least",
    "maxItems": "items: at most",
    "maxProperties": "keys: at most",
}
# Patterns beyond this length are not readable in a table; the API server shows them when a value does not match.
PATTERN_CHARACTERS = 40


def render_nodepool() -> str:
    """The page of NodePool."""
    return _render(nodepool_crd(), "provisioner/api/crd.py", NODEPOOL)


def render_nodeclass() -> str:
    """The page of AgentPoolNodeClass."""
    return _render(agentpoolnodeclass_crd(), "provisioner/api/crd_nodeclass.py", NODECLASS)


def _render(crd: Schema, source: str, introduction: str) -> str:
    names, (version,) = crd["spec"]["names"], crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    short = [f"short name {code(name)}" for name in names.get("shortNames", ())]
    api = f"`{crd['spec']['group']}/{version['name']}`, cluster-scoped"
    parts = [f"{', '.join([api, *short])}. {_sentence(schema['description'])}", introduction]
    for part, title in (("spec", "Fields"), ("status", "Status")):
        fields = [_row(path, field, required=required) for path, field, required in _walk(part, schema, part)]
        parts += [f"## {title}", table(("Field", "Type", "Default", "Meaning"), fields)]
        if part == "status":
            parts.append(CONDITIONS)
    parts += ["## Rules", "The API server refuses an object that violates one of these rules, with this message."]
    parts.append(table(("Field", "Message"), [(code(path), code(text)) for path, text in _rules("", schema)]))
    columns = version.get("additionalPrinterColumns", [])
    shown = [(one["name"], code(one["jsonPath"]), "`-o wide`" if one.get("priority") else "always") for one in columns]
    parts += ["## Columns of kubectl get", table(("Column", "Field", "Shown"), shown)]
    return page(names["kind"], source, *parts)


def _walk(name: str, parent: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    """A property with its path and whether it is required, then everything below it."""
    field = parent["properties"][name]
    yield path, field, name in parent.get("required", ())
    suffix, inner = _inside(field)
    for child in inner.get("properties", ()):
        yield from _walk(child, inner, f"{path}{suffix}.{child}")


def _inside(field: Schema) -> tuple[str, Schema]:
    """The schema of the fields of an object or of the items of a list, and what precedes them in a path."""
    return ("[]", field["items"]) if field.get("type") == "array" else ("", field)


def _row(path: str, field: Schema, *, required: bool) -> tuple[str, str, str, str]:
    default = code(json.dumps(field["default"])) if "default" in field else ""
    meaning = [_sentence(field.get("description", ""))]
    values = (field["items"] if field.get("type") == "array" else field).get("enum", ())
    if values:
        meaning.append(f"One of {', '.join(code(value) for value in values)}.")
    meaning += [f"{words.capitalize()} {field[limit]}." for limit, words in LIMITS.items() if limit in field]
    if len(pattern := field.get("pattern", "")) in range(1, PATTERN_CHARACTERS):
        meaning.append(f"Pattern {code(pattern)}.")
    if required:
        meaning.append("Required.")
    return code(path), _type(field), default, " ".join(meaning)


def _sentence(text: str) -> str:
    """The text with a full stop; those of Karpenter often have none."""
    return f"{text}." if text and text[-1].isalnum() else text


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    match field["type"]:
        case "array":
            return f"list of {_plural(_type(field['items']))}"
        case "object" if "additionalProperties" in field:
            return f"map of {_plural(_type(field['additionalProperties']))}"
        case "string" if field.get("format") == "date-time":
            return "time"
        case kind:
            return str(kind)


def _plural(kind: str) -> str:
    return "quantities" if kind == "quantity" else f"{kind}s"


def _rules(path: str, field: Schema) -> Iterator[tuple[str, str]]:
    """The field and the message of each CEL rule."""
    for rule in field.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    suffix, inner = _inside(field)
    if suffix:
        yield from _rules(f"{path}{suffix}", inner)
    else:
        for name, child in field.get("properties", {}).items():
            yield from _rules(f"{path}.{name}".lstrip("."), child)
