"""Machines on which pending pods are expected: disruption leaves them alone until the pods have had time to be bound.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Iterable

# Karpenter's, for batches of at most 10 s.
NOMINATED_SECONDS = 20.0


class Nominations:
    """Names of Nodes and NodeClaims; times are loop times in seconds."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def record(self, names: Iterable[str], now: float) -> None:
        """Pending pods are expected on these machines."""
        self._until = {name: until for name, until in self._until.items() if until > now}
        self._until |= dict.fromkeys(names, now + NOMINATED_SECONDS)

    def left(self, name: str, now: float) -> float:
        """Seconds for which a pending pod is expected on this machine."""
        return max(0.0, self._until.get(name, 0.0) - now)
