"""What a trial tells whoever started it, whichever way it is shown.

The same in all three ways: lines (`printing.py`), a live table (`live.py`), JSON (`jsonlines.py`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from .printing import Line
from .rows import Row


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Where people are: in words (`told`, and what goes wrong), in lines to copy, and as the bare addresses."""

    told: str
    announced: str
    to_copy: str
    kubeconfig: str
    api_server: str
    arm: str


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How it went. `missing`: what was announced and not seen; `arm_calls`: about single pools, by the controller."""

    ok: bool
    told: str
    missing: tuple[str, ...] = ()
    arm_calls: int = 0
    arm_lists: int = 0


class Show(Protocol):
    """Entered as a context around the trial; whatever is there at its end stays to be read."""

    def running(self) -> AbstractContextManager[object]: ...
    def begun(self, opening: Opening) -> None: ...
    def line(self, line: Line) -> None: ...
    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        """The rows after a change, or a quarter of a second later; the same ones may come again."""

    def ended(self, ending: Ending) -> None: ...
    def stopped(self) -> None: ...
