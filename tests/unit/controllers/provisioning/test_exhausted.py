"""Which NodeClaims of NodePools cannot get a machine now."""

from typing import Any

import pytest

from cloudprovider.interface import Offering
from controllers.provisioning.exhausted import exhausted
from controllers.provisioning.instances import InstanceTypeCache
from provisioner.api.conditions import EXHAUSTED

from .observed import REGION, T4, claim

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
