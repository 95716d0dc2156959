"""Label values read off claims, Nodes and pools: each from a set that stays small, whatever people write.

Promise: a size that this version does not know is `other`, what has no zone is `regional`; a name of an object is never
the value of a counter's label.
Left to others: which labels a family has (`provisioner.families`).
"""

from cloudprovider.azure.skus import lookup
from provisioner.families.labels import OTHER


def size_label(size: str) -> str:
    """A VM size as AKS writes it, `other` if we have no data about it."""
    sku = lookup(size)
    return sku.name if sku is not None else OTHER
