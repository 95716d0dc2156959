"""Label values read off claims, Nodes and pools: each from a set that stays small, whatever people write.

Promise: a size that this version does not know is `other`, what has no zone is `regional`, a reason that we do not know
is `other`; of names that people choose (NodePools, node classes, images) the first twenty have series of their own, all
further ones share `other`.
Left to others: which labels a family has (`provisioner.families`).

Source: reliability.md §4 S9 (metric labels are bounded); aks-arm.md §4 (a regional machine's zone label is a number).
"""

from collections.abc import Mapping

from cloudprovider.azure.error_table import TABLE
from cloudprovider.azure.skus import lookup
from cloudprovider.errors import THROTTLED_IN_FRONT
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.families.labels import OTHER, REGIONAL

MOST_NAMES = 20

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


def zone_label(of: Mapping[str, str]) -> str:
    """The zone that an object's labels name; a number alone is no zone, but where a regional machine happens to be."""
    zone = of.get(labels.ZONE, "")
    return zone if "-" in zone else REGIONAL


class Few:
    """Names that people choose, the first `MOST_NAMES` of them."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._seen or not name:
            return name
        if len(self._seen) >= MOST_NAMES:
            return OTHER
        self._seen.add(name)
        return name


class Terms:
    """Label values of one process."""

    def __init__(self) -> None:
        self._nodepools, self._classes, self.image = Few(), Few(), Few()

    def nodepool(self, of: Mapping[str, str]) -> str:
        """The NodePool that an object's labels name."""
        return self._nodepools(of.get(labels.NODEPOOL, ""))

    def classes(self, claim: NodeClaim) -> tuple[str, str]:
        """NodePool and node class, as operatorpkg's families have them."""
        known = claim.metadata.labels
        return self.nodepool(known), self._classes(known.get(labels.KAITO_NODECLASS, ""))

    @staticmethod
    def machine(claim: NodeClaim) -> tuple[str, str, str]:
        """Size, zone and capacity type of a claim's machine, as its columns say."""
        known = claim.metadata.labels
        return size_label(known.get(labels.INSTANCE_TYPE, "")), zone_label(known), known.get(labels.CAPACITY_TYPE, "")
