"""What a CRD's schema does to an object: pruning, defaults, types and bounds, and how strict a client may be."""

from typing import Any

import pytest

from .server import MERGE, Json, Server
from .things import CLAIMS, NODES, WIDGETS, at, claim_body, meta, node, widget, widget_body

pytestmark = pytest.mark.asyncio

# What follows the causes when the object is too wrong for the CEL rules to be tried.
UNCHECKED = "some validation rules were not checked because the object was invalid"


async def causes(server: Server, spec: Json) -> list[tuple[str, str, str]]:
    """Field, reason and message of each cause for which a Widget with this spec is refused."""
    said = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server, spec=spec))
    return [(c["field"], c["reason"], c["message"]) for c in said["details"]["causes"]]


async def test_defaults_are_filled_in(server: Server) -> None:
    """Where a field is absent or null, and below objects that are there, not below absent ones."""
    made = await widget(server, spec={"size": 1})
    assert made["spec"] == {"size": 1, "colour": "red"}
    made = await widget(server, spec={"size": 1, "colour": None, "deep": {}})
    assert made["spec"] == {"size": 1, "colour": "red", "deep": {"on": True}}


async def test_nulls_are_dropped_but_where_they_are_allowed(server: Server) -> None:
    """A null for a field that is not nullable counts as absent."""
    made = await widget(server, spec={"size": 1, "name": None, "maybe": None})
    assert made["spec"] == {"size": 1, "colour": "red", "maybe": None}
    found = await causes(server, {"size": None})
    assert found[0] == ("spec.size", "FieldValueRequired", "Required value")


async def test_unknown_fields_are_pruned_with_a_warning(server: Server) -> None:
    """At every depth; kept where the schema says so. The warnings are headers that kubectl prints."""
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
    """fieldValidation=Ignore: pruned without a word."""
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
    """400 with the field's path; what kubectl asks for by default."""
    body = {**widget_body(server), **fields}
    body["metadata"] = {**meta(server, "widget"), **fields.get("metadata", {})}
    said = await server.refused(400, "BadRequest", "POST", WIDGETS, body, fieldValidation="Strict")
    words = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
    assert said["message"] == f'{words}unknown field "{path}"'


async def test_a_strict_patch_with_unknown_fields_is_refused(server: Server) -> None:
    """422 with the cause `patch`; without strictness a warning, and nothing is changed."""
    made = await widget(server)
    body = {"spec": {"nope": 1}}
    said = await server.refused(422, "Invalid", "PATCH", at(WIDGETS, made), body, how=MERGE, fieldValidation="Strict")
    (cause,) = said["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("patch", "FieldValueInvalid")
    assert cause["message"].endswith('strict decoding error: unknown field "spec.nope"')
    answer = await server.request("PATCH", at(WIDGETS, made), body, how=MERGE)
    assert answer.warnings == ['299 - "unknown field \\"spec.nope\\""']
    assert answer.body == made


async def test_an_unknown_strictness_is_refused(server: Server) -> None:
    """422: a typing error must not pass for leniency."""
    said = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server), fieldValidation="Odd")
    (cause,) = said["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("fieldValidation", "FieldValueNotSupported")
    assert said["details"]["kind"] == "CreateOptions"


async def test_unknown_metadata_of_a_built_in_kind_is_told_too(server: Server) -> None:
    """Strict is 400, else a warning."""
    body = {"metadata": meta(server, "node", nope=1)}
    said = await server.refused(400, "BadRequest", "POST", NODES, body, fieldValidation="Strict")
    assert said["message"].endswith('strict decoding error: unknown field "metadata.nope"')
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
    """The cause says what was found and what is wanted; CEL rules are not tried then."""
    first, *_, unchecked = await causes(server, spec)
    words = f'Invalid value: "{found}": {field} in body must be of type {wanted}: "{found}"'
    assert first == (field, "FieldValueTypeInvalid", words)
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
    """The only cause is that one: the CEL rules were tried, and hold."""
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
async def test_what_is_missing_too_much_or_unknown_has_its_own_reason(
    server: Server, spec: Json, field: str, reason: str, message: str
) -> None:
    """Clients decide by the reason; CEL rules are not tried then."""
    first, unchecked = await causes(server, spec)
    assert first == (field, reason, message)
    assert UNCHECKED in unchecked[2]


async def test_numbers_and_words_may_share_a_field(server: Server) -> None:
    """x-kubernetes-int-or-string; a whole number may be written with a point."""
    for amount in (5, "5Mi"):
        assert (await widget(server, spec={"size": 1, "amount": amount}))["spec"]["amount"] == amount
    assert (await widget(server, spec={"size": 1.0}))["spec"]["size"] == 1


async def test_a_required_spec_is_required(server: Server) -> None:
    """Absent and null alike."""
    for body in ({**widget_body(server), "spec": None}, {k: v for k, v in widget_body(server).items() if k != "spec"}):
        said = await server.refused(422, "Invalid", "POST", WIDGETS, body)
        assert said["details"]["causes"][0] == {
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
async def test_a_bad_claim_is_refused_by_its_field(server: Server, spec: Json, field: str) -> None:
    """Our own CRD's schema, as the server reads it."""
    said = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server, spec=spec))
    assert said["details"]["causes"][0]["field"] == field
    assert said["details"]["group"] == "karpenter.sh"
    assert said["details"]["kind"] == "NodeClaim"


async def test_unknown_fields_of_a_built_in_kind_are_not_stored(server: Server) -> None:
    """At the top of a Node, in its spec and its status."""
    made = await node(server, spec={"nope": 1}, status={"nope": 2})
    patched = await server.patch(at(NODES, made), {"nope": 3, "spec": {"nope": 4}})
    for obj in (made, patched):
        assert "nope" not in obj
        assert "nope" not in obj["spec"]
        assert "nope" not in obj["status"]
