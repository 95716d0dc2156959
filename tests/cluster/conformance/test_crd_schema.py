"""Effects of a CRD's schema on an object: pruning, defaults, types, bounds, and strict field validation."""

from typing import Any

import pytest

from .server import MERGE, Json, Server
from .things import CLAIMS, NODES, WIDGETS, at, claim_body, meta, node, widget, widget_body

pytestmark = pytest.mark.asyncio

# Follows the causes when the object is too malformed for the CEL rules.
UNCHECKED = "some validation rules were not checked because the object was invalid"


async def causes(server: Server, spec: Json) -> list[tuple[str, str, str]]:
    """Field, reason and message of each cause for which a Widget with this spec is refused."""
    result = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server, spec=spec))
    return [(c["field"], c["reason"], c["message"]) for c in result["details"]["causes"]]


async def test_defaults(server: Server) -> None:
    """A default replaces an absent or null field in an existing object, not below an absent one."""
    made = await widget(server, spec={"size": 1})
    assert made["spec"] == {"size": 1, "colour": "red"}
    made = await widget(server, spec={"size": 1, "colour": None, "deep": {}})
    assert made["spec"] == {"size": 1, "colour": "red", "deep": {"on": True}}


async def test_nulls_are_dropped_unless_nullable(server: Server) -> None:
    """A null for a field that is not nullable counts as absent."""
    made = await widget(server, spec={"size": 1, "name": None, "maybe": None})
    assert made["spec"] == {"size": 1, "colour": "red", "maybe": None}
    found = await causes(server, {"size": None})
    assert found[0] == ("spec.size", "FieldValueRequired", "Required value")


async def test_unknown_fields_are_pruned_with_a_warning(server: Server) -> None:
    """Unknown fields are pruned at every depth unless the schema preserves them; kubectl prints the warning headers."""
    part = {"key": "a", "values": ["x"], "nope": 3}
    spec = {"size": 1, "nope": 1, "deep": {"nope": 2}, "parts": [part], "free": {"any": {"thing": [1]}}}
    answer = await server.request("POST", WIDGETS, widget_body(server, spec=spec))
    assert answer.status == 201
    made = answer.body["spec"]
    assert "nope" not in made
    assert made["deep"] == {"on": True}
    assert made["parts"] == [{"key": "a", "values": ["x"]}]
    assert made["free"] == {"any": {"thing": [1]}}
    assert answer.warnings == [
        f'299 - "unknown field \\"spec.{path}\\""' for path in ("deep.nope", "nope", "parts[0].nope")
    ]


async def test_unknown_fields_can_be_ignored(server: Server) -> None:
    """With fieldValidation=Ignore unknown fields are pruned without a warning."""
    body = widget_body(server, spec={"size": 1, "nope": 1})
    answer = await server.request("POST", WIDGETS, body, fieldValidation="Ignore")
    assert (answer.status, answer.warnings) == (201, [])
    assert "nope" not in answer.body["spec"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"spec": {"size": 1, "nope": 1}}, "spec.nope"),
        ({"nope": 1}, "nope"),
        ({"metadata": {"nope": 1}}, "metadata.nope"),
    ],
)
async def test_a_strict_create_with_unknown_fields_is_refused(
    server: Server, fields: dict[str, Any], path: str
) -> None:
    """A strict create, as kubectl sends it, is refused with 400 and the field's path."""
    body = {**widget_body(server), **fields}
    body["metadata"] = {**meta(server, "widget"), **fields.get("metadata", {})}
    result = await server.refused(400, "BadRequest", "POST", WIDGETS, body, fieldValidation="Strict")
    message = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
    assert result["message"] == f'{message}unknown field "{path}"'


async def test_a_strict_patch_with_unknown_fields_is_refused(server: Server) -> None:
    """A strict patch is refused with 422 and the cause `patch`; otherwise there is a warning, and nothing is
    changed.
    """
    made = await widget(server)
    body = {"spec": {"nope": 1}}
    result = await server.refused(422, "Invalid", "PATCH", at(WIDGETS, made), body, how=MERGE, fieldValidation="Strict")
    (cause,) = result["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("patch", "FieldValueInvalid")
    assert cause["message"].endswith('strict decoding error: unknown field "spec.nope"')
    answer = await server.request("PATCH", at(WIDGETS, made), body, how=MERGE)
    assert answer.warnings == ['299 - "unknown field \\"spec.nope\\""']
    assert answer.body == made


async def test_an_unknown_field_validation_is_refused(server: Server) -> None:
    """An unknown value of fieldValidation is refused with 422."""
    result = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server), fieldValidation="Odd")
    (cause,) = result["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("fieldValidation", "FieldValueNotSupported")
    assert result["details"]["kind"] == "CreateOptions"


async def test_unknown_metadata_of_a_built_in_kind_is_reported(server: Server) -> None:
    """Unknown metadata is 400 with strict validation, otherwise a warning."""
    body = {"metadata": meta(server, "node", nope=1)}
    result = await server.refused(400, "BadRequest", "POST", NODES, body, fieldValidation="Strict")
    assert result["message"].endswith('strict decoding error: unknown field "metadata.nope"')
    answer = await server.request("POST", NODES, body)
    assert answer.warnings == ['299 - "unknown field \\"metadata.nope\\""']
    assert "nope" not in answer.body["metadata"]


@pytest.mark.parametrize(
    ("spec", "field", "found", "wanted"),
    [
        ({"size": "1"}, "spec.size", "string", "integer"),
        ({"size": 1.5}, "spec.size", "number", "integer"),
        ({"size": 1, "labels": {"a": 1}}, "spec.labels.a", "integer", "string"),
        ({"size": 1, "amount": True}, "spec.amount", "boolean", "integer,string"),
        ({"size": 1, "since": "yesterday"}, "spec.since", "yesterday", "date-time"),
    ],
)
async def test_types_are_checked(server: Server, spec: Json, field: str, found: str, wanted: str) -> None:
    """The cause has the found and the required type; CEL rules are not evaluated then."""
    first, *_, unchecked = await causes(server, spec)
    message = f'Invalid value: "{found}": {field} in body must be of type {wanted}: "{found}"'
    assert first == (field, "FieldValueTypeInvalid", message)
    assert UNCHECKED in unchecked[2]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"size": 10}, "spec.size", "10: spec.size in body should be less than or equal to 9"),
        ({"size": 0}, "spec.size", "0: spec.size in body should be greater than or equal to 1"),
        ({"size": 1, "name": "a"}, "spec.name", '"a": spec.name in body should be at least 2 chars long'),
        ({"size": 1, "name": "A1"}, "spec.name", "\"A1\": spec.name in body should match '^[a-z]*$'"),
        ({"size": 1, "amount": "5"}, "spec.amount", "\"5\": spec.amount in body should match '^[0-9]+Mi$'"),
    ],
)
async def test_bounds_and_patterns_are_checked(server: Server, spec: Json, field: str, message: str) -> None:
    """A value out of bounds is the only cause: the CEL rules are evaluated and hold."""
    assert await causes(server, spec) == [(field, "FieldValueInvalid", f"Invalid value: {message}")]


