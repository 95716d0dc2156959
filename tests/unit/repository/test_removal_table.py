"""The table of removals: what it makes of test reports."""

from typing import Any

import pytest

from tests.world.removal_table import CELL, OUTCOME, Cell, lines, outcomes

FIRST, SECOND = Cell(0, "claim", "Ready", "alive"), Cell(0, "claim", "Ready", "away")
THIRD = Cell(11, "Node", "Ready", "restarted")


def report(cell: Cell, outcome: Any, *, when: Any = "call", told: str = "") -> pytest.TestReport:
    """A report as another process would send it: tuples have become lists."""
    said = [(CELL, list(cell)), *([(OUTCOME, told)] if told else [])]
    return pytest.TestReport("n", ("f", 1, "t"), {}, outcome, None, when, user_properties=said)


def test_the_table_shows_what_ran() -> None:
    """A tick with its seconds, a cross, a dash for what was not selected; rows of which nothing ran are left out."""
    found = outcomes(
        [
            pytest.TestReport("other", ("f", 1, "t"), {}, "passed", None, "call"),
            pytest.CollectReport("broken", "failed", None, None),
            report(THIRD, "failed", told="gone 9"),
            report(FIRST, "passed", when="setup"),
            report(FIRST, "passed", told="gone 33"),
        ]
    )
    assert found == {THIRD: "✗", FIRST: "✓ gone 33"}
    head, *rows, count = lines(found)
    assert head.split() == ["controller", "alive", "crashed,", "restarted", "crashed,", "an", "hour", "away"]
    assert [row.split() for row in rows] == [
        ["claim", "Ready", "✓", "gone", "33", "-", "-"],
        ["Node", "Ready", "-", "✗", "-"],
    ]
    assert count == "1 of 2 cells passed"


def test_a_cell_that_fails_after_its_story_has_failed() -> None:
    """A teardown that fails, and a cell of which two reports speak, are no ticks."""
    late = [report(SECOND, "passed", told="up 5"), report(SECOND, "failed", when="teardown", told="up 5")]
    assert outcomes(late) == {SECOND: "✗"}
    assert outcomes([report(FIRST, "passed", told="up 5"), report(FIRST, "passed", told="up 5")]) == {FIRST: "✗"}
