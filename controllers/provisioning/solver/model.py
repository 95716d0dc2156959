"""What the scheduling simulation reads and returns: plain values without a cluster, a clock or a cloud.

Quantities are integers in thousandths of the unit of Kubernetes (millicores, milli-bytes, milli-devices), so that sums
are exact. Prices are in USD an hour.
"""

from collections.abc import Iterable, Mapping

import msgspec

from cloudprovider.cloud import InstanceType
from cloudprovider.interface import QuotaLeft
from provisioner.api.meta import EMPTY, Taint
from provisioner.api.pod import Toleration
from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import NEGATIVE, ValueSet

Resources = Mapping[str, int]
NO_RESOURCES: Resources = {}


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all values of a snapshot."""


class LabelSelector(Frozen, frozen=True, cache_hash=True):
    """A label selector: an object must satisfy every expression. None selects nothing, the empty set everything.

    `single`: a label and the only value that it selects, as the expressions state it; None if there is no such label.
    """

    expressions: frozenset[tuple[str, ValueSet]] | None = None
    single: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Find the label once: a decision looks it up for each pod that it places."""
        found = ((key, one.single) for key, one in self.expressions or ())
        single = min(((key, value) for key, value in found if value is not None), default=None)
        msgspec.structs.force_setattr(self, "single", single)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.expressions is None:
            return False
        for key, wanted in self.expressions:
            value = labels.get(key)
            if value is None:
                if wanted.operator not in NEGATIVE:
                    return False
            elif not wanted.allows(value):
                return False
        return True


def selecting_all(selectors: Iterable[LabelSelector]) -> LabelSelector:
    """Selects what all of them select."""
    found = [one.expressions for one in selectors]
    if None in found:
        return LabelSelector()
    return LabelSelector(
        expressions=frozenset[tuple[str, ValueSet]]().union(*(one for one in found if one is not None))
    )


EVERYTHING = LabelSelector(expressions=frozenset())


class Namespaces(Frozen, frozen=True, cache_hash=True):
    """The namespaces with these names, and those that `selector` selects by their labels."""

    names: frozenset[str] = frozenset()
    selector: LabelSelector = LabelSelector()


class TopologyTerm(Frozen, frozen=True, cache_hash=True):
    """One constraint that relates a pod to other pods over the domains of a label.

    `kind`: spread, affinity or anti-affinity. `namespaces`: each of them must contain the namespace of a selected pod.
    `max_skew`, `min_domains`, `honor_affinity` and `honor_taints` concern spread only: the last two exclude Nodes that
    the pod's node affinity, or its tolerations, exclude. `weight` is 0 for a required term, and the preference
    otherwise (ScheduleAnyway counts as 1).
    """

    kind: str
    key: str
    selector: LabelSelector
    namespaces: tuple[Namespaces, ...]
    max_skew: int = 1
    min_domains: int = 0
    honor_affinity: bool = True
    honor_taints: bool = False
    weight: int = 0


class Preference(Frozen, frozen=True):
    """A preferred node affinity term; `weight` is 1 to 100."""

    weight: int
    requirements: Requirements


class Misfits(Frozen, frozen=True):
    """What did not take the pod before, whatever its requests and labels promise.

    `types`: the instance types of NodePools (name, type) that are not bought for it again. `nodes`: machines that do
    not count as room for it. `waits`: why no machine is bought for it now, "" if one may be. `node_pools`: those from
    which none is bought for it now, each with the cause.
    """

    types: frozenset[tuple[str, str]] = frozenset()
    nodes: frozenset[str] = frozenset()
    waits: str = ""
    node_pools: tuple[tuple[str, str], ...] = ()


NO_MISFITS = Misfits()


