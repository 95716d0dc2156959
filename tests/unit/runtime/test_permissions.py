"""The permissions that the program requests are those that the chart grants."""

import pytest

from provisioner.runtime.permissions import (
    DOCTOR_PERMISSIONS,
    METRICS_PERMISSIONS,
    NODEPOOL_PERMISSIONS,
    PERMISSIONS,
    Permission,
)
from tests.cluster import rights
from tests.cluster.charts import VALUES


@pytest.mark.parametrize("metrics", [True, False])
@pytest.mark.parametrize("doctor", [True, False])
@pytest.mark.parametrize("node_pools", [True, False])
def test_the_chart_grants_what_check_verifies(*, node_pools: bool, doctor: bool, metrics: bool) -> None:
    """One list in two places, with and without the optional parts: neither has a permission that the other lacks."""
    parts = [PERMISSIONS]
    parts += [NODEPOOL_PERMISSIONS] if node_pools else []
    parts += [DOCTOR_PERMISSIONS] if doctor else []
    parts += [METRICS_PERMISSIONS] if metrics else []
    values = {
        "nodePools": {"enabled": node_pools},
        "doctor": {"enabled": doctor},
        "controller": {**VALUES["controller"], "metrics": {"port": 8080, "authentication": metrics}},
    }
    granted = rights.granted("gpu-provisioner", values)
    assert {(r.group, r.resource, r.verb) for part in parts for r in part} == set(granted)
    for part in parts:
        assert len(set(part)) == len(part)


def test_a_right_reads_as_people_write_it() -> None:
    """The verb first, then the resource with its group."""
    assert str(Permission("karpenter.sh", "nodeclaims/status", "patch")) == "patch nodeclaims/status.karpenter.sh"
    assert str(Permission("", "pods", "list")) == "list pods"
