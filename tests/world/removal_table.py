"""The table of removals at the end of a test run: each entry at each moment, and what came of it under each controller.

Computed from the reports of the cells that ran, wherever they ran (other processes too): a tick and the
virtual seconds for a cell that passed, a cross for one that failed, a dash for one that was not selected.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

CELL, OUTCOME = "removal cell", "removal outcome"
CONTROLLERS = ("alive", "restarted", "away")
HEADS = ("controller alive", "crashed, restarted", "crashed, an hour away")
TITLE = "removals: virtual seconds until all was gone or the claim was up (an hour away: since the return)"
ENTRY_WIDTH, MOMENT_WIDTH, WIDTH = 11, 24, 23


class Cell(NamedTuple):
    """`row` is its place in the whole table, from 0; `controller` is one of CONTROLLERS."""

    row: int
    entry: str
    moment: str
    controller: str


def outcomes(reports: Iterable[Any]) -> dict[Cell, str]:
    """What became of each cell that these test reports speak of."""
    found: dict[Cell, str] = {}
    for report in reports:
        properties = dict(getattr(report, "user_properties", ()))  # a module that cannot be collected has none
        if CELL not in properties or (report.when != "call" and not report.failed):
            continue
        cell = Cell(*properties[CELL])
        if report.failed or cell in found:
            found[cell] = "✗"
        elif report.passed:
            found[cell] = f"✓ {properties[OUTCOME]}"
    return found


def lines(found: Mapping[Cell, str]) -> list[str]:
    """The rows of which any cell ran, and how many cells passed."""
    table = [" " * (ENTRY_WIDTH + MOMENT_WIDTH) + "".join(head.ljust(WIDTH) for head in HEADS).rstrip()]
    for row, entry, moment in sorted({cell[:3] for cell in found}):
        columns = [found.get(Cell(row, entry, moment, fate), "-").ljust(WIDTH) for fate in CONTROLLERS]
        table.append(f"{entry:{ENTRY_WIDTH}}{moment:{MOMENT_WIDTH}}{''.join(columns)}".rstrip())
    passed = sum(text.startswith("✓") for text in found.values())
    table.append(f"{passed} of {len(found)} cells passed")
    return table