PART = {"key": "a", "values": ["x"]}
COLOURS = 'Unsupported value: "green": supported values: "red", "blue"'
LENGTH, ITEMS = "Too long: may not be more than 4 bytes", "Too many: 3: must have at most 2 items"


@pytest.mark.parametrize(
    ("spec", "field", "reason", "message"),
    [
        ({"colour": "red"}, "spec.size", "FieldValueRequired", "Required value"),
        ({"size": 1, "parts": [{"values": ["x"]}]}, "spec.parts[0].key", "FieldValueRequired", "Required value"),
        ({"size": 1, "colour": "green"}, "spec.colour", "FieldValueNotSupported", COLOURS),
        ({"size": 1, "name": "abcde"}, "spec.name", "FieldValueTooLong", LENGTH),
        ({"size": 1, "parts": [PART] * 3}, "spec.parts", "FieldValueTooMany", ITEMS),
    ],
)
async def test_missing_excess_and_unsupported_values_have_their_reasons(
    server: Server, spec: Json, field: str, reason: str, message: str
) -> None:
    """Each of these causes has a reason of its own; CEL rules are not evaluated then."""
    first, unchecked = await causes(server, spec)
    assert first == (field, reason, message)
    assert UNCHECKED in unchecked[2]


async def test_int_or_string(server: Server) -> None:
    """A field with x-kubernetes-int-or-string accepts both, and a whole number with a decimal point."""
    for amount in (5, "5Mi"):
        assert (await widget(server, spec={"size": 1, "amount": amount}))["spec"]["amount"] == amount
    assert (await widget(server, spec={"size": 1.0}))["spec"]["size"] == 1


async def test_a_required_spec_is_required(server: Server) -> None:
    """A required spec can be neither absent nor null."""
    for body in ({**widget_body(server), "spec": None}, {k: v for k, v in widget_body(server).items() if k != "spec"}):
        result = await server.refused(422, "Invalid", "POST", WIDGETS, body)
        assert result["details"]["causes"][0] == {
            "field": "spec",
            "reason": "FieldValueRequired",
            "message": "Required value",
        }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeClassRef": {"kind": "K", "name": "n"}}, "spec.nodeClassRef.group"),
        ({"nodeClassRef": {"group": "a/b", "kind": "K", "name": "n"}}, "spec.nodeClassRef.group"),
        ({"expireAfter": "1d"}, "spec.expireAfter"),
        ({"terminationGracePeriod": "soon"}, "spec.terminationGracePeriod"),
        ({"taints": [{"key": "a", "effect": "Odd"}]}, "spec.taints[0].effect"),
        ({"requirements": [{"key": "a", "operator": "Odd"}]}, "spec.requirements[0].operator"),
        ({"requirements": [{"key": "a", "operator": "Exists"}] * 101}, "spec.requirements"),
        ({"resources": {"requests": {"memory": "much"}}}, "spec.resources.requests.memory"),
    ],
)
async def test_an_invalid_claim_is_refused_with_its_field(server: Server, spec: Json, field: str) -> None:
    """The server applies our own CRD's schema."""
    result = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server, spec=spec))
    assert result["details"]["causes"][0]["field"] == field
    assert result["details"]["group"] == "karpenter.sh"
    assert result["details"]["kind"] == "NodeClaim"


async def test_unknown_fields_of_a_built_in_kind_are_not_stored(server: Server) -> None:
    """Unknown fields of a Node are not stored at its top level, in its spec or in its status."""
    made = await node(server, spec={"nope": 1}, status={"nope": 2})
    patched = await server.patch(at(NODES, made), {"nope": 3, "spec": {"nope": 4}})
    for obj in (made, patched):
        assert "nope" not in obj
        assert "nope" not in obj["spec"]
        assert "nope" not in obj["status"]
