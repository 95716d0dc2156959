"""The candidates for removal by inference over all keys: the count that the circuit breaker limits.

A key is judged when it is reconciled; a key that changed since is judged again before the candidates are returned. So
the count does not depend on the length of the work queue, and is complete right after a restart.
"""

from collections.abc import Callable, Iterable, Mapping

from controllers.model.facts import Candidate

# Beyond this many changed keys, all keys are judged again.
CHANGED_AT_MOST = 10_000


class GCCandidates:
    """`judge` computes whether a key is a candidate now; `keys` are all keys in the caches."""

    def __init__(self, evaluate: Callable[[str], Candidate | None], keys: Callable[[], Iterable[str]]) -> None:
        self._evaluate = evaluate
        self._keys = keys
        self._found: dict[str, Candidate] = {}
        self._changed: dict[str, None] = {}
        self._all = True

    def key_changed(self, key: str) -> None:
        """An object of this key changed."""
        self._changed[key] = None
        if len(self._changed) > CHANGED_AT_MOST:
            self.all_changed()

    def all_changed(self) -> None:
        """All keys may have changed: a cache was filled, or the CRD is being deleted."""
        self._all = True
        self._changed.clear()

    def evaluated(self, key: str, candidate: Candidate | None) -> None:
        """This key was judged by a pass."""
        self._changed.pop(key, None)
        if candidate is None:
            self._found.pop(key, None)
        else:
            self._found[key] = candidate

    def found(self) -> Mapping[str, Candidate]:
        """All candidates by key."""
        if self._all:
            self._all = False
            self._found.clear()
            self._changed = dict.fromkeys(self._keys())
        for key in tuple(self._changed):
            self.evaluated(key, self._evaluate(key))
        return self._found
