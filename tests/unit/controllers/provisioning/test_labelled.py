"""Labels of machines: what pods require of them is combined, and equal machines share the result."""

from controllers.provisioning.solver.labelled import Labelled
from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import ANY, ValueSet, one_of

NOT_A = ValueSet(True, frozenset({"a"}))


def machine() -> Labelled:
    """In one of two zones; `tier` need not be defined."""
    return Labelled(
        {"zone": one_of(("z1", "z2")), "arch": one_of(("amd64",))},
        (Taint(key="sku", effect="NoSchedule"),),
        frozenset({"tier"}),
    )


def test_only_labels_with_one_value_are_known() -> None:
    assert machine().known == {"arch": "amd64"}


def test_a_pod_narrows_the_labels_that_are_open() -> None:
    """What it requires is kept, and the machine before is not changed."""
    before = machine()
    after = before.narrowed({"zone": one_of(("z2", "z3")), "tier": one_of(("gold",))})
    assert after.known == {"zone": "z2", "arch": "amd64", "tier": "gold"}
    assert after.required["zone"].allows("z2")
    assert not after.required["zone"].allows("z1")
    assert (before.known, before.required) == ({"arch": "amd64"}, {})


def test_pods_one_after_the_other_narrow_as_all_at_once() -> None:
    first, second = {"zone": one_of(("z1", "z2"))}, {"zone": one_of(("z2",)), "tier": ANY}
    one, other = machine().narrowed(first).narrowed(second), machine().narrowed(second).narrowed(first)
    assert one.requirements == other.requirements
    assert one.kind == other.kind


def test_a_label_that_nothing_sets_is_not_required_by_its_absence() -> None:
    """A pod that excludes a value of it leaves the machine as it is."""
    before = machine()
    assert before.narrowed({"unknown": NOT_A}) is before
    assert "tier" in before.narrowed({"tier": NOT_A}).required


def test_equal_pods_share_the_result() -> None:
    """Machines that differ in nothing are one instance, so that what follows is made once."""
    wanted: Requirements = {"zone": one_of(("z2",))}
    before = machine()
    assert before.narrowed(wanted) is before.narrowed(wanted)
    assert before.requiring(wanted) is before.requiring(dict(wanted))
    assert before.copied().narrowed(wanted) is not before.narrowed(wanted)
    assert before.copied().kind == before.kind


def test_requirements_of_constraints_leave_the_labels_open() -> None:
    """They restrict the NodeClaim, not the pods that may join the machine."""
    restricted = machine().requiring({"zone": one_of(("z1",))})
    assert restricted.requirements == machine().requirements
    assert restricted.required == {"zone": one_of(("z1",))}


def test_labels_that_constraints_count_on_are_fixed() -> None:
    """Those whose value is known; the others are not."""
    fixed = machine().fixed({"zone", "arch", "none"})
    assert fixed.required == {"arch": one_of(("amd64",))}
    assert fixed.required_items == frozenset(fixed.required.items())
    before = machine()
    assert before.fixed({"zone"}) is before
