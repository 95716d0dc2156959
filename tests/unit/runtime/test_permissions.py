"""The permissions that the program requests are those that the chart grants."""

import pytest

from provisioner.runtime.permissions import NODEPOOL_PERMISSIONS, PERMISSIONS, Permission
from tests.cluster import rights


@pytest.mark.parametrize("node_pools", [True, False])
def test_the_chart_grants_what_check_verifies(node_pools: bool) -> None:
    """One list in two places, with and without NodePools: neither has a permission that the other lacks."""
    needed = (*PERMISSIONS, *(NODEPOOL_PERMISSIONS if node_pools else ()))
    granted = rights.granted("gpu-provisioner", {"nodePools": {"enabled": node_pools}})
    assert {(r.group, r.resource, r.verb) for r in needed} == set(granted)
    assert len(set(needed)) == len(needed)


def test_a_right_reads_as_people_write_it() -> None:
    """The verb first, then the resource with its group."""
    assert str(Permission("karpenter.sh", "nodeclaims/status", "patch")) == "patch nodeclaims/status.karpenter.sh"
    assert str(Permission("", "pods", "list")) == "list pods"
