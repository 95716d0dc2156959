"""Runs a test on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from provisioner.simulator import loop as sim

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)


def virtually(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return sim.run(main, seed=1, epoch=EPOCH)


def now() -> float:
    return asyncio.get_running_loop().time()
