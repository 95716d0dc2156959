"""When a machine has been quiet for consolidateAfter."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.machine import consolidatable_in
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def seconds_ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def claim(initialized: float | None = 3600.0, status: str = "True") -> NodeClaim:
    found = {"type": "Initialized", "status": status, "lastTransitionTime": seconds_ago(initialized or 0.0)}
    return msgspec.convert({"status": {"conditions": [found] if initialized is not None else []}}, NodeClaim)


def pool(after: str | None = "5m", **spec: Any) -> NodePool:
    disruption = {"consolidateAfter": after} if after is not None else {}
    return msgspec.convert({"spec": {"disruption": disruption, **spec}}, NodePool)


@pytest.mark.parametrize(
    ("claim", "pool", "quiet", "seconds"),
    [
        (claim(), pool(), 300.0, 0.0),
        (claim(), pool(), 1000.0, 0.0),
        (claim(), pool(), 299.0, 1.0),
        (claim(initialized=100.0), pool(), 1000.0, 200.0),
        (claim(), pool("0s"), 0.0, 0.0),
        (claim(), pool(None), 0.0, 0.0),
        (claim(), pool("Never"), 1000.0, None),
        (claim(), pool(replicas=2), 1000.0, None),
        (claim(initialized=None), pool(), 1000.0, None),
        (claim(status="False"), pool(), 1000.0, None),
    ],
    ids=[
        "quiet for so long",
        "quiet for longer",
        "a pod was here",
        "since it was initialized",
        "0s",
        "the default",
        "Never",
        "a static NodePool",
        "not initialized",
        "no longer initialized",
    ],
)
def test_consolidatable(claim: NodeClaim, pool: NodePool, quiet: float, seconds: float | None) -> None:
    """Seconds until it is; None: not without a change of its objects."""
    assert consolidatable_in(claim, pool, seconds_ago(quiet), NOW) == seconds