class PodSpec(Frozen, frozen=True):
    """What scheduling compares of a pod; pods with equal specs are interchangeable.

    `alternatives`: the required node affinity terms, each combined with the node selector; any one suffices, earlier
    ones first. `volumes`: requirements of the pod's volumes, any one suffices. `host_ports`: (address, port, protocol).
    `terminating`: the pod is bound and being deleted, so that spread constraints do not count it. `otherwise`: the same
    with the next alternative of its devices, which counts where no machine takes the pod with this one.
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
    terminating: bool = False
    misfits: Misfits = NO_MISFITS
    otherwise: "PodSpec | None" = None

    @property
    def choices(self) -> "tuple[PodSpec, ...]":
        """The constraints with each alternative of its devices, the first one first."""
        return (self, *self.otherwise.choices) if self.otherwise is not None else (self,)

    def with_changes(self, **changes: object) -> "PodSpec":
        """The constraints with other values of these members, for each alternative of its devices."""
        otherwise = self.otherwise.with_changes(**changes) if self.otherwise is not None else None
        return msgspec.structs.replace(self, otherwise=otherwise, **changes)


class Pod(Frozen, frozen=True):
    """A pod: its `namespace/name` and what scheduling compares. `key` is equal exactly for interchangeable pods."""

    name: str
    spec: PodSpec
    key: bytes


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

    `planned`: no Node has registered, so that the requirements may still be open. `daemon_requests`: what daemon pods
    are expected to request of it; None: what those of the snapshot request.
    """

    name: str
    requirements: Requirements
    taints: tuple[Taint, ...]
    allocatable: Resources
    pods: tuple[BoundPod, ...] = ()
    node_pool: str = ""
    capacity: Resources = NO_RESOURCES
    planned: bool = False
    daemon_requests: Resources | None = None


class Snapshot(Frozen, frozen=True):
    """All that one scheduling decision depends on.

    `max_new`: how many machines may still be made, None for no limit.
    `well_known`: labels that every instance type defines, so that a NodePool need not. `namespaces`: the labels of
    Namespaces by name; None if they, or those of one, are not known. `quotas`: what all new machines together may use
    of each quota, by its name; one that is not known has no limit.
    """

    pods: tuple[Pod, ...]
    node_pools: tuple[NodePool, ...] = ()
    instance_types: tuple[InstanceType, ...] = ()
    daemons: tuple[PodSpec, ...] = ()
    nodes: tuple[ExistingNode, ...] = ()
    well_known: frozenset[str] = frozenset()
    max_new: int | None = None
    namespaces: Mapping[str, Mapping[str, str] | None] | None = {}
    quotas: Mapping[str, QuotaLeft] = {}


class NewMachine(Frozen, frozen=True):
    """A NodeClaim to create. `instance_types`: cheapest first; the first one is what the decision counts on.

    `allocatable` and `daemon_requests`: what its machine is to offer to all pods, and what daemon pods request of it.
    `price`: None if it is not known. `order_price`: the one by which decisions are compared.
    """

    node_pool: str
    pods: tuple[str, ...]
    instance_types: tuple[str, ...]
    requirements: Requirements
    requests: Resources
    price: float | None
    order_price: float = 0.0
    allocatable: Resources = NO_RESOURCES
    daemon_requests: Resources = NO_RESOURCES


class Decision(Frozen, frozen=True):
    """`existing`: pods by the node that has room for them. `errors`: why each other pod stays pending.

    `set_aside`: those of the latter that this decision left out, because they need more work than it may cost. `steps`:
    the work that it did cost.
    """

    machines: tuple[NewMachine, ...] = ()
    existing: Mapping[str, tuple[str, ...]] = {}
    errors: Mapping[str, str] = {}
    set_aside: frozenset[str] = frozenset()
    steps: int = 0

    @property
    def price(self) -> float:
        """The known price of all new machines, USD an hour."""
        return sum(machine.price or 0.0 for machine in self.machines)

    @property
    def order_price(self) -> float:
        """The price by which decisions are compared, USD an hour."""
        return sum(machine.order_price for machine in self.machines)
