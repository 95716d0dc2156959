"""Disruption budgets, as a table."""

from datetime import UTC, datetime

import pytest

from controllers.nodepool.budgets import Reason, allowed, errors
from provisioner.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec

# A Sunday.
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OFFICE = Budget(nodes="0", schedule="0 9 * * mon-fri", duration="8h")


def pool(*budgets: Budget) -> NodePool:
    return NodePool(spec=NodePoolSpec(disruption=Disruption(budgets=budgets)))


@pytest.mark.parametrize(
    ("budgets", "reason", "machines", "now", "expected"),
    [
        ((), "Empty", 10, NOW, None),
        ((Budget(),), "Empty", 10, NOW, 1),
        ((Budget(),), "Empty", 1, NOW, 1),
        ((Budget(),), "Empty", 11, NOW, 2),
        ((Budget(),), "Empty", 0, NOW, 0),
        ((Budget(nodes="100%"),), "Empty", 7, NOW, 7),
        ((Budget(nodes="3"), Budget(nodes="50%")), "Empty", 4, NOW, 2),
        ((Budget(nodes="0"),), "Drifted", 4, NOW, 0),
        ((Budget(nodes="0%"),), "Empty", 4, NOW, 0),
        ((Budget(nodes="1", reasons=("Drifted",)),), "Drifted", 9, NOW, 1),
        ((Budget(nodes="1", reasons=("Drifted",)),), "Empty", 9, NOW, None),
        # Active from 9 to 17 h on working days.
        ((OFFICE,), "Empty", 9, NOW, None),
        ((OFFICE,), "Empty", 9, datetime(2026, 3, 2, 8, 59, tzinfo=UTC), None),
        ((OFFICE,), "Empty", 9, datetime(2026, 3, 2, 9, 0, tzinfo=UTC), 0),
        ((OFFICE,), "Empty", 9, datetime(2026, 3, 2, 16, 59, tzinfo=UTC), 0),
        ((OFFICE,), "Empty", 9, datetime(2026, 3, 2, 17, 0, tzinfo=UTC), None),
        ((Budget(nodes="0", schedule="@weekly", duration="13h"),), "Empty", 9, NOW, 0),
        ((Budget(nodes="0", schedule="@weekly", duration="11h30m"),), "Empty", 9, NOW, None),
        ((Budget(nodes="0", schedule="0 12 ? * *", duration="1m"),), "Empty", 9, NOW, 0),
        # A budget that cannot be read allows nothing, whatever the others say.
        ((Budget(nodes="5"), Budget(nodes="9", schedule="61 * * * *", duration="1h")), "Empty", 9, NOW, 0),
        ((Budget(nodes="9", schedule="0 0 30 2 *", duration="1h"),), "Empty", 9, NOW, 0),
        ((Budget(nodes="many"),), "Empty", 9, NOW, 0),
    ],
)
def test_allowed(
    budgets: tuple[Budget, ...], reason: Reason, machines: int, now: datetime, expected: int | None
) -> None:
    assert allowed(pool(*budgets), reason, machines, now) == expected


@pytest.mark.parametrize(
    ("budget", "field"),
    [
        (Budget(schedule="61 * * * *", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="0 0 30 2 *", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="@reboot", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="@daily", duration="0h"), "spec.disruption.budgets[0].duration"),
        (Budget(nodes="1.5"), "spec.disruption.budgets[0].nodes"),
    ],
)
def test_an_error_names_field_value_and_remedy(budget: Budget, field: str) -> None:
    (found,) = errors(pool(budget))
    assert found.field == field
    assert found.value
    assert found.remedy
