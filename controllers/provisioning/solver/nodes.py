"""Machines with room: existing nodes, NodeClaims on their way, and machines planned by the current decision."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from provisioner.api.requirements import Requirements, conflict
from provisioner.api.taints import untolerated

from .candidates import Candidate
from .host_room import host_room
from .labelled import Labelled
from .model import BoundPod, ExistingNode, PodSpec, Resources
from .overhead import expected, largest_together
from .places import Place
from .resources import UNLIMITED, total, without
from .selection import Selection, has_apart
from .views import View


@dataclass(slots=True, kw_only=True)
class Host:
    """One machine and the pods on it. `candidate` is set for machines planned by this decision only.

    `present`: each kind of pod on it, with the number of pods. `running_apart`, `placed_apart`: those of them with
    required anti-affinity by hostname that ran before the decision, and that it placed. `tightness` sorts machines with
    the least room first.
    """

    name: str
    labelled: Labelled
    free: dict[str, int]
    candidate: Candidate | None = None
    present: list[tuple[PodSpec, int]] = field(default_factory=list)
    running_apart: Sequence[PodSpec] = ()
    placed_apart: list[PodSpec] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    requested: dict[str, int] = field(default_factory=dict)
    tightness: tuple[int, int, str] = (0, 0, "")

    def __post_init__(self) -> None:
        self.tightness = self._tightness()

    @property
    def requirements(self) -> Requirements:
        """Those of its labels."""
        return self.labelled.requirements

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels whose value is known."""
        return self.labelled.known

    @property
    def place(self) -> Place:
        """What the node inclusion policies of spread constraints compare."""
        return self.labelled.place

    def copied(self) -> "Host":
        """A machine that pods can be placed on without a change of this one."""
        return replace(
            self,
            # What pods make of the labels is kept for one decision only.
            labelled=self.labelled.copied(),
            free=dict(self.free),
            present=[*self.present],
            placed_apart=[*self.placed_apart],
            pods=[*self.pods],
            requested=dict(self.requested),
        )

    def takes(self, spec: PodSpec) -> bool:
        """Whether nothing is known that keeps a pod off, whatever its requests and labels promise."""
        if self.candidate is None:
            return self.name not in spec.misfits.nodes
        pool, misfits = self.candidate.pool.name, spec.misfits
        refused = (pool, self.candidate.type_name) in misfits.types or any(pool == of for of, _ in misfits.node_pools)
        return not refused and not misfits.waits

    def _tightness(self) -> tuple[int, int, str]:
        """Unused devices and CPU in thousandths, and the name; extended resources have a domain in their name."""
        devices = sum(amount for name, amount in self.free.items() if "/" in name)
        return devices, self.free.get("cpu", 0), self.name

    def alternative(self, spec: PodSpec, view: View) -> Requirements | None:
        """The first alternative of a pod that this machine satisfies, resources aside; None if there is none."""
        if untolerated(self.labelled.taints, spec.tolerations, ignore_preferred=view.ignore_preferred_taints):
            return None
        return self.alternative_of(view.alternatives)

    def alternative_of(self, alternatives: Iterable[Requirements]) -> Requirements | None:
        """The first of several alternatives that its labels satisfy; None if there is none."""
        known, open_keys = self.labelled.requirements, self.labelled.open_keys
        return next((one for one in alternatives if not conflict(known, one, open_keys)), None)

    def room(self, spec: PodSpec, view: View, requests: Resources, wanted: int, selection: Selection) -> int:
        """How many pods of a spec, up to `wanted`, this machine can take, as far as its pods do not keep them out."""
        count = min(wanted, UNLIMITED)
        for name, amount in requests.items():
            if amount > 0:
                count = min(count, self.free.get(name, 0) // amount)
                if count <= 0:
                    return 0
        if self.alternative(spec, view) is None:
            return 0
        return min(count, host_room(self.present, spec, view.topology, selection))

    def put(self, spec: PodSpec, view: View, requests: Resources, names: Collection[str]) -> None:
        """Put pods with these requests in all on this machine; its open labels are narrowed to what they require."""
        wanted = self.alternative(spec, view)
        if wanted is not None:
            self.labelled = self.labelled.narrowed(wanted)
        self.present.append((spec, len(names)))
        if has_apart(spec):
            self.placed_apart.append(spec)
        self.pods.extend(names)
        for name, amount in requests.items():
            self.free[name] = self.free.get(name, 0) - amount
            self.requested[name] = self.requested.get(name, 0) + amount
        self.tightness = self._tightness()

    def take_back(self, spec: PodSpec, names: Collection[str]) -> None:
        """Remove pods of a spec that were put on this machine."""
        self.pods = [name for name in self.pods if name not in names]
        for name, amount in spec.requests.items():
            self.free[name] = self.free.get(name, 0) + amount * len(names)
            self.requested[name] -= amount * len(names)


def existing_host(node: ExistingNode, daemons: Iterable[PodSpec], well_known: frozenset[str]) -> Host:
    """The room of an existing node: less its pods, and less the daemon pods that are still expected on it."""
    open_keys = well_known if node.planned else frozenset[str]()
    promised = node.daemon_requests
    if promised is None:
        room = node.allocatable
        every = expected(daemons, node.taints, node.requirements, open_keys, room)
        promised = total(one.requests for one in largest_together(every, room))
    running = total(pod.spec.requests for pod in node.pods if pod.daemon)
    missing = {name: max(0, amount - running.get(name, 0)) for name, amount in promised.items()}
    used = total([missing, *(pod.spec.requests for pod in node.pods)])
    free = without(node.allocatable, used)
    present = _alike(node.pods)
    return Host(
        name=node.name,
        labelled=Labelled(node.requirements, tuple(node.taints), open_keys),
        free={name: max(0, amount) for name, amount in free.items()},
        present=present,
        running_apart=[spec for spec, _ in present if has_apart(spec)],
    )


def _alike(pods: Iterable[BoundPod]) -> list[tuple[PodSpec, int]]:
    """Each spec with the number of pods that share it."""
    counted: dict[int, tuple[PodSpec, int]] = {}
    for pod in pods:
        counted[id(pod.spec)] = pod.spec, counted.get(id(pod.spec), (pod.spec, 0))[1] + 1
    return [*counted.values()]


def planned_host(name: str, candidate: Candidate, labelled: Labelled) -> Host:
    """An empty machine of a candidate. `labelled`: its labels and taints."""
    return Host(name=name, labelled=labelled, free=dict(candidate.allocatable), candidate=candidate)
