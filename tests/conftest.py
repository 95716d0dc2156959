"""Hooks of all tests: logging is reset after each test, and `make test` runs representatives of each matrix."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from .garbage import collect_seldom
from .world import removal_table

# Machines are noisy: the time that an example takes is no result of a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

EVERY_CASE = "--every-case"
# Whose parametrized tests are matrices of one representative unless they are marked otherwise: each case is a story.
OF_STORIES = ("tests/properties/", "tests/wire/", "tests/world/")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-all` passes this option; `make test` does not."""
    parser.addoption(EVERY_CASE, action="store_true", help="run every case of tests that are marked matrix")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but `quick` evenly spaced cases of each test marked `matrix(quick=N)`; 0 leaves the test out.

    Nothing is deselected if tests are named on the command line: by `-k`, by file or by node ID.
    """
    named = bool(config.option.keyword) or any(".py" in argument for argument in config.args)
    if named or config.getoption(EVERY_CASE):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("matrix") is not None or _is_case_of_a_story(item):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for group in cases.values():
        marker = group[0].get_closest_marker("matrix")
        quick = marker.kwargs["quick"] if marker is not None else 1
        kept = {group[i * len(group) // quick] for i in range(quick)}
        left_out |= set(group) - kept
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))


def _is_case_of_a_story(item: pytest.Item) -> bool:
    return item.nodeid.startswith(OF_STORIES) and "[" in item.nodeid


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A test that runs a command configures logging for its process, which is also that of the tests after it."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


def pytest_collection_finish() -> None:
    """What is there before the first test stays: no later collection looks at it again."""
    collect_seldom()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of removals, if any of its cells ran."""
    stats = terminalreporter.stats
    found = removal_table.outcomes(report for kind in ("passed", "failed", "error") for report in stats.get(kind, ()))
    if found:
        terminalreporter.section(removal_table.TITLE)
        for line in removal_table.lines(found):
            terminalreporter.write_line(line)
