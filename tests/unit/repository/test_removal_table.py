"""The removal table is built from test reports."""

from typing import Any

import pytest

from tests.world.removal_table import CELL, OUTCOME, Cell, lines, outcomes

FIRST, SECOND = Cell(0, "claim", "Ready", "alive"), Cell(0, "claim", "Ready", "away")
THIRD = Cell(11, "Node", "Ready", "restarted")


def report(cell: Cell, outcome: Any, *, when: Any = "call", text: str = "") -> pytest.TestReport:
    """A report from another process, in which tuples have become lists."""
    properties = [(CELL, list(cell)), *([(OUTCOME, text)] if text else [])]
    return pytest.TestReport("n", ("f", 1, "t"), {}, outcome, None, when, user_properties=properties)


def test_the_table_shows_each_result() -> None:
    """A tick with seconds, a cross, or a dash if the test did not run; rows without any result are omitted."""
    found = outcomes(
        [
            pytest.TestReport("other", ("f", 1, "t"), {}, "passed", None, "call"),
            pytest.CollectReport("broken", "failed", None, None),
            report(THIRD, "failed", text="gone 9"),
            report(FIRST, "passed", when="setup"),
            report(FIRST, "passed", text="gone 33"),
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


def test_a_cell_with_a_failed_teardown_or_two_reports_has_failed() -> None:
    late = [report(SECOND, "passed", text="up 5"), report(SECOND, "failed", when="teardown", text="up 5")]
    assert outcomes(late) == {SECOND: "✗"}
    assert outcomes([report(FIRST, "passed", text="up 5"), report(FIRST, "passed", text="up 5")]) == {FIRST: "✗"}
