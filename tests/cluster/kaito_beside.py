"""KAITO's watcher (`tests.world.kaito_watcher`) beside a real API server, with two watches.

Changes of claims and Nodes are processed in the order of etcd's revisions: each waits until the other watch cannot be
behind it. A claim's end counts as the controller's unless users were seen to remove its finalizers.
"""

import heapq
import math
from collections.abc import Callable
from typing import Any

from tests.world.kaito_watcher import CLAIMS, KaitoWatcher, Stage

from .realstore import version_of

Json = dict[str, Any]

# The maximum lag of one watch behind the other; the simulator has none.
WATCHES_DIFFER_SECONDS = 3.0
# Not a bound on real time: it only separates a claim that is never corrected from one that is.
NOTICE_SECONDS = 45.0


class KaitoBeside:
    """`time` in seconds; `requested` counts requests of controllers to the cloud, which only a leader sends."""

    def __init__(self, time: Callable[[], float], requested: Callable[[], int]) -> None:
        self.violations: list[str] = []
        self._time = time
        self._requested = requested
        self._waiting: list[tuple[int, int, float, tuple[str, str, Json, Json | None]]] = []
        self._reported = 0
        self._by_people: dict[str, None] = {}
        self._requested_before = 0
        self._serving_since = math.inf
        self._watcher = KaitoWatcher(
            Stage(
                time=lambda: self._time() - WATCHES_DIFFER_SECONDS,
                serving_since=lambda: self._serving_since,
                by_controller=lambda claim: claim["metadata"]["uid"] not in self._by_people,
                violated=self.violations.append,
                notice_seconds=NOTICE_SECONDS,
            )
        )

    def on_object(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        """Handle a watch event."""
        if resource in (CLAIMS, "nodes"):
            self._reported += 1
            heapq.heappush(
                self._waiting, (version_of(obj), self._reported, self._time(), (event, resource, obj, before))
            )

    def taken_off(self, uid: str) -> None:
        """Record that users remove the finalizers of the claim with this UID."""
        self._by_people[uid] = None

    def alone(self) -> None:
        """Record that no controller is running."""
        self._serving_since, self._requested_before = math.inf, self._requested()

    def look(self) -> None:
        """Process all changes whose wait is over."""
        now = self._time()
        if self._serving_since == math.inf and self._requested() > self._requested_before:
            self._serving_since = now
        while self._waiting and now - self._waiting[0][2] >= WATCHES_DIFFER_SECONDS:
            self._watcher.on_object(*heapq.heappop(self._waiting)[3])
        self._watcher.look()
