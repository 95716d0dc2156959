"""Which NodeClaims of NodePools cannot get a machine now."""

from typing import Any

import pytest

from cloudprovider.interface import Offering
from controllers.provisioning.exhausted import exhausted, still_needed
from controllers.provisioning.instances import InstanceTypeCache
from controllers.provisioning.solver.solver import solve
from provisioner.api.conditions import EXHAUSTED

from .observed import REGION, T4, TOLERATES, claim, node_pool, observe, pod

FAILED = f"QuotaExceeded: no cores left; {EXHAUSTED}"
OF_POOL = [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": "u"}]
GONE: dict[str, Any] = {"deletionTimestamp": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("meta", "unavailable", "expected"),
    [
        ({"launched": FAILED, "ownerReferences": OF_POOL}, "all", True),
        ({"launched": FAILED, "ownerReferences": OF_POOL}, "regional", True),
        ({"launched": FAILED, "ownerReferences": OF_POOL}, "spot", False),
        ({"launched": FAILED, "ownerReferences": OF_POOL}, "none", False),
        ({"launched": "QuotaExceeded: no cores left", "ownerReferences": OF_POOL}, "all", False),
        ({"launched": FAILED}, "all", False),
        ({"ownerReferences": OF_POOL}, "all", False),
        ({"launched": FAILED, "ownerReferences": OF_POOL, **GONE}, "all", False),
    ],
    ids=[
        "all offerings failed",
        "zones are not tried without a requirement",
        "on-demand may be requested",
        "may be tried again",
        "an offering is left",
        "not of a NodePool",
        "on its way",
        "being deleted",
    ],
)
def test_exhausted(meta: dict[str, Any], unavailable: str, expected: bool) -> None:
    def available(offering: Offering) -> bool:
        if offering.size != T4 or unavailable == "none":
            return True
        return {"all": False, "regional": bool(offering.zone), "spot": offering.capacity_type != "spot"}[unavailable]

    types = InstanceTypeCache(lambda one: "" if available(one) else "failed").in_region(REGION).types
    assert exhausted(claim("c", **meta), types) is expected


A100 = "Standard_NC24ads_A100_v4"
SIZE = "node.kubernetes.io/instance-type"
NEEDED = [
    ("another machine takes its pod", {}, [], set()),
    ("no other machine takes its pod", {SIZE: A100}, [{"key": SIZE, "operator": "In", "values": [T4]}], {"large"}),
    ("its pod fits neither", {SIZE: "Standard_ND96isr_H100_v5"}, [], set()),
]


@pytest.mark.parametrize(
    ("selects", "requirements", "expected"), [row[1:] for row in NEEDED], ids=[row[0] for row in NEEDED]
)
def test_claims_that_are_kept(selects: dict[str, str], requirements: list[Any], expected: set[str]) -> None:
    """A claim without capacity stays for a pod that the machines which are bought instead do not take."""
    failed = [claim("large", size=A100), claim("small")]
    only = requirements or [{"key": SIZE, "operator": "In", "values": [T4, A100]}]
    found = observe(
        pods=(pod("p", tolerations=TOLERATES, nodeSelector=selects), pod("q", tolerations=TOLERATES)),
        node_pools=(node_pool(requirements=only),),
    )
    decision = solve(found.snapshot)
    assert decision.machines
    assert still_needed(failed, found.snapshot, decision, {}) == expected
