"""Groups of interchangeable pods, as they are placed together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provisioner.api.labels import HOSTNAME

from .model import Pod, PodSpec, Resources, TopologyTerm
from .views import View, inside, views

Unit = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Work:
    """Interchangeable pods. A unit is one pod, or all pods that must share one machine.

    `requests`: of one unit. `level`: which of `views` is active. `domain`: labels that the machine must have.
    """

    spec: PodSpec
    views: tuple[View, ...]
    units: list[Unit]
    requests: Resources
    level: int = 0
    domain: Mapping[str, str] = field(default_factory=dict)
    _active: View | None = None

    @property
    def view(self) -> View:
        """The active constraints; an assigned domain is one of them."""
        if self._active is None:
            view = self.views[self.level]
            self._active = inside(view, self.domain) if self.domain else view
        return self._active

    def relax(self) -> None:
        """Give up one preference."""
        self.level += 1
        self._active = None

    @property
    def size(self) -> int:
        """Pods in one unit."""
        return len(self.units[0]) if self.units else 1

    @property
    def devices(self) -> int:
        """Requested devices in thousandths; extended resources have a domain in their name."""
        return sum(amount for name, amount in self.requests.items() if "/" in name)

    @property
    def colocation(self) -> list[TopologyTerm]:
        """The terms by which the pods must share a machine with other pods."""
        return [t for t in self.view.topology if t.key == HOSTNAME and t.kind == "affinity"]

    def largest_first(self) -> tuple[int, int, int, Unit]:
        """Sorts pods with many devices first, then by CPU and memory; names make the order total."""
        return -self.devices, -self.requests.get("cpu", 0), -self.requests.get("memory", 0), self.units[0]

    def inside(self, domain: Mapping[str, str], units: Iterable[Unit] = ()) -> "Work":
        """A part of these pods, in a domain."""
        return Work(
            spec=self.spec,
            views=self.views,
            units=[*units],
            requests=self.requests,
            level=self.level,
            domain=domain,
        )

    def as_one_unit(self) -> "Work":
        """The same pods as one unit."""
        names = tuple(name for unit in self.units for name in unit)
        requests = {name: amount * len(names) for name, amount in self.requests.items()}
        return Work(spec=self.spec, views=self.views, units=[names], requests=requests, level=self.level)

    def again(self, units: Iterable[Unit]) -> "Work":
        """Pods that were not placed, as single units without a domain."""
        return Work(
            spec=self.spec,
            views=self.views,
            units=[(name,) for unit in units for name in unit],
            requests=self.spec.requests,
            level=self.level,
        )


def grouped(pods: Iterable[Pod]) -> list[Work]:
    """The pods, interchangeable ones together."""
    groups: dict[bytes, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: pod.name):
        groups.setdefault(pod.key, []).append(pod)
    return [
        Work(
            spec=same[0].spec,
            views=(*views(same[0].spec),),
            units=[(pod.name,) for pod in same],
            requests=same[0].spec.requests,
        )
        for same in groups.values()
    ]
