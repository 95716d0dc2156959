"""A trial for programs: one JSON object a line, each with a `kind`.

A line is written and flushed the moment something happened; the fields below are all there always, and are
what `gpu-provisioner try --help` names. Times of day are UTC with whole seconds; `at_seconds` count from the beginning.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

import msgspec

from provisioner.runtime.objects import whole_second

from .printing import Line
from .records import Begun, ClaimNow, Ended, Event, Record
from .rows import Row
from .shows import Ending, Opening


class JsonLines:
    """A `Show` for programs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rows: dict[str, ClaimNow] = {}

    def running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def begun(self, opening: Opening) -> None:
        self._write(Begun(kubeconfig=opening.kubeconfig, api_server=opening.api_server, arm=opening.arm))

    def line(self, line: Line) -> None:
        self._write(Event(at_seconds=round(line.at, 3), claim=line.claim, who=line.who, text=line.text))

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        for row in rows:
            current = _claim(row, at_seconds)
            before = self._rows.get(row.uid)
            if before is None or current != msgspec.structs.replace(before, at_seconds=current.at_seconds):
                self._rows[row.uid] = current
                self._write(current)

    def ended(self, ending: Ending) -> None:
        calls, lists = ending.arm_calls, ending.arm_lists
        self._write(Ended(ok=ending.ok, stopped=False, missing=ending.missing, arm_calls=calls, arm_lists=lists))

    def stopped(self) -> None:
        self._write(Ended(ok=True, stopped=True, missing=(), arm_calls=0, arm_lists=0))

    def _write(self, record: Record) -> None:
        self._out.write(msgspec.json.encode(record).decode() + "\n")
        self._out.flush()


def _claim(row: Row, at_seconds: float) -> ClaimNow:
    return ClaimNow(
        at_seconds=round(at_seconds, 3),
        claim=row.name,
        size=row.size,
        phase=row.phase,
        since=whole_second(row.entered.time),
        gpus_seen=row.gpus_seen,
        gpus_expected=row.gpus_expected,
    )
