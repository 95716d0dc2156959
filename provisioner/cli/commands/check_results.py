"""Results of `check`, one per line.

A failed check has a remedy; an unknown result has a cause. Results contain no secrets: errors have the text that is
logged.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from provisioner.api.text import printable

State = Literal["ok", "failed", "unknown"]
MARKS: dict[State, str] = {"ok": "✓", "failed": "✗", "unknown": "-"}
STYLES: dict[State, str] = {"ok": "green", "failed": "red", "unknown": "yellow"}


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """`section`: configuration, kubernetes or azure; `check`: the subject of the check."""

    section: str
    check: str
    state: State
    message: str
    remedy: str = ""


class CheckResults:
    """The results of one section, in the order of the output."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.items: list[CheckResult] = []

    def ok(self, check: str, message: str) -> None:
        self._add(check, "ok", message, "")

    def failed(self, check: str, message: str, remedy: str) -> None:
        self._add(check, "failed", message, remedy)

    def unknown(self, check: str, message: str, remedy: str = "") -> None:
        self._add(check, "unknown", message, remedy)

    def _add(self, check: str, state: State, message: str, remedy: str) -> None:
        result = CheckResult(section=self.section, check=printable(check), state=state, message=message, remedy=remedy)
        self.items.append(result)


def passed(findings: Iterable[CheckResult]) -> bool:
    """Whether no check failed."""
    return not any(finding.state == "failed" for finding in findings)
