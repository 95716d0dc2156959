"""Output as JSON: one object per line, distinguished by `kind`.

Each line is flushed when its event happens, and always has all the fields that `gpu-provisioner try --help` lists.
Times are UTC with whole seconds; `at_seconds` is the time since the start.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

import msgspec

from provisioner.runtime.objects import whole_second
from provisioner.trial.rows import Row

from .renderer import LogLine, Result, Started


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The base of all lines."""


class StartedRecord(_Record, tag="started", frozen=True, kw_only=True):
    """The first line: where the simulated API server and ARM listen."""

    kubeconfig: str
    api_server: str
    arm: str


class EventRecord(_Record, tag="event", frozen=True, kw_only=True):
    """An event of a claim ("" for none); `source`: Node, NodeClaim, AgentPool, ARM, Event or user."""

    at_seconds: float
    claim: str
    source: str
    text: str


class ClaimRecord(_Record, tag="claim", frozen=True, kw_only=True):
    """The state of a claim after a change; it has been in `phase` since `since`."""

    at_seconds: float
    claim: str
    size: str
    phase: str
    since: str
    gpus_allocatable: int
    gpus_expected: int


class FinishedRecord(_Record, tag="finished", frozen=True, kw_only=True):
    """The last line. `stopped`: by a signal; `missing`: what was expected and not observed."""

    ok: bool
    stopped: bool
    missing: tuple[str, ...]
    arm_calls: int
    arm_lists: int


RECORDS: tuple[type[_Record], ...] = (StartedRecord, EventRecord, ClaimRecord, FinishedRecord)


def documented() -> list[str]:
    """A line for each kind, with its fields."""
    return [f"{record.__struct_config__.tag}: {', '.join(record.__struct_fields__)}" for record in RECORDS]


class JsonRenderer:
    """A `Renderer` that writes JSON lines."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rows: dict[str, ClaimRecord] = {}

    def live(self) -> AbstractContextManager[object]:
        return nullcontext()

    def started(self, started: Started) -> None:
        self._write(StartedRecord(kubeconfig=started.kubeconfig, api_server=started.api_server, arm=started.arm))

    def line(self, line: LogLine) -> None:
        self._write(EventRecord(at_seconds=round(line.at, 3), claim=line.claim, source=line.source, text=line.text))

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        for row in rows:
            current = _claim(row, at_seconds)
            before = self._rows.get(row.uid)
            if before is None or current != msgspec.structs.replace(before, at_seconds=current.at_seconds):
                self._rows[row.uid] = current
                self._write(current)

    def finished(self, result: Result) -> None:
        calls, lists = result.arm_calls, result.arm_lists
        record = FinishedRecord(ok=result.ok, stopped=False, missing=result.missing, arm_calls=calls, arm_lists=lists)
        self._write(record)

    def stopped(self) -> None:
        self._write(FinishedRecord(ok=True, stopped=True, missing=(), arm_calls=0, arm_lists=0))

    def _write(self, record: _Record) -> None:
        self._out.write(msgspec.json.encode(record).decode() + "\n")
        self._out.flush()


def _claim(row: Row, at_seconds: float) -> ClaimRecord:
    return ClaimRecord(
        at_seconds=round(at_seconds, 3),
        claim=row.name,
        size=row.size,
        phase=row.phase,
        since=whole_second(row.entered.time),
        gpus_allocatable=row.gpus_allocatable,
        gpus_expected=row.gpus_expected,
    )
