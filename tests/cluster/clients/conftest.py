"""The stage that stories of real clients play on."""

import pytest

from tests.cluster.backend import Backend

from .stage import Stage


@pytest.fixture
def it(backend: Backend) -> Stage:
    """kubectl and a hand, before each of the two servers in turn."""
    return Stage(backend)
