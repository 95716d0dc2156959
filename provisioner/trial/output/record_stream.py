"""Output for programs: JSON lines, or a stream of YAML documents. Each record is flushed when its event happens."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

import msgspec

from provisioner.api.text import printable
from provisioner.api.time import rfc3339
from provisioner.cli.output import encoded
from provisioner.trial.rows import Row

from .records import ClaimRecord, EventRecord, FinishedRecord, Record, StartedRecord
from .renderer import LogLine, Result, Started


class RecordRenderer:
    """A `Renderer` that writes records as `json` (one on each line) or as `yaml` (one document each)."""

    def __init__(self, out: TextIO, output: str) -> None:
        self._out = out
        self._output = output
        self._rows: dict[str, ClaimRecord] = {}
        self._ready_seconds: dict[str, float] = {}

    def live(self) -> AbstractContextManager[object]:
        return nullcontext()

    def started(self, started: Started) -> None:
        self._write(
            StartedRecord(
                kubeconfig=started.kubeconfig,
                api_server=started.api_server,
                arm=started.arm,
                metrics=started.metrics,
            )
        )

    def line(self, line: LogLine) -> None:
        self._write(EventRecord(at_seconds=round(line.at, 3), claim=line.claim, source=line.source, text=line.text))

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        for row in rows:
            if row.ready_seconds is not None:
                self._ready_seconds[row.name] = round(row.ready_seconds, 3)
            current = _claim(row, at_seconds)
            before = self._rows.get(row.uid)
            if before is None or current != msgspec.structs.replace(before, at_seconds=current.at_seconds):
                self._rows[row.uid] = current
                self._write(current)

    def finished(self, result: Result) -> None:
        self._finished(result, stopped=False)

    def stopped(self) -> None:
        self._finished(Result(ok=True, text=""), stopped=True)

    def _finished(self, result: Result, *, stopped: bool) -> None:
        record = FinishedRecord(
            ok=result.ok,
            stopped=stopped,
            missing=result.missing,
            ready_seconds=self._ready_seconds,
            arm_calls=result.arm_calls,
            arm_lists=result.arm_lists,
        )
        self._write(record)

    def _write(self, record: Record) -> None:
        if self._output == "json":
            self._out.write(f"{printable(msgspec.json.encode(record).decode())}\n")
        else:
            self._out.write(f"---\n{encoded(record, self._output)}\n")
        self._out.flush()


def _claim(row: Row, at_seconds: float) -> ClaimRecord:
    return ClaimRecord(
        at_seconds=round(at_seconds, 3),
        claim=row.name,
        size=row.size,
        phase=row.phase,
        since=rfc3339(row.entered.time),
        gpus_allocatable=row.gpus_allocatable,
        gpus_expected=row.gpus_expected,
        price=row.price,
    )
