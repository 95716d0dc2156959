"""Label values from NodeClaims, Nodes and agent pools, each from a bounded set.

Unknown sizes and reasons are `other`; an instance without a zone is `regional`. Of user-defined names (NodePools, node
classes, images, zones) the first ten have their own series, all others share `other`.

Source: docs/references/reliability.md#threats (metric labels are bounded),
docs/references/agent-pools.md#labels-and-taints (the zone label of a regional machine).
"""

from collections.abc import Mapping

from cloudprovider.cloud import Cloud
from cloudprovider.errors import SUBSCRIPTION_THROTTLED
from cloudprovider.interface import ON_DEMAND, SPOT
from controllers.node.health.repair_policy import BUILT_IN
from provisioner.api import labels, reasons
from provisioner.api.causes import REASONS
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import RepairPolicy
from provisioner.metrics.definitions.labels import OTHER, REGIONAL

NAMES_MAX = 10
SIGNALS = frozenset(row.signal or row.condition for row in BUILT_IN)

_OWN = {reason for name, reason in vars(reasons).items() if name.isupper() and isinstance(reason, str)}
KNOWN_REASONS = frozenset(reason.casefold() for reason in (*_OWN, *REASONS, SUBSCRIPTION_THROTTLED))


def signal_label(row: RepairPolicy) -> str:
    """The signal or the condition of a row if this version has one for it, otherwise `other`."""
    name = row.signal or row.condition
    return name if name in SIGNALS else OTHER


def capacity_label(object_labels: Mapping[str, str]) -> str:
    """The capacity type in an object's labels; empty if there is none."""
    value = object_labels.get(labels.CAPACITY_TYPE, "")
    return value if value in (ON_DEMAND, SPOT) else ""


class BoundedNames:
    """Passes the first `NAMES_MAX` names through and maps others to `other`. A name may have several parts."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def __call__(self, *name: str) -> tuple[str, ...]:
        if name not in self._seen:
            if len(self._seen) >= NAMES_MAX:
                return tuple(OTHER if part else "" for part in name)
            self._seen.add(name)
        return name


class LabelValues:
    """The label values of one process."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._reasons = KNOWN_REASONS | {reason.casefold() for reason in cloud.failure_reasons}
        self._nodepools, self._classes, self._images, self._zones = (
            BoundedNames(),
            BoundedNames(),
            BoundedNames(),
            BoundedNames(),
        )

    def reason(self, reason: str) -> str:
        """The reason if it is known, otherwise `other`."""
        return reason if reason.casefold() in self._reasons else OTHER

    def size(self, size: str) -> str:
        """The size in the spelling of the cloud if it is known, otherwise `other`."""
        return self._cloud.canonical_name(size) if self._cloud.is_known_size(size) else OTHER

    def nodepool(self, object_labels: Mapping[str, str]) -> str:
        """The NodePool in an object's labels."""
        return self._nodepools(object_labels.get(labels.NODEPOOL, ""))[0]

    def classes(self, claim: NodeClaim) -> tuple[str, ...]:
        """NodePool and node class, the labels of operatorpkg's families."""
        known = claim.metadata.labels
        return self._classes(known.get(labels.NODEPOOL, ""), known.get(labels.KAITO_NODECLASS, ""))

    def image(self, claim: NodeClaim) -> str:
        """The node image of the claim."""
        return self._images(claim.status.image_id)[0]

    def zone(self, object_labels: Mapping[str, str]) -> str:
        """The zone in an object's labels. A regional instance has a number alone."""
        zone = object_labels.get(labels.ZONE, "")
        return self._zones(zone)[0] if "-" in zone else REGIONAL

    def machine(self, claim: NodeClaim) -> tuple[str, str, str]:
        """Size, zone and capacity type of a claim's instance, from its labels."""
        known = claim.metadata.labels
        return self.size(known.get(labels.INSTANCE_TYPE, "")), self.zone(known), capacity_label(known)
