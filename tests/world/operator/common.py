"""The lines that a running program logs."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from provisioner.runtime import logs
from provisioner.simulator.loop import VirtualClock
from tests.world.harness import EPOCH

Line = dict[str, Any]


@contextmanager
def logged(level: str = "info") -> Iterator[list[Line]]:
    """The lines of the stream that `run` writes to, at the end of the context; the configuration is restored."""
    root = logging.getLogger()
    handlers, threshold = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in logs.QUIET_LIBRARIES}
    stream = io.StringIO()
    lines: list[Line] = []
    logs.configure(_Epoch(), level=level, stream=stream)
    try:
        yield lines
    finally:
        lines += map(json.loads, stream.getvalue().splitlines())
        root.handlers[:] = handlers
        root.setLevel(threshold)
        for name, value in quiet.items():
            logging.getLogger(name).setLevel(value)
        structlog.reset_defaults()


class _Epoch(VirtualClock):
    def __init__(self) -> None: ...

    def now(self):
        return EPOCH
