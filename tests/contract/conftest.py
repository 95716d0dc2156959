"""Reports in the summary of a run how many cases of the contract ran against the emulator only."""

import pytest

from .service import AZURE, why_not_live


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many cases ran against the emulator only, and why."""
    skipped = [one for one in terminalreporter.stats.get("skipped", ()) if _is_live(getattr(one, "nodeid", ""))]
    if skipped:
        cases = f"{len(skipped)} cases of the Azure contract ran against the emulator only"
        terminalreporter.write_line(f"{cases}: {why_not_live()} (tests/contract/service.py)")


def _is_live(nodeid: str) -> bool:
    path, _, parameters = nodeid.partition("[")
    return path.startswith("tests/contract/") and AZURE in parameters.rstrip("]").split("-")
