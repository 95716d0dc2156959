"""The programs that are built from the modules of Karpenter and kube-scheduler."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gotool import MissingError

from . import build, kube_scheduler


@pytest.fixture(scope="session")
def karpenter() -> Path:
    """Skips the test if it cannot be built here, unless REQUIRE_GO is set."""
    return _built(build.build)


@pytest.fixture(scope="session")
def binder() -> Path:
    """kube-scheduler's filter plugins; as `karpenter`."""
    return _built(kube_scheduler.build)


def _built(program: Callable[[], Path]) -> Path:
    try:
        return program()
    except MissingError as error:
        if os.environ.get("REQUIRE_GO"):
            raise
        pytest.skip(str(error))
