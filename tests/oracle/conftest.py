"""The program that is built from Karpenter's module."""

import os
from pathlib import Path

import pytest

from tests.gotool import MissingError

from .build import build


@pytest.fixture(scope="session")
def karpenter() -> Path:
    """Skips the test if it cannot be built here, unless REQUIRE_GO is set."""
    try:
        return build()
    except MissingError as error:
        if os.environ.get("REQUIRE_GO"):
            raise
        pytest.skip(str(error))
