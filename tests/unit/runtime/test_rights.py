"""The rights that the program asks for are those that the chart grants."""

from provisioner.runtime.rights import RIGHTS, Right
from tests.cluster import rights


def test_the_chart_grants_what_check_asks_for() -> None:
    """One list in two places: neither has a right that the other lacks."""
    assert {(r.group, r.resource, r.verb) for r in RIGHTS} == set(rights.granted("gpu-provisioner"))
    assert len(set(RIGHTS)) == len(RIGHTS)


def test_a_right_reads_as_people_write_it() -> None:
    """The verb first, then the resource with its group."""
    assert str(Right("karpenter.sh", "nodeclaims/status", "patch")) == "patch nodeclaims/status.karpenter.sh"
    assert str(Right("", "pods", "list")) == "list pods"
