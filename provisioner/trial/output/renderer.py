"""The interface of the three outputs, and the values that they show.

The outputs are lines (`lines.py`), a live table (`terminal.py`) and records (`record_stream.py`).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from provisioner.trial.rows import Row

Style = Literal["plain", "success", "error", "dim"]
CLAIM_WIDTH, SOURCE_WIDTH = 12, 9
# The source of the lines about pods, which have no row in the table.
POD = "Pod"


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One event. `at`: seconds since the start; `source`: Node, NodeClaim, AgentPool, Pod, ARM, Event or user."""

    at: float
    claim: str
    source: str
    text: str
    style: Style = "plain"

    @property
    def prefix(self) -> str:
        """All columns but the text, which may be long."""
        return f"{self.at:7.2f} s  {self.claim:<{CLAIM_WIDTH}} {self.source:<{SOURCE_WIDTH}} "

    def __str__(self) -> str:
        return self.prefix + self.text


@dataclass(frozen=True, kw_only=True)
class Started:
    """Where the servers listen. `scenario`: the injected failure, or ""; `commands`: shell lines to copy, or ""."""

    text: str
    scenario: str
    commands: str
    kubeconfig: str
    api_server: str
    arm: str
    metrics: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """`missing`: what was expected and not observed; `arm_calls`: the controller's requests for single agent pools.

    `ready_seconds`: from the creation of each claim until it was Ready, in real time.
    """

    ok: bool
    text: str
    missing: tuple[str, ...] = ()
    ready_seconds: Mapping[str, float] = field(default_factory=dict)
    arm_calls: int = 0
    arm_lists: int = 0


class Renderer(Protocol):
    """`live` is entered before `started` and left before `finished`."""

    def live(self) -> AbstractContextManager[object]: ...
    def started(self, started: Started) -> None: ...
    def line(self, line: LogLine) -> None: ...
    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        """The rows of all claims, after each change and four times a second; they may be equal to the last ones."""

    def finished(self, result: Result) -> None: ...
    def stopped(self) -> None: ...


def ready_lines(ready_seconds: Mapping[str, float]) -> list[str]:
    """The time to Ready of each claim; [] if none became Ready."""
    if not ready_seconds:
        return []
    width = max(map(len, ready_seconds))
    return ["time to Ready:", *(f"  {name:<{width}}  {seconds:.1f} s" for name, seconds in ready_seconds.items())]
