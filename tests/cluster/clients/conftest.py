"""The environment of tests with real clients."""

import pytest

from tests.cluster.backend import Backend

from .stage import Stage


@pytest.fixture
def it(backend: Backend) -> Stage:
    """kubectl and an HTTP client, for each of the two servers in turn."""
    return Stage(backend)
