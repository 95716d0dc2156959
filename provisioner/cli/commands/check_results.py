"""One line of `check`: what was looked at, how it is, and what to do.

`bad` is ✗ and has a remedy; `unknown` is what could not be told, and says why. No secret is in it: errors come
in the words that logs show too.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

State = Literal["ok", "bad", "unknown"]
MARKS: dict[State, str] = {"ok": "✓", "bad": "✗", "unknown": "-"}


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """`section` is configuration, kubernetes or azure; `check` names what was looked at within it."""

    section: str
    check: str
    state: State
    message: str
    remedy: str = ""


class CheckResults:
    """Collects one section's findings, in the order in which they are told."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.items: list[CheckResult] = []

    def ok(self, check: str, message: str) -> None:
        self._add(check, "ok", message, "")

    def bad(self, check: str, message: str, remedy: str) -> None:
        self._add(check, "bad", message, remedy)

    def unknown(self, check: str, message: str, remedy: str = "") -> None:
        self._add(check, "unknown", message, remedy)

    def _add(self, check: str, state: State, message: str, remedy: str) -> None:
        self.items.append(CheckResult(section=self.section, check=check, state=state, message=message, remedy=remedy))


def well(findings: Iterable[CheckResult]) -> bool:
    """Whether nothing is wrong."""
    return not any(finding.state == "bad" for finding in findings)
