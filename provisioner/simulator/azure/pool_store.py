"""The pools as they are, as they were, and who wants to know of changes.

`pools` is the truth; `view()` is the truth of some seconds ago, which is what a lagging read serves; each
change is told to every subscriber at once, in the order of subscription.

Source: docs/references/agent-pools.md#not-found, docs/references/simulator.md#simulated-arm.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from provisioner.simulator.scheduler import Scheduler

from .agentpool import Pool

Kind = Literal["creating", "running", "failed", "deleting", "gone", "updated"]
Subscriber = Callable[[Kind, Pool], None]
HISTORY_SECONDS = 60.0


class AgentPoolStore:
    def __init__(self, scheduler: Scheduler) -> None:
        self.pools: dict[str, Pool] = {}
        self._scheduler = scheduler
        self._history: list[tuple[float, Mapping[str, Pool]]] = []
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def put(self, kind: Kind, pool: Pool) -> Pool:
        """The pool is like this from now on."""
        self._remember()
        self.pools[pool.name] = pool
        self._tell(kind, pool)
        return pool

    def remove(self, name: str) -> None:
        """The pool is gone for good."""
        self._remember()
        self._tell("gone", self.pools.pop(name))

    def view(self, lag_seconds: float) -> Mapping[str, Pool]:
        """The pools of `lag_seconds` ago (at most 60 are remembered)."""
        moment = self._scheduler.time() - lag_seconds
        return next((pools for until, pools in self._history if moment < until), self.pools)

    def _remember(self) -> None:
        now = self._scheduler.time()
        kept = [(until, pools) for until, pools in self._history if until > now - HISTORY_SECONDS]
        self._history = [*kept, (now, dict(self.pools))]

    def _tell(self, kind: Kind, pool: Pool) -> None:
        for subscriber in self._subscribers:
            subscriber(kind, pool)
