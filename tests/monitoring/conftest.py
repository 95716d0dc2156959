"""The scripted scenario, played once under a real Prometheus, for all that is asked of it afterwards."""

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
    """All that stands here needs Prometheus' programs."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.monitoring)


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """What is missing is said in one line, instead of a page for each test."""
    try:
        binary("prometheus"), binary("promtool")
    except NotInstalled as missing:
        pytest.exit(str(missing), returncode=2)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, installed: None) -> Iterator[Recording]:
    """What Prometheus saw of the whole scenario."""
    with contextlib.ExitStack() as until_the_end:
        yield asyncio.run(record(tmp_path_factory.mktemp("recording"), until_the_end, (RULES,)))
