"""The constraints of a pod from strict to relaxed.

A preference is a requirement until no node and no machine satisfies it; then the next view gives it up. The order is
Karpenter's: preferred pod affinity, preferred pod anti-affinity, preferred node affinity, spread constraints with
ScheduleAnyway, and last taints with PreferNoSchedule. Within one kind the heaviest preference is given up first.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Iterator

import msgspec

from .model import PodSpec, Preference, TopologyTerm
from .requirements import Requirements, combine, excludes

_ORDER = ("affinity", "anti-affinity", "spread")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One set of constraints: any of `alternatives` suffices, all of `topology` must hold."""

    alternatives: tuple[Requirements, ...]
    topology: tuple[TopologyTerm, ...]
    ignore_preferred_taints: bool = False


def views(spec: PodSpec) -> Iterator[View]:
    """The views of a pod, the strictest one first."""
    required = tuple(term for term in spec.topology if not term.weight)
    optional = [term for kind in _ORDER for term in _by_weight(spec.topology, kind)]
    preferred = sorted(spec.preferences, key=lambda preference: -preference.weight)
    while optional and optional[0].kind != "spread":
        yield _view(spec, (*required, *optional), preferred)
        optional.pop(0)
    while preferred:
        yield _view(spec, (*required, *optional), preferred)
        preferred.pop(0)
    while optional:
        yield _view(spec, (*required, *optional), preferred)
        optional.pop(0)
    yield _view(spec, required, preferred)
    yield msgspec.structs.replace(_view(spec, required, preferred), ignore_preferred_taints=True)


def _by_weight(terms: tuple[TopologyTerm, ...], kind: str) -> list[TopologyTerm]:
    return sorted((t for t in terms if t.weight and t.kind == kind), key=lambda term: -term.weight)


def _view(spec: PodSpec, topology: tuple[TopologyTerm, ...], preferred: list[Preference]) -> View:
    alternatives = spec.alternatives
    if spec.volumes:
        alternatives = _both(alternatives, spec.volumes)
    if preferred:
        alternatives = _both(alternatives, (preferred[0].requirements,))
    return View(alternatives=alternatives, topology=topology)


def _both(alternatives: tuple[Requirements, ...], others: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    return tuple(combine(one, other) for one in alternatives for other in others if not excludes(one, other))
