"""The order of the claims that wait for room: owners take turns, and the claims of one owner are served by age.

Each create takes its owner to the next round; an owner that starts to wait joins the current round. Neither an owner
with many claims nor a succession of new owners can thus keep another one waiting, and a create out of order, by a
worker that came first, does not gain its owner a turn.
"""

import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import owner_of


class _Turn(NamedTuple):
    """The round of an owner's next create, and since when it has waited for it."""

    round: int
    since: datetime


class QueueOrder:
    """The turns of the owners that wait. Times are those of the wall clock, as in creation timestamps."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def order(self, claims: Iterable[NodeClaim]) -> list[NodeClaim]:
        """The claims in the order in which they are served."""
        waiting: dict[str, list[NodeClaim]] = {}
        for claim in sorted(claims, key=lambda claim: (claim.metadata.creation_timestamp, claim.name), reverse=True):
            waiting.setdefault(owner_of(claim), []).append(claim)
        current = min((turn.round for name, turn in self._turns.items() if name in waiting), default=0)
        self._turns = {
            name: self._turns.get(name) or _Turn(current, line[-1].metadata.creation_timestamp)
            for name, line in waiting.items()
        }
        first = sorted(waiting, key=lambda name: (self._turns[name], waiting[name][-1].name))
        due = [(self._turns[name].round, number, name) for number, name in enumerate(first)]
        ordered: list[NodeClaim] = []
        while due:
            turn, _, name = heapq.heappop(due)
            ordered.append(waiting[name].pop())
            if waiting[name]:
                heapq.heappush(due, (turn + 1, len(first) + len(ordered), name))
        return ordered

    def served(self, claim: NodeClaim, now: datetime) -> None:
        """A create for this claim is about to be sent."""
        turn = self._turns.get(owner_of(claim))
        if turn is not None:
            self._turns[owner_of(claim)] = _Turn(turn.round + 1, now)
