"""One image for all of its tests: it takes fifteen seconds to make."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import replay

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them install from the index, so none of them is part of `make test`."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("image")


@pytest.fixture(scope="session")
def image() -> Iterator[replay.Image]:
    with replay.built() as made:
        yield made
