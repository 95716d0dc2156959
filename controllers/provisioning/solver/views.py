"""The constraints of a pod from strict to relaxed.

A preference is a requirement until no node and no machine satisfies it; then the next view gives it up. The order is
Karpenter's: preferred pod affinity, preferred pod anti-affinity, preferred node affinity, spread constraints with
ScheduleAnyway, and last taints with PreferNoSchedule. Within one kind the heaviest preference is given up first.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Hashable, Iterator, Mapping

import msgspec

from provisioner.api.value_sets import one_of

from .model import PodSpec, Preference, TopologyTerm
from .requirements import Requirements, combine, excludes

_ORDER = ("affinity", "anti-affinity", "spread")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One set of constraints: any of `alternatives` suffices, all of `topology` must hold.

    `key` is equal for views that differ in `topology` only.
    """

    alternatives: tuple[Requirements, ...]
    topology: tuple[TopologyTerm, ...]
    key: Hashable
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
    last = _view(spec, required, preferred)
    yield made(last.alternatives, last.topology, ignore_preferred_taints=True)


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


def _view(spec: PodSpec, topology: tuple[TopologyTerm, ...], preferred: list[Preference]) -> View:
    alternatives = spec.alternatives
    if spec.volumes:
        alternatives = _both(alternatives, spec.volumes)
    if preferred:
        alternatives = _both(alternatives, (preferred[0].requirements,))
    return made(alternatives, topology)


def _both(alternatives: tuple[Requirements, ...], others: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    return tuple(combine(one, other) for one in alternatives for other in others if not excludes(one, other))
