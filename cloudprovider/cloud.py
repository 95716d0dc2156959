"""What is known of a cloud without a request to it: its instance types, and how it names and shapes machines.

The rules get an implementation as a parameter and do no more than pass it on, so that they are the same for each cloud.
All methods are pure. `CloudProvider` has the requests.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from provisioner.api.meta import EMPTY, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import NodeClassSpec
from provisioner.api.requirements import Requirements
from provisioner.api.zones import REGIONAL

from .interface import ON_DEMAND, Gpus, Offering, OfferingQuota, QuotaLeft, ResourceSku, Usage

# The sizes that the subscription can use, by name in lower case; None if they are not known.
Skus = Mapping[str, ResourceSku] | None
# Why an offering cannot be requested now; "" if it can.
Obstacle = Callable[[Offering], str]


class InstanceOffering(msgspec.Struct, frozen=True, kw_only=True):
    """One way to buy an instance type. `zone`: the label of its Nodes, "" for Nodes without one.

    `price`: in USD an hour, None if it is not known: such an offering is compared by `order_price`, or chosen last.
    `cause`: why it is not available, "" if that is not known. `requirements` and `taints`: of its Nodes, besides those
    of the instance type. `quotas`: what a machine uses of each quota, by its name.
    """

    zone: str
    capacity_type: str = ON_DEMAND
    price: float | None = None
    order_price: float | None = None
    available: bool = True
    requirements: Requirements = {}
    taints: tuple[Taint, ...] = ()
    cause: str = ""
    quotas: Mapping[str, int] = {}


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """A machine size. `requirements`: the labels of its Nodes.

    `allocatable` is its capacity without what system and kubelet reserve, both in thousandths of the unit of
    Kubernetes.
    """

    name: str
    requirements: Requirements
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    offerings: tuple[InstanceOffering, ...]


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What all machines of a cluster have in common. `max_pods`: of a machine whose node class does not state it.

    `regional_zone`: the zone label of a Node outside all zones, "" if it bears none. `labels`: those that the cloud
    gives every Node; None for one whose values differ.
    """

    max_pods: int = 110
    regional_zone: str = REGIONAL
    labels: Mapping[str, str | None] = EMPTY


UNKNOWN_CLUSTER = ClusterFacts()


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """The list prices of a region.

    `on_demand`, `spot`: USD an hour, by the name of the size in lower case; empty where none are known. `date`: of the
    prices, in ISO form. `read_at`: when retail prices replaced some of them, None if none did.
    """

    on_demand: Mapping[str, float] = {}
    spot: Mapping[str, float] = {}
    date: str = ""
    read_at: datetime | None = None


class DeviceTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a VM size as its driver will publish it. `product` and `memory` (bytes) are None if not known."""

    driver: str
    type: str
    product: str | None = None
    memory: int | None = None


class OfNodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """What a node class changes of an instance type, as there."""

    capacity: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    requirements: Requirements = {}


class Cloud(Protocol):
    """One cloud. Names of sizes are compared as the cloud compares them."""

    @property
    def instance_label(self) -> str:
        """The label of Nodes whose value is the name of their instance: Nodes are listed by it."""

    @property
    def size_labels(self) -> frozenset[str]:
        """The labels of Nodes whose value is the name of a size."""

    @property
    def gpu_model_label(self) -> str:
        """The label of Nodes whose value is a GPU model."""

    @property
    def failure_reasons(self) -> frozenset[str]:
        """The reasons and codes of its failures, of which metrics have labels."""

    @property
    def default_region(self) -> str:
        """The region whose prices are used where none is known."""

    def known_regions(self) -> tuple[str, ...]:
        """The regions with list prices."""

    def known_sizes(self) -> tuple[str, ...]:
        """The names of all sizes that are known without a request."""

    def region_of(self, zone: str) -> str:
        """The region of the value of a zone label, "" if it is not one of this cloud."""

    def pool_name(self, claim: NodeClaim) -> str:
        """The name of the instance of this claim, a function of the claim alone."""

    def pool_of(self, node: Node) -> str:
        """The name of the instance whose machine this Node is, "" if it is none of this cloud.

        It must not depend on what the holder of a kubelet's credential can change, such as most labels.
        """

    def resource_group_of(self, node: Node) -> str:
        """Where this Node's machine is, as `Cluster.node_resource_group` states it; "" if that is not known."""

    def is_known_size(self, name: str) -> bool:
        """Whether the cloud has a size of this name."""

    def nearest_size(self, name: str) -> str:
        """The known size of this name, or the one that it resembles most; "" if it resembles none."""

    def canonical_name(self, name: str) -> str:
        """The name of a size as the cloud documents it; an unknown name unchanged."""

    def gpus_of(self, size: str) -> Gpus:
        """The GPUs of a size; count 0 for a size without GPUs, `known` False for a GPU size without data."""

    def device_templates(self) -> Mapping[str, DeviceTemplate]:
        """A GPU of each size that has some, by the canonical name of the size."""

    def instance_types(
        self,
        region: str,
        obstacle: Obstacle,
        skus: Skus = None,
        facts: ClusterFacts = UNKNOWN_CLUSTER,
        prices: PriceList | None = None,
        *,
        every_size: bool = False,
    ) -> tuple[InstanceType, ...]:
        """The instance types of a region, as machines with the default node class have them.

        `prices`: of the region; None: the list prices. `every_size`: also those that nobody is known to offer there.
        """

    def cluster_facts(self, nodes: Iterable[Node], max_pods: int) -> ClusterFacts:
        """What machines have in common in a cluster with these Nodes. `max_pods`: as in `ClusterFacts`."""

    def of_node_class(
        self,
        capacity: Mapping[str, int],
        allocatable: Mapping[str, int],
        known: Collection[str],
        settings: NodeClassSpec,
    ) -> OfNodeClass:
        """What a node class with these settings changes of a machine with these amounts; `known`: its labels."""

    def contradicts(self, offering: Offering, settings: NodeClassSpec) -> str:
        """Why the node class has no machine of this offering; "" if it can have one."""

    def allowed_offerings(self, claim: NodeClaim, location: str) -> tuple[Offering, ...]:
        """The offerings that a claim allows, in its order; () for invalid requirements. `location`: "" if not known."""

    def by_price(
        self, offerings: Iterable[Offering], location: str, types: Sequence[InstanceType] = ()
    ) -> tuple[Offering, ...]:
        """Offerings, cheapest first; those without a price come last. `types`: with other prices than the list's."""

    def list_prices(self, location: str) -> PriceList:
        """The list prices of a region."""

    def excluded(self, skus: Mapping[str, ResourceSku], offering: Offering, location: str) -> str:
        """Why the subscription cannot use an offering; "" if it can."""

    def quota_of(
        self,
        usages: Mapping[str, Usage],
        offering: Offering,
        location: str,
        *,
        requested: Sequence[Offering],
        returned: Sequence[Offering],
        skus: Skus,
    ) -> OfferingQuota | None:
        """The quota of which least is left for this offering; None if none that it needs is listed.

        `requested`: machines that the usages do not contain yet. `returned`: those of them that are deleted first.
        """

    def quotas_left(
        self,
        usages: Mapping[str, Usage],
        names: Iterable[str],
        location: str,
        *,
        requested: Iterable[Offering],
        skus: Skus,
    ) -> Mapping[str, QuotaLeft]:
        """What is left of these quotas, without those that are not listed. `requested`: as in `quota_of`."""
