"""Label values read off claims, Nodes and pools: each from a set that stays small, whatever people write.

A size that this version does not know is `other`, what has no zone is `regional`, a reason that we do not know
is `other`; of names that people choose (NodePools, node classes, images, zones) the first ten have series of their
own, all further ones share `other`.

Source: docs/references/reliability.md#threats (metric labels are bounded),
docs/references/agent-pools.md#labels-and-taints (the zone label of a regional machine).
"""

from collections.abc import Mapping

from cloudprovider.azure.error_table import TABLE
from cloudprovider.azure.instance_types import lookup
from cloudprovider.errors import THROTTLED_IN_FRONT
from cloudprovider.interface import ON_DEMAND, SPOT
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions.labels import OTHER, REGIONAL

MOST_NAMES = 10

_OWN = {said for name, said in vars(reasons).items() if name.isupper() and isinstance(said, str)}
_CODES = {code for row in TABLE for code in row.codes if "*" not in code}
KNOWN_REASONS = frozenset(
    said.casefold() for said in (*_OWN, *_CODES, *(row.reason for row in TABLE if row.reason), THROTTLED_IN_FRONT)
)


def reason_label(reason: str) -> str:
    """A condition's reason if we know it, `other` if not."""
    return reason if reason.casefold() in KNOWN_REASONS else OTHER


def size_label(size: str) -> str:
    """A VM size as AKS writes it, `other` if we have no data about it."""
    sku = lookup(size)
    return sku.name if sku is not None else OTHER


def capacity_label(of: Mapping[str, str]) -> str:
    """How the machine is paid, as an object's labels say it; empty if they do not."""
    said = of.get(labels.CAPACITY_TYPE, "")
    return said if said in (ON_DEMAND, SPOT) else ""


class BoundedNames:
    """Names that people choose, the first `MOST_NAMES` of them; what belongs together is one name of several parts."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def __call__(self, *name: str) -> tuple[str, ...]:
        if name not in self._seen:
            if len(self._seen) >= MOST_NAMES:
                return tuple(OTHER if part else "" for part in name)
            self._seen.add(name)
        return name


class LabelValues:
    """Label values of one process."""

    def __init__(self) -> None:
        self._nodepools, self._classes, self._images, self._zones = (
            BoundedNames(),
            BoundedNames(),
            BoundedNames(),
            BoundedNames(),
        )

    def nodepool(self, of: Mapping[str, str]) -> str:
        """The NodePool that an object's labels name."""
        return self._nodepools(of.get(labels.NODEPOOL, ""))[0]

    def classes(self, claim: NodeClaim) -> tuple[str, ...]:
        """NodePool and node class, as operatorpkg's families have them."""
        known = claim.metadata.labels
        return self._classes(known.get(labels.NODEPOOL, ""), known.get(labels.KAITO_NODECLASS, ""))

    def image(self, claim: NodeClaim) -> str:
        """The image of the claim's Node."""
        return self._images(claim.status.image_id)[0]

    def zone(self, of: Mapping[str, str]) -> str:
        """The zone that an object's labels name; a number alone tells where a regional machine happens to be."""
        zone = of.get(labels.ZONE, "")
        return self._zones(zone)[0] if "-" in zone else REGIONAL

    def machine(self, claim: NodeClaim) -> tuple[str, str, str]:
        """Size, zone and capacity type of a claim's machine, as its columns say."""
        known = claim.metadata.labels
        return size_label(known.get(labels.INSTANCE_TYPE, "")), self.zone(known), capacity_label(known)
