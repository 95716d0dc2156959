"""The window in which provisionable pods are collected before one decision is made for all of them.

A window opens with its first pod and closes after 1 second without a new one, or 10 seconds in all. A pod that is
already in the window does not extend it. The removal of a machine opens or extends the window in the same way.

Source: https://karpenter.sh/docs/concepts/scheduling/, docs/references/karpenter.md#timers.
"""

IDLE_SECONDS = 1.0
MAX_SECONDS = 10.0


class Batch:
    """Times are loop times in seconds."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS, max_seconds: float = MAX_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._max_seconds = max_seconds
        # When each pod was added, in the order of time.
        self._pods: dict[str, float] = {}

    def add(self, uid: str, now: float) -> None:
        """A pod became provisionable, or a machine with this UID is being removed."""
        self._pods.setdefault(uid, now)

    def remaining(self, now: float) -> float | None:
        """Seconds until the window closes, 0 once it has; None without a pod."""
        if not self._pods:
            return None
        opened, extended = next(iter(self._pods.values())), next(reversed(self._pods.values()))
        return max(0.0, min(extended + self._idle_seconds, opened + self._max_seconds) - now)

    @property
    def collected(self) -> frozenset[str]:
        """The UIDs in the window."""
        return frozenset(self._pods)

    def close(self, decided: frozenset[str]) -> None:
        """A decision was made for these; what was added while it was made is in a window of its own."""
        for uid in decided:
            self._pods.pop(uid, None)
