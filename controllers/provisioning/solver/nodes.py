"""Machines with room: existing nodes, NodeClaims on their way, and machines planned by the current decision."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from provisioner.api.meta import Taint
from provisioner.api.taints import untolerated

from .candidates import Candidate
from .model import BoundPod, ExistingNode, PodSpec, Resources, TopologyTerm
from .requirements import Requirements, combine, conflict
from .resources import total, without
from .topology import UNLIMITED, Selection, host_room
from .views import View


@dataclass(slots=True, kw_only=True)
class Host:
    """One machine and the pods on it. `candidate` is set for machines planned by this decision only.

    `open_keys`: labels that the machine need not define yet. `tightness` sorts machines with the least room first.
    """

    name: str
    requirements: Requirements
    taints: Sequence[Taint]
    free: dict[str, int]
    open_keys: frozenset[str] = frozenset()
    candidate: Candidate | None = None
    present: list[tuple[PodSpec, Sequence[TopologyTerm], int]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    requested: dict[str, int] = field(default_factory=dict)
    required: Requirements = field(default_factory=dict)
    tightness: tuple[int, int, str] = (0, 0, "")

    def __post_init__(self) -> None:
        self.tightness = self._tightness()

    @property
    def labels(self) -> dict[str, str]:
        """The labels whose value is known."""
        return {key: one for key, allowed in self.requirements.items() if (one := allowed.single) is not None}

    def copied(self) -> "Host":
        """A machine that pods can be placed on without a change of this one."""
        return replace(
            self,
            free=dict(self.free),
            present=[*self.present],
            pods=[*self.pods],
            requested=dict(self.requested),
        )

    def _tightness(self) -> tuple[int, int, str]:
        """Unused devices and CPU in thousandths, and the name; extended resources have a domain in their name."""
        devices = sum(amount for name, amount in self.free.items() if "/" in name)
        return devices, self.free.get("cpu", 0), self.name

    def alternative(self, spec: PodSpec, view: View) -> Requirements | None:
        """The first alternative of a pod that this machine satisfies, resources aside; None if there is none."""
        if untolerated(self.taints, spec.tolerations, ignore_preferred=view.ignore_preferred_taints):
            return None
        return next((one for one in view.alternatives if not conflict(self.requirements, one, self.open_keys)), None)

    def room(self, spec: PodSpec, view: View, requests: Resources, wanted: int, selection: Selection) -> int:
        """How many pods of a spec, up to `wanted`, this machine can take."""
        count = min(wanted, UNLIMITED)
        for name, amount in requests.items():
            if amount > 0:
                count = min(count, self.free.get(name, 0) // amount)
                if count <= 0:
                    return 0
        if self.alternative(spec, view) is None:
            return 0
        return min(count, host_room(self.present, spec, view.topology, selection))

    def place(self, spec: PodSpec, view: View, requests: Resources, names: Collection[str]) -> None:
        """Put pods with these requests in all on this machine; its open labels are narrowed to what they require."""
        chosen = self.alternative(spec, view) or {}
        self.requirements = combine(self.requirements, chosen)
        self.required = combine(self.required, chosen)
        self.present.append((spec, view.topology, len(names)))
        self.pods.extend(names)
        for name, amount in requests.items():
            self.free[name] = self.free.get(name, 0) - amount
            self.requested[name] = self.requested.get(name, 0) + amount
        self.tightness = self._tightness()


def existing_host(node: ExistingNode, daemons: Iterable[PodSpec], well_known: frozenset[str]) -> Host:
    """The room of an existing node: less its pods, and less the daemon pods that are still expected on it."""
    open_keys = well_known if node.planned else frozenset[str]()
    expected = total(
        daemon.requests
        for daemon in daemons
        if not untolerated(node.taints, daemon.tolerations, ignore_preferred=True)
        and any(not conflict(node.requirements, one, open_keys) for one in daemon.alternatives)
    )
    running = total(pod.spec.requests for pod in node.pods if pod.daemon)
    missing = {name: max(0, amount - running.get(name, 0)) for name, amount in expected.items()}
    used = total([missing, *(pod.spec.requests for pod in node.pods)])
    free = without(node.allocatable, used)
    return Host(
        name=node.name,
        requirements=node.requirements,
        taints=node.taints,
        free={name: max(0, amount) for name, amount in free.items()},
        open_keys=open_keys,
        present=[(spec, tuple(t for t in spec.topology if not t.weight), n) for spec, n in _alike(node.pods)],
    )


def _alike(pods: Iterable[BoundPod]) -> list[tuple[PodSpec, int]]:
    """Each spec with the number of pods that share it."""
    counted: dict[int, tuple[PodSpec, int]] = {}
    for pod in pods:
        counted[id(pod.spec)] = pod.spec, counted.get(id(pod.spec), (pod.spec, 0))[1] + 1
    return [*counted.values()]


def planned_host(name: str, candidate: Candidate, well_known: frozenset[str]) -> Host:
    """An empty machine of a candidate."""
    return Host(
        name=name,
        requirements=candidate.requirements,
        taints=candidate.pool.taints,
        free=dict(candidate.allocatable),
        open_keys=well_known,
        candidate=candidate,
    )
