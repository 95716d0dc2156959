"""What of the whole fleet looks like garbage: the count that the circuit breaker rests on.

Every key is judged from the caches before anybody is told a count, and again once something of it changed.
So the count waits for no pass, a busy queue hides nothing, and a process that has just started knows it whole.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from controllers.garbagecollection import garbage
from controllers.model.facts import Facts
from controllers.model.steps import Cause

# Who has so many keys to judge again might as well judge them all.
CHANGED_AT_MOST = 10_000


class GCCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """`machine`: the UID of the claim that it was made for; with the key, it names one machine through all stages."""

    cause: Cause
    machine: str


class GCCandidates:
    """`glance` gives a key's facts as the caches have them; `keys` are all keys that the caches know."""

    def __init__(self, cached_facts: Callable[[str], Facts], keys: Callable[[], Iterable[str]]) -> None:
        self._cached_facts = cached_facts
        self._keys = keys
        self._found: dict[str, GCCandidate] = {}
        self._changed: dict[str, None] = {}
        self._all = True

    def changed(self, key: str) -> None:
        """Something of this key is not as it was."""
        self._changed[key] = None
        if len(self._changed) > CHANGED_AT_MOST:
            self.all_changed()

    def all_changed(self) -> None:
        """Something changed for every key: a cache was read for the first time, or the CRD is going."""
        self._all = True
        self._changed.clear()

    def found(self) -> Mapping[str, GCCandidate]:
        """Every key that looks like garbage now."""
        if self._all:
            self._all = False
            self._found.clear()
            self._changed = dict.fromkeys(self._keys())
        for key in self._changed:
            facts = self._cached_facts(key)
            cause = garbage.candidate_cause(facts)
            if cause is None:
                self._found.pop(key, None)
            else:
                self._found[key] = GCCandidate(cause=cause, machine=garbage.claim_uid(facts))
        self._changed.clear()
        return self._found
