"""The agent pools: the current state, recent states, and the subscribers.

`pools` is the current state. `view()` is the state some seconds ago, which lagging reads serve. Subscribers are called
synchronously with each change, in the order of subscription.

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
        """Store a pool."""
        self._save_history()
        self.pools[pool.name] = pool
        self._notify(kind, pool)
        return pool

    def remove(self, name: str) -> None:
        """Remove a pool."""
        self._save_history()
        self._notify("gone", self.pools.pop(name))

    def view(self, lag_seconds: float) -> Mapping[str, Pool]:
        """The pools of `lag_seconds` ago, at most 60."""
        moment = self._scheduler.time() - lag_seconds
        return next((pools for until, pools in self._history if moment < until), self.pools)

    def _save_history(self) -> None:
        now = self._scheduler.time()
        kept = [(until, pools) for until, pools in self._history if until > now - HISTORY_SECONDS]
        self._history = [*kept, (now, dict(self.pools))]

    def _notify(self, kind: Kind, pool: Pool) -> None:
        for subscriber in self._subscribers:
            subscriber(kind, pool)
