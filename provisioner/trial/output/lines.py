"""Output as lines of text: one line per event, in columns. Needs no library."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TextIO

from provisioner.trial.rows import Row

from .renderer import LogLine, Result, Started, ready_lines


class Writer(Protocol):
    """`prose` may be wrapped; `verbatim` is written unchanged, so that it can be copied."""

    def line(self, line: LogLine) -> None: ...
    def prose(self, text: str, style: str = "") -> None: ...
    def verbatim(self, text: str) -> None: ...


class PlainWriter:
    """Writes plain text, for pipes and files."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def line(self, line: LogLine) -> None:
        self.verbatim(str(line))

    def prose(self, text: str, style: str = "") -> None:
        self.verbatim(text)

    def verbatim(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


class LineRenderer:
    """A `Renderer` that writes lines."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._ready_seconds: dict[str, float] = {}

    def live(self) -> AbstractContextManager[object]:
        return nullcontext()

    def started(self, started: Started) -> None:
        self._writer.prose(f"{started.text}\n", "bold")
        if started.scenario:
            self._writer.prose(f"{started.scenario}\n")
        if started.commands:
            self._writer.verbatim(f"{started.commands}\n")

    def line(self, line: LogLine) -> None:
        self._writer.line(line)

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        """Each change was written as a line; the times to Ready are written at the end."""
        self._ready_seconds |= {row.name: row.ready_seconds for row in rows if row.ready_seconds is not None}

    def finished(self, result: Result) -> None:
        self._writer.prose(f"\n{result.text}", "bold green" if result.ok else "bold red")
        for missing in result.missing:
            self._writer.prose(f"  {missing}")
        self._write_ready(result.ready_seconds)

    def stopped(self) -> None:
        if self._ready_seconds:
            self._writer.verbatim("")
        self._write_ready(self._ready_seconds)
        self._writer.prose("\nstopped; nothing is left running")

    def _write_ready(self, ready_seconds: Mapping[str, float]) -> None:
        for line in ready_lines(ready_seconds):
            self._writer.verbatim(line)
