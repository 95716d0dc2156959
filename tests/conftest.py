"""What a run tells at its end, whichever tests were selected and in whichever processes they ran."""

import pytest

from tests.world import removal_table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of removals, if any of its cells ran."""
    stats = terminalreporter.stats
    found = removal_table.outcomes(report for kind in ("passed", "failed", "error") for report in stats.get(kind, ()))
    if found:
        terminalreporter.section(removal_table.TITLE)
        for line in removal_table.lines(found):
            terminalreporter.write_line(line)
