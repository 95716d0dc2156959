"""What one sick Node must know of the others: how many are sick, who fell sick together, who is in line for repair.

Counts are kept by key and renewed by each pass over it; the line is in the order in which repairs became due,
so that nobody is overtaken between a decision and its trace in the cache. After a restart all of it is seen again,
before the first repair (`Policy.repair_watch_seconds`).
"""

import msgspec

from controllers.model.facts import Facts, Ward
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.steps import Wait
from controllers.node.health import repair
from controllers.nodeclaim.lifecycle.launch_failure import was_usable

from .indexes import Views


class Patient(msgspec.Struct):
    """`since`: not Ready; `due`: since when its repair has been due, None while it is not. Loop times in seconds."""

    since: float
    due: float | None = None
    blocked: bool = False


class Infirmary:
    """Times are loop times in seconds."""

    def __init__(self, *, views: Views, policy: Policy) -> None:
        self._views = views
        self._policy = policy
        self._patients: dict[str, Patient] = {}

    def admit(self, f: Facts, now: float) -> Ward:
        """Take in what `f` says of its key; the ward as that key needs to know it."""
        if f.sick is None:
            self._patients.pop(f.key, None)
            return Ward()
        patient = self._patients.setdefault(f.key, Patient(since=0.0))
        patient.since = now - f.sick.age
        waiting = repair.not_yet(f)
        if isinstance(waiting, Wait):
            patient.due, patient.blocked = None, False
        elif waiting is None and patient.due is None:
            patient.due = now
        # Who has still to read something keeps the place it has.
        if waiting is not None or patient.due is None:
            return Ward()
        ward = self._ward(patient.due, f.key)
        patient.blocked = bool(repair.crowded(self._policy, ward))
        return ward

    def forget(self, key: str) -> None:
        """Nothing is left of this key."""
        self._patients.pop(key, None)

    def blocked(self) -> int:
        """How many repairs are due and wait for others."""
        return sum(patient.blocked for patient in self._patients.values())

    def _ward(self, due: float, key: str) -> Ward:
        usable = [claim for claim in self._views.claims() if managed(claim) and was_usable(claim)]
        line = [(p.due, other) for other, p in self._patients.items() if p.due is not None]
        return Ward(
            nodes=len(usable),
            sick=len(self._patients),
            struck=self._struck(),
            going=sum(repair.leaving(claim) for claim in usable),
            place=1 + sum(before < (due, key) for before in line),
        )

    def _struck(self) -> int:
        """The most that fell sick within one window, of those that still are."""
        window = self._policy.repair_struck_seconds
        onsets = sorted(patient.since for patient in self._patients.values())
        first, most = 0, 0
        for last, onset in enumerate(onsets):
            while onset - onsets[first] > window:
                first += 1
            most = max(most, last - first + 1)
        return most
