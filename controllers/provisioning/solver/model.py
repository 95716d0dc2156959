"""What the scheduling simulation reads and returns: plain values without a cluster, a clock or a cloud.

Quantities are integers in thousandths of the unit of Kubernetes (millicores, milli-bytes, milli-devices), so that sums
are exact. Prices are in USD an hour.
"""

from collections.abc import Mapping

import msgspec

from provisioner.api.meta import EMPTY, Taint
from provisioner.api.pod import Toleration

from .requirements import Requirements

Resources = Mapping[str, int]
NO_RESOURCES: Resources = {}


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all values of a snapshot."""


class LabelSelector(Frozen, frozen=True):
    """A label selector as requirements on labels; `everything` distinguishes the empty selector from none at all."""

    requirements: Requirements = {}
    everything: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if not self.requirements:
            return self.everything
        for key, wanted in self.requirements.items():
            value = labels.get(key)
            if value is None:
                if wanted.operator not in ("NotIn", "DoesNotExist"):
                    return False
            elif not wanted.allows(value):
                return False
        return True


class TopologyTerm(Frozen, frozen=True):
    """One constraint that relates a pod to other pods over the domains of a label.

    `kind`: spread, affinity or anti-affinity. `max_skew`, `min_domains`, `honor_affinity` and `honor_taints` concern
    spread only. `weight` is 0 for a required term, and the preference otherwise (ScheduleAnyway counts as 1).
    """

    kind: str
    key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    max_skew: int = 1
    min_domains: int = 0
    honor_affinity: bool = True
    honor_taints: bool = False
    weight: int = 0


class Preference(Frozen, frozen=True):
    """A preferred node affinity term; `weight` is 1 to 100."""

    weight: int
    requirements: Requirements


class PodSpec(Frozen, frozen=True):
    """What scheduling compares of a pod; pods with equal specs are interchangeable.

    `alternatives`: the required node affinity terms, each combined with the node selector; any one suffices, earlier
    ones first. `volumes`: requirements of the pod's volumes, any one suffices. `host_ports`: (address, port, protocol).
    """

    namespace: str = ""
    labels: Mapping[str, str] = EMPTY
    requests: Resources = NO_RESOURCES
    alternatives: tuple[Requirements, ...] = ({},)
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: tuple[TopologyTerm, ...] = ()
    volumes: tuple[Requirements, ...] = ()
    host_ports: frozenset[tuple[str, int, str]] = frozenset()


class Pod(Frozen, frozen=True):
    """A pod: its `namespace/name` and what scheduling compares. `key` is equal exactly for interchangeable pods."""

    name: str
    spec: PodSpec
    key: bytes


class Offering(Frozen, frozen=True):
    """One way to buy an instance type. `zone` is "" for a machine without a zone.

    `price` is None if it is not known: such an offering is chosen last. `cause`: why it is not available, "" if that is
    not known.
    """

    zone: str
    capacity_type: str
    price: float | None
    available: bool = True
    requirements: Requirements = {}
    cause: str = ""


class InstanceType(Frozen, frozen=True):
    """A machine size; `allocatable` is its capacity without what system and kubelet reserve."""

    name: str
    requirements: Requirements
    capacity: Resources
    allocatable: Resources
    offerings: tuple[Offering, ...]


class NodePool(Frozen, frozen=True):
    """What a NodePool allows. `limits` and `used` are over all machines of the pool; `nodes` counts machines.

    `types`: the instance types as machines of this pool offer them; None: as in the snapshot.
    """

    name: str
    requirements: Requirements
    taints: tuple[Taint, ...] = ()
    weight: int = 0
    limits: Resources = NO_RESOURCES
    used: Resources = NO_RESOURCES
    types: tuple[InstanceType, ...] | None = None


class BoundPod(Frozen, frozen=True):
    """A pod that runs on an existing node."""

    spec: PodSpec
    daemon: bool = False


class ExistingNode(Frozen, frozen=True):
    """A Node, or a NodeClaim whose Node has not registered, with the pods on it.

    `planned`: no Node has registered, so that the requirements may still be open.
    """

    name: str
    requirements: Requirements
    taints: tuple[Taint, ...]
    allocatable: Resources
    pods: tuple[BoundPod, ...] = ()
    node_pool: str = ""
    capacity: Resources = NO_RESOURCES
    planned: bool = False


class Snapshot(Frozen, frozen=True):
    """All that one scheduling decision depends on.

    `max_new`: how many machines may still be made, None for no limit.
    `well_known`: labels that every instance type defines, so that a NodePool need not.
    """

    pods: tuple[Pod, ...]
    node_pools: tuple[NodePool, ...] = ()
    instance_types: tuple[InstanceType, ...] = ()
    daemons: tuple[PodSpec, ...] = ()
    nodes: tuple[ExistingNode, ...] = ()
    well_known: frozenset[str] = frozenset()
    max_new: int | None = None


class NewMachine(Frozen, frozen=True):
    """A NodeClaim to create. `instance_types`: cheapest first; the first one is what the decision counts on."""

    node_pool: str
    pods: tuple[str, ...]
    instance_types: tuple[str, ...]
    requirements: Requirements
    requests: Resources
    price: float | None


class Decision(Frozen, frozen=True):
    """`existing`: pods by the node that has room for them. `errors`: why each other pod stays pending."""

    machines: tuple[NewMachine, ...] = ()
    existing: Mapping[str, tuple[str, ...]] = {}
    errors: Mapping[str, str] = {}

    @property
    def price(self) -> float:
        """The known price of all new machines, USD an hour."""
        return sum(machine.price or 0.0 for machine in self.machines)
