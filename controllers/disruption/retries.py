"""When a machine may be replaced again after its replacement was undone: later each time, and after the others.

What is short or refused for one machine delays that machine alone, so that it goes to the end of the line. Where the
replacements of other machines would fail as well, the whole NodePool waits: an image that makes machines useless then
costs one machine every few hours.
"""

from collections.abc import Iterable, Mapping

import msgspec

from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .commands_under_way import Replacement

FIRST_SECONDS, MOST_SECONDS = 600.0, 43_200.0


class Failure(msgspec.Struct, frozen=True):
    """`number`: how often a replacement was undone. `until`: when the next one may begin, a loop time in seconds."""

    number: int
    until: float
    why: str


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """`waiting`: the machines that are not replaced for now, by the UID of the NodeClaim, and why.

    `pools`: the NodePools that wait as a whole, by name, among other keys. `numbers`: how often replacements were
    undone, by the UID of the NodeClaim or the name of the NodePool.
    """

    waiting: Mapping[str, str] = {}
    pools: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}


class Retries:
    """Of one method of disruption. Keys are UIDs of NodeClaims and names of NodePools."""

    def __init__(self) -> None:
        self._failures: dict[str, Failure] = {}

    def failed(self, command: Replacement, why: str, now: float, *, static: bool) -> None:
        """A command was undone. `static`: its NodePool is."""
        pools = command.node_pools if concerns_pool(command, static=static) else ()
        for key in (*(claim.uid for claim in command.old), *pools):
            self.delay(key, why, now)

    def delay(self, key: str, why: str, now: float) -> None:
        """The machine of this UID, or the NodePool of this name, waits longer than the last time."""
        self._failures = {known: one for known, one in self._failures.items() if now < one.until + MOST_SECONDS}
        number = self._failures[key].number + 1 if key in self._failures else 1
        seconds = min(FIRST_SECONDS * 2.0 ** min(number - 1, 16), MOST_SECONDS)
        self._failures[key] = Failure(number, now + seconds, why)

    def succeeded(self, command: Replacement) -> None:
        """A command is complete."""
        for key in (*(claim.uid for claim in command.old), *command.node_pools):
            self._failures.pop(key, None)

    def undone(self, claims: Iterable[NodeClaim], now: float) -> Undone:
        """What a decision about these machines takes into account at this time."""
        why = {key: one.why for key, one in self._failures.items() if one.until > now}
        found = {one.uid: why.get(one.uid) or why.get(_pool(one), "") for one in claims}
        waiting = {uid: cause for uid, cause in found.items() if cause}
        return Undone(waiting=waiting, pools=why, numbers={key: one.number for key, one in self._failures.items()})


def concerns_pool(command: Replacement, *, static: bool) -> bool:
    """Whether replacements of other machines of the NodePool would fail as well.

    All machines of a static NodePool get the same replacement. In a dynamic one, capacity is short for a size, and
    other machines have others. What failed before or after the replacements concerns the old machines, and so does what
    protects one of them, or an unknown reason.
    """
    pending = [one for one in command.new if one.condition(INITIALIZED, "True") is None]
    if command.protected or not command.id or command.unknown_reason or (command.new and not pending):
        return False
    short = bool(pending) and all(one.condition(LAUNCHED, "False") is not None for one in pending)
    return static or not short


def _pool(claim: NodeClaim) -> str:
    return claim.metadata.labels.get(labels.NODEPOOL, "")
