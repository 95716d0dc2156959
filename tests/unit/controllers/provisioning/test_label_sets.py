"""The algebra of label requirements and the table of taints and tolerations."""

import pytest

from controllers.provisioning.solver.label_index import LabelIndex
from provisioner.api.meta import Taint
from provisioner.api.pod import Toleration
from provisioner.api.requirements import conflict
from provisioner.api.taints import tolerates, untolerated
from provisioner.api.value_sets import ValueSet, value_set

VALUES = ("a", "b", "1", "5", "9")
SETS = {
    "In a,b": value_set("In", ("a", "b")),
    "In 5": value_set("In", ("5",)),
    "NotIn a": value_set("NotIn", ("a",)),
    "NotIn 5,9": value_set("NotIn", ("5", "9")),
    "Exists": value_set("Exists", ()),
    "DoesNotExist": value_set("DoesNotExist", ()),
    "Gt 4": value_set("Gt", ("4",)),
    "Lt 6": value_set("Lt", ("6",)),
    "Gte 9": value_set("Gte", ("9",)),
    "Lte 1": value_set("Lte", ("1",)),
}


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("other", SETS)
def test_an_intersection_allows_what_both_allow(one: str, other: str) -> None:
    """For each pair of operators and each value."""
    both = SETS[one].intersection(SETS[other])
    for value in VALUES:
        assert both.allows(value) == (SETS[one].allows(value) and SETS[other].allows(value)), value
    if any(both.allows(value) for value in VALUES):
        assert SETS[one].intersects(SETS[other])


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        ({"k": value_set("In", ("a",))}, {"k": value_set("In", ("a", "b"))}, ""),
        ({"k": value_set("In", ("a",))}, {"k": value_set("In", ("b",))}, "k"),
        ({}, {"k": value_set("In", ("a",))}, "k"),
        ({}, {"well-known": value_set("In", ("a",))}, ""),
        ({}, {"k": value_set("NotIn", ("a",))}, ""),
        ({}, {"k": value_set("DoesNotExist", ())}, ""),
        ({}, {"k": value_set("Exists", ())}, "k"),
        ({"k": value_set("DoesNotExist", ())}, {"k": value_set("NotIn", ("a",))}, ""),
        ({"k": value_set("DoesNotExist", ())}, {"k": value_set("Exists", ())}, "k"),
        ({"k": value_set("In", ("a",))}, {"k": value_set("DoesNotExist", ())}, "k"),
    ],
)
def test_conflicts(node: dict[str, ValueSet], pod: dict[str, ValueSet], expected: str) -> None:
    """Which key of a pod excludes a node; a well-known label may be undefined."""
    assert conflict(node, pod, {"well-known"}) == expected


@pytest.mark.parametrize(("operator", "values"), [("Near", ("a",)), ("Gt", ("a",)), ("Lt", ()), ("Gt", ("1", "2"))])
def test_invalid_requirements_are_refused(operator: str, values: tuple[str, ...]) -> None:
    """An unknown operator, and a bound that is not one integer."""
    with pytest.raises(ValueError, match=operator):
        value_set(operator, values)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule"])
@pytest.mark.parametrize(
    ("key", "operator", "value", "own_effect", "expected"),
    [
        ("sku", "Equal", "gpu", "", True),
        ("sku", "Equal", "cpu", "", False),
        ("sku", "", "gpu", "same", True),
        ("sku", "Exists", "", "same", True),
        ("", "Exists", "", "", True),
        ("", "Equal", "gpu", "", False),
        ("other", "Exists", "", "", False),
        ("sku", "Exists", "", "other", False),
    ],
)
def test_tolerations(effect: str, key: str, operator: str, value: str, own_effect: str, *, expected: bool) -> None:
    """Effect by operator, with an empty key, an empty effect and another effect."""
    taint = Taint(key="sku", value="gpu", effect=effect)
    effects = {"": "", "same": effect, "other": "NoSchedule" if effect != "NoSchedule" else "NoExecute"}
    toleration = Toleration(key=key, operator=operator, value=value, effect=effects[own_effect])
    assert tolerates(toleration, taint) == expected


def test_preferred_taints_can_be_ignored() -> None:
    """PreferNoSchedule is the last preference that is given up."""
    taint = Taint(key="sku", effect="PreferNoSchedule")
    assert untolerated((taint,), ()) == taint
    assert untolerated((taint,), (), ignore_preferred=True) is None


@pytest.mark.parametrize("wanted", SETS)
@pytest.mark.parametrize("key", ["k", "well-known"])
def test_an_index_of_machines_allows_what_each_comparison_allows(key: str, wanted: str) -> None:
    """For each operator, over machines with every set or no requirement, registered or planned."""
    machines: list[dict[str, ValueSet]] = [{}, {}, *({key: one} for one in SETS.values() for _ in (0, 1))]
    planned = sum(1 << position for position in range(0, len(machines), 2))
    index = LabelIndex(machines, planned, {"well-known"})
    expected = 0
    for position, machine in enumerate(machines):
        may_lack = {"well-known"} if planned >> position & 1 else set[str]()
        expected |= (conflict(machine, {key: SETS[wanted]}, may_lack) == "") << position
    assert index.allowing({key: SETS[wanted]}) == expected
