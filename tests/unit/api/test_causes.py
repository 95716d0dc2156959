"""The table of causes: each row is complete, and what is written separately agrees with it."""

from typing import get_args

import pytest

from provisioner.api.causes import CAUSE_OF, CAUSES, CONTROLLERS, REASONS, Cause, Kind
from provisioner.metrics.definitions import LABELS, karpenter

# Somebody else deleted the NodeClaim, or there is none.
SILENT = {"requested", "leftover-node", "crd-deleted"}


def test_every_cause_has_one_row() -> None:
    """And every kind and every controller has causes."""
    assert tuple(CAUSES) == get_args(Cause)
    assert {row.kind for row in CAUSES.values()} == set(get_args(Kind))
    assert {row.controller for row in CAUSES.values()} == set(CONTROLLERS)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_row_is_complete(cause: Cause) -> None:
    """Each column has a value exactly where the kind of the cause needs one."""
    row = CAUSES[cause]
    inferred = row.kind in ("Inferred", "Repair")
    assert bool(row.event) == (cause not in SILENT)
    assert row.circuit_breaker == (inferred and cause != "spot-evicted")
    assert row.by_inference == (inferred and cause != "terminate-node")
    assert bool(row.condition) == (row.kind == "Repair" and row.by_inference)
    assert bool(row.meaning) == bool(row.reason) >= bool(row.replacement)
    assert row.disrupted == "unhealthy" or not row.condition
    assert row.disrupted == row.reason.lower() or not row.reason
    assert row.event_type == "Normal" or row.kind not in ("Voluntary", "Forceful")


def test_every_reason_of_a_budget_is_that_of_one_voluntary_cause() -> None:
    assert set(CAUSE_OF) == set(REASONS)
    assert sum(row.reason in REASONS for row in CAUSES.values()) == len(REASONS)
    assert {CAUSES[cause].kind for cause in CAUSE_OF.values()} == {"Voluntary"}


def test_the_labels_have_the_values_that_karpenters_dashboards_select() -> None:
    voluntary = {"empty", "drifted", "underutilized"}
    assert voluntary <= set(karpenter.VOLUNTARY)
    disrupted = {"garbage_collected", "unhealthy", "spot_interrupted", "expired", *voluntary}
    assert disrupted <= set(karpenter.NODECLAIMS_DISRUPTED.reasons)
    assert {"ready", "gpu", "registered", "initialized", "other"} <= set(LABELS["condition"].values)
