"""What all tests share: logging is as it was before, and what a run tells at its end, whichever tests were selected."""

import gc
from collections.abc import Iterator

import pytest
import structlog

from .world import removal_table


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A test that runs a command configures logging for its process, which is also that of the tests after it."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


def pytest_collection_finish() -> None:
    """What is there before the first test stays: no later collection looks at it again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of removals, if any of its cells ran."""
    stats = terminalreporter.stats
    found = removal_table.outcomes(report for kind in ("passed", "failed", "error") for report in stats.get(kind, ()))
    if found:
        terminalreporter.section(removal_table.TITLE)
        for line in removal_table.lines(found):
            terminalreporter.write_line(line)
