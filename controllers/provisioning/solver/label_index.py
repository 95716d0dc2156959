"""Which of many machines some requirements allow, as bit sets.

Machines with equal values of a label are compared once, and each expression once: a pod with thousands of terms costs
an intersection of sets for each of them, whatever the number of machines.
"""

from collections.abc import Collection, Iterable, Sequence

from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import NEGATIVE, ValueSet

# Answers beyond this number are dropped, so that hostile expressions do not fill the memory.
ANSWERS_MAX = 10_000


class LabelIndex:
    """Bit i stands for `machines[i]`. `planned`: those that need not define the labels `well_known` yet."""

    def __init__(self, machines: Sequence[Requirements], planned: int, well_known: Collection[str]) -> None:
        self._machines = machines
        self._planned = planned
        self._well_known = well_known
        self._every = (1 << len(machines)) - 1
        self._values: dict[str, _Values] = {}
        self._answers: dict[tuple[str, ValueSet], int] = {}

    def allowing(self, requirements: Requirements) -> int:
        """The machines that these requirements do not exclude, as `requirements.conflict` compares them."""
        found = self._every
        for key, wanted in requirements.items():
            found &= self._of(key, wanted)
            if not found:
                break
        return found

    def allowing_any(self, alternatives: Iterable[Requirements]) -> int:
        """The machines that one of several alternatives does not exclude."""
        found = 0
        for one in alternatives:
            found |= self.allowing(one)
        return found

    def undecided(self, key: str, wanted: ValueSet) -> int:
        """The machines for which this expression decides a label: several values are possible, or none is set.

        A label that nothing sets, and that the expression does not require, is no decision.
        """
        value = self._value(key)
        found = self._every & ~value.fixed
        return found & ~value.absent if wanted.operator in NEGATIVE and key not in self._well_known else found

    def _of(self, key: str, wanted: ValueSet) -> int:
        answer = self._answers.get((key, wanted))
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            values = self._value(key)
            answer = values.allowed(wanted)
            if wanted.operator in NEGATIVE:
                answer |= values.absent
            elif key in self._well_known:
                answer |= values.absent & self._planned
            self._answers[key, wanted] = answer
        return answer

    def _value(self, key: str) -> "_Values":
        if key not in self._values:
            self._values[key] = _Values(self._machines, key)
        return self._values[key]


class _Values:
    """What machines have for one label. `absent`: those without a requirement on it. `fixed`: those with one value."""

    def __init__(self, machines: Sequence[Requirements], key: str) -> None:
        self.absent = self.fixed = 0
        self._single: dict[str, int] = {}
        self._others: dict[ValueSet, int] = {}
        for position, machine in enumerate(machines):
            bit, offered = 1 << position, machine.get(key)
            if offered is None:
                self.absent |= bit
            elif (value := offered.single) is not None:
                self._single[value] = self._single.get(value, 0) | bit
                self.fixed |= bit
            else:
                self._others[offered] = self._others.get(offered, 0) | bit

    def allowed(self, wanted: ValueSet) -> int:
        found = 0
        if wanted.complement:
            found = self.fixed
            if wanted.least is None and wanted.most is None:
                for value in wanted.values & self._single.keys():
                    found &= ~self._single[value]
            else:
                for value, machines in self._single.items():
                    if not wanted.allows(value):
                        found &= ~machines
        else:
            for value in wanted.values & self._single.keys():
                found |= self._single[value]
        for offered, machines in self._others.items():
            if offered.compatible(wanted):
                found |= machines
        return found
