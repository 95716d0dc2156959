"""The scenario runs once under a real Prometheus; all tests query the recorded data."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.dashboards.queries import RULES
from tools.monitoring.prometheus import NotInstalled, binary
from tools.monitoring.recording import Recording, record

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need Prometheus."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.monitoring)


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """A missing program ends the run with one line instead of an error for each test."""
    try:
        binary("prometheus"), binary("promtool")
    except NotInstalled as missing:
        pytest.exit(str(missing), returncode=2)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, installed: None) -> Iterator[Recording]:
    """The recording of the whole scenario."""
    with contextlib.ExitStack() as until_the_end:
        yield asyncio.run(record(tmp_path_factory.mktemp("recording"), until_the_end, (RULES,)))
