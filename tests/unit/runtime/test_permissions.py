"""The permissions that the program requests are those that the chart grants."""

from provisioner.runtime.permissions import PERMISSIONS, Permission
from tests.cluster import rights


def test_the_chart_grants_what_check_verifies() -> None:
    """One list in two places: neither has a permission that the other lacks."""
    assert {(r.group, r.resource, r.verb) for r in PERMISSIONS} == set(rights.granted("gpu-provisioner"))
    assert len(set(PERMISSIONS)) == len(PERMISSIONS)


def test_a_right_reads_as_people_write_it() -> None:
    """The verb first, then the resource with its group."""
    assert str(Permission("karpenter.sh", "nodeclaims/status", "patch")) == "patch nodeclaims/status.karpenter.sh"
    assert str(Permission("", "pods", "list")) == "list pods"
