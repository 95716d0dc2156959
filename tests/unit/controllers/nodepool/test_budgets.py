"""Disruption budgets, as a table."""

from datetime import UTC, datetime

import pytest

from controllers.disruption.machine import MachineCount, budget_left
from controllers.nodepool.budgets import allowed, errors
from provisioner.api.causes import REASONS, Reason
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
        ((Budget(nodes="9" * 4301),), "Empty", 9, NOW, 0),
        ((Budget(nodes="9" * 4301 + "%"),), "Empty", 9, NOW, 0),
        ((Budget(nodes="9", schedule=f"{'1' * 4301} * * * *", duration="1h"),), "Empty", 9, NOW, 0),
        ((Budget(nodes="9", schedule="0," * 300_000 + "0 * * * *", duration="1h"),), "Empty", 9, NOW, 0),
        ((Budget(nodes="9", schedule="@daily", duration="1h" * 300_000),), "Empty", 9, NOW, 0),
        # A duration as long as Go has one.
        ((Budget(nodes="2", schedule="0 0 29 2 *", duration="2562047h47m16s"),), "Empty", 9, NOW, 2),
    ],
)
def test_allowed(
    budgets: tuple[Budget, ...], reason: Reason, machines: int, now: datetime, expected: int | None
) -> None:
    assert allowed(pool(*budgets), reason, machines, now) == expected


@pytest.mark.parametrize(("disrupted", "left"), [(0, 1), (1, 0), (2, 0), (10, 0)])
def test_what_is_left_of_a_budget_is_never_negative(disrupted: int, left: int) -> None:
    count = MachineCount(total=10, disrupted=disrupted)
    assert [budget_left(pool(Budget(nodes="10%")), count, reason, NOW) for reason in REASONS] == [left] * len(REASONS)


@pytest.mark.parametrize(
    ("budget", "field"),
    [
        (Budget(schedule="61 * * * *", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="0 0 30 2 *", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="@reboot", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="0 0 8 * * mon-fri", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule="@daily", duration="0h"), "spec.disruption.budgets[0].duration"),
        (Budget(nodes="1.5"), "spec.disruption.budgets[0].nodes"),
        (Budget(nodes="9" * 4301), "spec.disruption.budgets[0].nodes"),
        (Budget(schedule="0," * 300_000 + "0 * * * *", duration="1h"), "spec.disruption.budgets[0].schedule"),
        (Budget(schedule=f"{'1' * 500} * * * *", duration="1h"), "spec.disruption.budgets[0].schedule"),
    ],
)
def test_an_error_names_field_value_and_remedy(budget: Budget, field: str) -> None:
    (found,) = errors(pool(budget))
    assert found.field == field
    assert found.value
    assert found.remedy
    assert len(str(found)) < 256


@pytest.mark.parametrize(
    ("days", "weekdays", "active"),
    [
        # Monday the 2nd: the first day is even, the weekday a working day.
        ("*", "mon-fri", True),
        ("?", "tue", False),
        ("*/2", "mon-fri", True),  # any working day, and any odd one
        ("*/2", "tue", False),
        ("1-31/2", "mon", True),
        ("1", "mon", True),
        ("2", "tue", True),
        ("1", "tue", False),
        ("*/1", "tue", False),  # a step of 1 is a star: both must match
        ("5,*", "tue", False),
        ("*/2,2", "tue", True),
        ("1", "*", False),
        ("2", "*", True),
        ("1", "*/2", False),  # any first of the month, and Sunday, Tuesday, Thursday, Saturday
        ("2", "*/2", True),
        ("1", "*/1", False),
        ("*/2", "*/2", False),
        ("*", "*", True),
    ],
)
def test_days_of_the_month_and_of_the_week(days: str, weekdays: str, *, active: bool) -> None:
    """As Karpenter reads them: if neither field is a star, one of them suffices; a step other than 1 is no star."""
    budget = Budget(nodes="0", schedule=f"0 8 {days} * {weekdays}", duration="10h")
    found = allowed(pool(budget), "Drifted", 10, datetime(2026, 3, 2, 10, tzinfo=UTC))
    assert found == (0 if active else None)
