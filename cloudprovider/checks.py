"""Results of `check`, one per line, and what a cloud checks.

A failed check has a remedy; an unknown result has a cause. Results contain no secrets: errors have the text that is
logged.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.text import printable

State = Literal["ok", "failed", "unknown"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """`section`: configuration, kubernetes, or the name of the cloud; `check`: the subject of the check."""

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


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks of a cloud are about.

    `claims`: the NodeClaims. `resource_groups`: those of the Nodes' machines as ARM ids; None if they could not be
    read. `sizes`: each is checked for one more machine. `max_pools`: a limit of the settings, None if there is none.
    """

    claims: Sequence[NodeClaim] = ()
    resource_groups: frozenset[str] | None = None
    sizes: Sequence[str] = ()
    max_pools: int | None = None


class CloudChecks(Protocol):
    """What the controller needs of a cloud. The checks only read."""

    async def run(self, subject: Subject) -> CheckResults:
        """The results of this section; errors of the cloud are results."""
