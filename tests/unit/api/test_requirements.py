"""Several requirements of one key are combined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.api.labels import ARCH, INSTANCE_TYPE, OS, REGION, ZONE
from provisioner.api.requirements import Requirement, allowed, allowed_values, conflicting, invalid, normalise_key

A100 = "Standard_NC24ads_A100_v4"
T4 = "Standard_NC4as_T4_v3"
H100 = "Standard_NC40ads_H100_v5"


def need(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


def test_the_requirements_of_kaito_allow_one_size() -> None:
    kaito = (
        need("karpenter.sh/nodepool", "In", "kaito"),
        need(INSTANCE_TYPE, "In", A100),
        need(OS, "In", "linux"),
        need("karpenter.azure.com/sku-name", "In", A100),
    )
    assert allowed_values(kaito, INSTANCE_TYPE) == (A100,)
    assert allowed_values(kaito, ZONE) is None
    assert conflicting(kaito) == {}
    assert invalid(kaito) == ()


@pytest.mark.parametrize(
    ("requirements", "left"),
    [
        ([], None),
        ([("Exists",)], None),
        ([("NotIn", "a")], None),
        ([("Gt", "3")], None),
        ([("In", "b", "a", "b")], ("b", "a")),
        ([("In", "c", "a", "b"), ("In", "a", "b", "c")], ("c", "a", "b")),
        ([("In", "c", "a", "b"), ("NotIn", "c")], ("a", "b")),
        ([("NotIn", "c"), ("In", "c", "a", "b")], ("a", "b")),
        ([("NotIn", "c"), ("NotIn", "a"), ("In", "c", "a", "b")], ("b",)),
        ([("In", "a"), ("In", "b")], ()),
        ([("In", "a"), ("Exists",)], ("a",)),
        ([("In", "a"), ("DoesNotExist",)], ()),
        ([("DoesNotExist",)], ()),
        ([("In", "1", "5", "9"), ("Gt", "1"), ("Lt", "9")], ("5",)),
        ([("In", "1", "5", "9"), ("Gte", "1"), ("Lte", "5")], ("1", "5")),
        ([("In", "1", "5", "9"), ("Gt", "0"), ("Gt", "5"), ("Lt", "100"), ("Lt", "50")], ("9",)),
        ([("In", "1", "5", "9"), ("Gt", "5"), ("Gt", "0"), ("Lt", "50"), ("Lt", "100")], ("9",)),
        ([("In", "7", "60"), ("Lt", "50"), ("Lt", "100"), ("Gte", "7"), ("Gt", "1")], ("7",)),
        ([("In", "3", "7"), ("Gt", "5"), ("Gt", "0")], ("7",)),
        ([("In", "large", "8"), ("Gt", "4")], ("8",)),
        ([("Gt", "5"), ("Lt", "6")], ()),
    ],
)
def test_combined_requirements_of_a_key(requirements: list[tuple[str, ...]], left: tuple[str, ...] | None) -> None:
    """Lists intersect in the order of the first one, exclusions and bounds reduce them; None means any value."""
    assert allowed_values([need("k", *r) for r in requirements], "k") == left


def test_beta_and_stable_labels_are_one_key() -> None:
    """Values keep the order of the first requirement."""
    requirements = [need("beta.kubernetes.io/instance-type", "In", T4, A100), need(INSTANCE_TYPE, "In", H100, A100, T4)]
    assert allowed_values(requirements, INSTANCE_TYPE) == (T4, A100)
    assert allowed_values(requirements, "beta.kubernetes.io/instance-type") == (T4, A100)


@pytest.mark.parametrize(
    ("beta", "stable"),
    [
        ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
        ("beta.kubernetes.io/os", OS),
        ("beta.kubernetes.io/arch", ARCH),
        ("failure-domain.beta.kubernetes.io/zone", ZONE),
        ("failure-domain.beta.kubernetes.io/region", REGION),
        ("example.com/team", "example.com/team"),
    ],
)
def test_beta_labels_are_normalized(beta: str, stable: str) -> None:
    """Other labels are unchanged."""
    assert normalise_key(beta) == stable


@pytest.mark.parametrize(
    ("requirements", "value", "allows"),
    [
        ([], "x", True),
        ([("NotIn", "x")], "x", False),
        ([("NotIn", "x")], "y", True),
        ([("In", "x")], "x", True),
        ([("In", "x")], "y", False),
        ([("DoesNotExist",)], "x", False),
        ([("Exists",)], "x", True),
        ([("Gt", "3")], "3", False),
        ([("Gt", "3")], "4", True),
        ([("Lte", "3")], "3", True),
        ([("Lte", "3")], "three", False),
    ],
)
def test_allowed_values(requirements: list[tuple[str, ...]], value: str, allows: bool) -> None:
    """Exclusions and bounds also apply without a list of values."""
    assert allowed([need("k", *r) for r in requirements], "k").allows(value) is allows


def test_a_conflict_lists_all_requirements_of_the_key() -> None:
    requirements = [need(INSTANCE_TYPE, "In", T4), need(OS, "In", "linux"), need(INSTANCE_TYPE, "NotIn", T4)]
    assert conflicting(requirements) == {
        INSTANCE_TYPE: f"conflicting requirements on {INSTANCE_TYPE}: In [{T4}], NotIn [{T4}]"
    }


@pytest.mark.parametrize(
    ("requirements", "contradict"),
    [
        ([("In", "a"), ("In", "b")], True),
        ([("Exists",), ("DoesNotExist",)], True),
        ([("DoesNotExist",)], False),
        ([("NotIn", "a"), ("DoesNotExist",)], False),
        ([("Gt", "5"), ("Lt", "6")], True),
        ([("Gte", "5"), ("Lte", "5")], False),
        ([("In", "3"), ("Gt", "5")], True),
        ([("In", "a"), ("NotIn", "b")], False),
    ],
)
def test_conflicts(requirements: list[tuple[str, ...]], contradict: bool) -> None:
    """A conflict exists if no value and no absence of the label meets all requirements."""
    assert bool(conflicting([need("k", *r) for r in requirements])) is contradict


@pytest.mark.parametrize(
    ("requirement", "why"),
    [
        (need("k", "Like", "a"), "operator 'Like'"),
        (need("k", "In"), "at least one value"),
        (need("k", "Gt"), "single non-negative integer"),
        (need("k", "Lte", "1", "2"), "single non-negative integer"),
        (need("k", "Gte", "-1"), "single non-negative integer"),
        (need("k", "Gt", "many"), "single non-negative integer"),
        (need("k", "In", "ok", "not ok"), "'not ok' is not a valid label value"),
        (need("k", "NotIn", "x" * 64), "is not a valid label value"),
        (need("k", "In", "line\n"), "is not a valid label value"),
    ],
)
def test_an_invalid_requirement_is_reported(requirement: Requirement, why: str) -> None:
    """The API server does not validate label values in requirements."""
    (error,) = invalid([requirement])
    assert error.startswith("k: ")
    assert why in error


def test_an_invalid_bound_raises_valueerror() -> None:
    with pytest.raises(ValueError, match="k: Gt requires a single integer"):
        allowed_values([need("k", "Gt", "many")], "k")


SIMPLE = st.builds(
    lambda operator, values: need("k", operator, *values),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["a", "b", "c", "1", "2"]), min_size=1, max_size=4),
)


@given(st.lists(SIMPLE, max_size=5))
def test_a_value_is_allowed_if_each_requirement_allows_it(requirements: list[Requirement]) -> None:
    for value in ("a", "b", "c", "1", "2"):
        both = allowed(requirements, "k").allows(value)
        assert both is all(allowed([r], "k").allows(value) for r in requirements)
        left = allowed_values(requirements, "k")
        if left is not None:
            assert (value in left) is both


class Counted(str):
    """A value that counts how often values are compared."""

    __slots__ = ()
    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_the_work_grows_with_the_number_of_values() -> None:
    """With lists of thousands each value is compared a few times, not with each other one."""
    values = tuple(Counted(f"v{number}") for number in range(4000))
    again = tuple(Counted(value) for value in reversed(values))
    requirements = [need("k", "In", *values), need("k", "In", *again), need("k", "NotIn", *again[:2000])]
    Counted.compared = 0
    assert len(allowed_values(requirements, "k") or ()) == 2000
    assert not conflicting(requirements)
    assert Counted.compared < 20 * len(values)
