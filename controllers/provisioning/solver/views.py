"""The constraints of a pod from strict to relaxed.

A preference is a requirement until no node and no machine satisfies it; then the next view gives it up. The order is
Karpenter's: preferred pod affinity, preferred pod anti-affinity, preferred node affinity, spread constraints with
ScheduleAnyway, and last taints with PreferNoSchedule. Within one kind the heaviest preference is given up first.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import overload

import msgspec

from provisioner.api.requirements import Requirements, combine, excludes
from provisioner.api.value_sets import one_of

from .comparisons import check
from .model import PodSpec, Preference, TopologyTerm

_ORDER = ("affinity", "anti-affinity", "spread")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One set of constraints: any of `alternatives` suffices, all of `topology` must hold.

    `key` is equal for views that differ in `topology` only.
    """

    alternatives: tuple[Requirements, ...]
    topology: tuple[TopologyTerm, ...]
    key: Hashable
    ignore_preferred_taints: bool = False


class PodViews(Sequence[View]):
    """The views of a pod, the strictest one first. Each is made when it is used: there can be thousands of them."""

    def __init__(self, spec: PodSpec) -> None:
        self._spec = spec
        self._required = tuple(term for term in spec.topology if not term.weight)
        self._optional = tuple(term for kind in _ORDER for term in _by_weight(spec.topology, kind))
        self._preferred = sorted(spec.preferences, key=lambda preference: -preference.weight)
        self._of_pods = sum(term.kind != "spread" for term in self._optional)
        # The active view, and the one without any preference, which is used beside it.
        self._last: tuple[int, View] | None = None
        self._relaxed: View | None = None

    def __len__(self) -> int:
        return len(self._optional) + len(self._preferred) + 2

    @overload
    def __getitem__(self, level: int) -> View: ...
    @overload
    def __getitem__(self, level: slice) -> Sequence[View]: ...
    def __getitem__(self, level: int | slice) -> View | Sequence[View]:
        if isinstance(level, slice):
            return [self[one] for one in range(*level.indices(len(self)))]
        number = level + len(self) if level < 0 else level
        if not 0 <= number < len(self):
            raise IndexError(level)
        if number + 1 == len(self):
            self._relaxed = self._relaxed or self._made(number)
            return self._relaxed
        if self._last is None or self._last[0] != number:
            self._last = number, self._made(number)
        return self._last[1]

    def _made(self, level: int) -> View:
        """Preferred pod affinity is given up first, then preferred node affinity, then ScheduleAnyway, last taints."""
        others = max(0, level - self._of_pods)
        optional = min(level, self._of_pods) + max(0, others - len(self._preferred))
        preferred = self._preferred[others] if others < len(self._preferred) else None
        view = _view(self._spec, (*self._required, *self._optional[optional:]), preferred)
        if level + 1 < len(self):
            return view
        return made(view.alternatives, view.topology, ignore_preferred_taints=True)


def comparisons(spec: PodSpec) -> int:
    """The work that a pod costs for each kind of machine. Raises TooLargeError."""
    volumes = [one for choice in spec.choices for one in choice.volumes or ({},)]
    each = sum(map(len, spec.alternatives)) * len(volumes) + sum(map(len, volumes)) * len(spec.alternatives)
    levels, preferred = len(PodViews(spec)), sum(len(one.requirements) for one in spec.preferences)
    each += preferred * len(spec.alternatives) * len(volumes) // levels
    return check(levels=levels, expressions=each, terms=len(spec.topology))


def made(
    alternatives: tuple[Requirements, ...], topology: tuple[TopologyTerm, ...], *, ignore_preferred_taints: bool = False
) -> View:
    """A view with its key."""
    return View(
        alternatives=alternatives,
        topology=topology,
        key=(tuple(frozenset(one.items()) for one in alternatives), ignore_preferred_taints),
        ignore_preferred_taints=ignore_preferred_taints,
    )


def inside(view: View, domain: Mapping[str, str]) -> View:
    """The view of pods whose machine must have these labels."""
    fixed = {key: one_of((value,)) for key, value in domain.items()}
    return made(
        _both(view.alternatives, (fixed,)),
        view.topology,
        ignore_preferred_taints=view.ignore_preferred_taints,
    )


def _by_weight(terms: tuple[TopologyTerm, ...], kind: str) -> list[TopologyTerm]:
    return sorted((t for t in terms if t.weight and t.kind == kind), key=lambda term: -term.weight)


def _view(spec: PodSpec, topology: tuple[TopologyTerm, ...], preferred: Preference | None) -> View:
    alternatives = spec.alternatives
    if spec.volumes:
        alternatives = _both(alternatives, spec.volumes)
    if preferred is not None:
        alternatives = _both(alternatives, (preferred.requirements,))
    return made(alternatives, topology)


def _both(alternatives: tuple[Requirements, ...], others: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    return tuple(combine(one, other) for one in alternatives for other in others if not excludes(one, other))
