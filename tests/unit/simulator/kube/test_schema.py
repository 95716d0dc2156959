"""Validation against a CRD's schema, with kube-apiserver's messages."""

import pytest

from provisioner.simulator.kube.writes import WriteOptions

from .stores import WIDGETS, Cluster, refused

IGNORE = WriteOptions(field_validation="Ignore")
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def causes(spec, **store):
    error = refused(lambda: Cluster(**store).widget(spec=spec))
    assert (error.status, error.reason) == (422, "Invalid")
    assert (error.details["kind"], error.details["group"]) == ("Widget", "example.com")
    return [f"{c['field']}: {c['message']}" for c in error.details["causes"]]


def test_defaults_are_filled_in() -> None:
    """For a field that is absent, or null and not nullable; nothing is added below an absent parent."""
    c = Cluster()
    assert c.widget()["spec"] == {"size": 1, "colour": "red"}
    assert c.widget("w2", {"size": 1, "colour": None})["spec"]["colour"] == "red"
    assert c.widget("w3", {"size": 1, "maybe": None})["spec"]["maybe"] is None


def test_unknown_fields_are_pruned_unless_preserved() -> None:
    """Under Ignore they are dropped without a warning; an object that preserves unknown fields keeps them."""
    c = Cluster()
    spec = {
        "size": 1,
        "typo": 1,
        "free": {"any": [1]},
        "labels": {"x/y": "z"},
        "parts": [{"key": "k", "values": ["v"], "no": 1}],
    }
    made = c.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": spec, "other": 1}, options=IGNORE)
    assert made["spec"] == {
        "size": 1,
        "free": {"any": [1]},
        "labels": {"x/y": "z"},
        "parts": [{"key": "k", "values": ["v"]}],
        "colour": "red",
    }
    assert "other" not in made


def test_strict_names_every_unknown_field() -> None:
    """400, with the message of the real server."""
    spec = {"size": 1, "typo": 1, "parts": [{"key": "k", "values": ["v"], "no": 1}]}
    error = refused(lambda: Cluster().widget(spec=spec))
    assert (error.status, error.message) == (
        400,
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.parts[0].no", unknown field "spec.typo"',
    )


@pytest.mark.parametrize(
    ("spec", "stated"),
    [
        ({"colour": "red"}, ["spec.size: Required value", UNCHECKED]),
        (
            {"size": "1"},
            ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"', UNCHECKED],
        ),
        ({"size": 1, "name": "toolong"}, ["spec.name: Too long: may not be more than 4 bytes", UNCHECKED]),
        (
            {"size": 1, "parts": [{"key": "k", "values": ["v"]}] * 3},
            ["spec.parts: Too many: 3: must have at most 2 items", UNCHECKED],
        ),
        (
            {"size": 1, "since": "yesterday"},
            [
                'spec.since: Invalid value: "yesterday": spec.since in body must be of type date-time: "yesterday"',
                UNCHECKED,
            ],
        ),
        ({"size": 0}, ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]),
        ({"size": 10}, ["spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"]),
        (
            {"size": 1, "colour": "pink"},
            ['spec.colour: Unsupported value: "pink": supported values: "red", "blue"', UNCHECKED],
        ),
        (
            {"size": 1, "name": "x"},
            ['spec.name: Invalid value: "x": spec.name in body should be at least 2 chars long'],
        ),
        ({"size": 1, "name": "AB"}, ["spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]*$'"]),
        (
            {"size": 1, "amount": "12Gi"},
            ["spec.amount: Invalid value: \"12Gi\": spec.amount in body should match '^[0-9]+Mi$'"],
        ),
    ],
)
def test_validation_errors_are_those_of_kubernetes(spec, stated) -> None:
    """Field, type of error and message; after some errors the CEL rules are not evaluated."""
    assert causes(spec) == stated


def test_int_or_string_accepts_both() -> None:
    """A number does not violate the pattern for strings."""
    c = Cluster()
    c.widget("a", {"size": 1, "amount": 12})
    c.widget("b", {"size": 1, "amount": "12Mi"})


def test_a_transition_rule_applies_to_updates_only() -> None:
    """It permits every value at creation, and rejects the change afterwards."""
    c = Cluster()
    c.widget(spec={"size": 1, "fixed": "a"})
    c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}})
    error = refused(lambda: c.store.patch(WIDGETS, "w1", {"spec": {"fixed": "b"}}))
    assert error.message == 'Widget.example.com "w1" is invalid: spec: Invalid value: "object": fixed is immutable'


def test_rules_inside_lists_name_the_element() -> None:
    """With their own message and reason."""
    parts = [{"key": "fine", "values": ["v"]}, {"key": "a.test/x", "values": ["v"]}]
    assert causes({"size": 1, "parts": parts}) == ["spec.parts[1].key: Forbidden: not in a.test/x"]


def test_a_rule_that_cannot_be_evaluated_rejects() -> None:
    """An absent list is not an empty one: the rule fails, and the object is invalid."""
    (stated,) = causes({"size": 1, "parts": [{"key": "k"}]})
    assert stated.startswith('spec.parts: Invalid value: "array": ')
    assert stated.endswith("evaluating rule: each part needs a value")


def test_a_violated_rule_returns_its_message() -> None:
    """An empty list violates it."""
    assert causes({"size": 1, "parts": [{"key": "k", "values": []}]}) == [
        'spec.parts: Invalid value: "array": each part needs a value'
    ]


def test_several_causes_are_listed_together() -> None:
    """One response contains all of them."""
    assert len(causes({"size": 0, "colour": "red", "name": "x"})) == 2


def test_status_is_validated_too() -> None:
    """A status that violates the schema is rejected like a spec."""
    c = Cluster()
    c.widget()
    error = refused(lambda: c.store.patch(WIDGETS, "w1", {"status": {"phase": 1}}, subresource="status"))
    assert error.details["causes"][0]["field"] == "status.phase"
