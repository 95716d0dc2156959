"""Groups of interchangeable pods, as they are placed together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from provisioner.api.labels import HOSTNAME

from .model import Pod, PodSpec, Resources, TopologyTerm
from .views import PodViews, View, inside

Unit = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Work:
    """Interchangeable pods. A unit is one pod, or all pods that must share one machine.

    `requests`: of one unit. `level`: which of `views` is active. `domain`: labels that the machine must have.
    `followers`: other pods that must share the machine of each unit, with their number; `requests` contains theirs.
    `why`: what kept the pods from being placed, "" if only what machines offer does. `first`: the constraints with the
    first alternative of the pods' devices, if `spec` is another one.
    """

    spec: PodSpec
    views: PodViews
    units: list[Unit]
    requests: Resources
    level: int = 0
    domain: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    followers: tuple[tuple["Work", int], ...] = ()
    first: PodSpec | None = None
    _active: View | None = None

    @property
    def view(self) -> View:
        """The active constraints; an assigned domain is one of them."""
        if self._active is None:
            view = self.views[self.level]
            self._active = inside(view, self.domain) if self.domain else view
        return self._active

    def relaxed(self) -> "Work | None":
        """The pods with one preference less; then with the next alternative of their devices; None after the last."""
        if self.level + 1 < len(self.views):
            self.level += 1
            self.why = ""
            self._active = None
            return self
        return self.otherwise()

    def otherwise(self) -> "Work | None":
        """The pods with the next alternative of their devices; None if there is none."""
        if self.spec.otherwise is None:
            return None
        made = _made(self.spec.otherwise, self.units)
        made.first = self.first or self.spec
        return made

    def anew(self, *, relaxed: bool = False) -> "Work":
        """The pods with the first alternative of their devices, and with all preferences or none."""
        made = _made(self.first or self.spec, self.units)
        made.level, made.why = (len(made.views) - 1, self.why) if relaxed else (0, "")
        return made

    @property
    def size(self) -> int:
        """Pods in one unit."""
        return len(self.units[0]) if self.units else 1

    @property
    def pods(self) -> int:
        """Pods in one unit and beside it."""
        return self.size + sum(number for _, number in self.followers)

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
            followers=self.followers,
            first=self.first,
        )

    def with_first(self, pods: int) -> tuple["Work", list[Unit]]:
        """Units of at most so many pods each, those beside them aside; and the pods that they leave out."""
        if pods >= self.size:
            return self, []
        fewer = self.size - pods
        requests = {name: n - self.spec.requests.get(name, 0) * fewer for name, n in self.requests.items()}
        outside: list[Unit] = [(name,) for unit in self.units for name in unit[pods:]]
        return replace(self, units=[unit[:pods] for unit in self.units], requests=requests), outside

    def as_one_unit(self) -> "Work":
        """The same pods as one unit."""
        names = tuple(name for unit in self.units for name in unit)
        requests = {name: amount * len(names) for name, amount in self.requests.items()}
        return Work(
            spec=self.spec, views=self.views, units=[names], requests=requests, level=self.level, first=self.first
        )

    def again(self, units: Iterable[Unit]) -> "Work":
        """Pods that were not placed, as single units without a domain."""
        return Work(
            spec=self.spec,
            views=self.views,
            units=[(name,) for unit in units for name in unit],
            requests=self.spec.requests,
            level=self.level,
            why=self.why,
            first=self.first,
        )


def grouped(pods: Iterable[Pod]) -> list[Work]:
    """The pods, interchangeable ones together."""
    groups: dict[bytes, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: pod.name):
        groups.setdefault(pod.key, []).append(pod)
    return [_made(same[0].spec, [(pod.name,) for pod in same]) for same in groups.values()]


def _made(spec: PodSpec, units: Iterable[Unit]) -> Work:
    return Work(spec=spec, views=PodViews(spec), units=[*units], requests=spec.requests)
