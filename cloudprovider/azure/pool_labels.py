"""The node labels of an agent pool, from the labels of its NodeClaim.

A label that AKS refuses is an error of the claim. Labels that Azure sets itself and labels that grant a Node privileges
are left out. The ownership label overrides a label of the claim with the same key. Pools for the claims of NodePools
carry the labels of their size and of their node class besides, so that pods can select them.

Source: docs/references/agent-pools.md#labels-and-taints, docs/references/kaito.md#its-agent-pools,
docs/references/rules.md#ownership-marks, docs/references/rules.md#limits-on-cost-and-privilege.
"""

from collections.abc import Iterator

from cloudprovider.interface import Offering
from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of
from provisioner.api.restricted_labels import is_excluded, refused_key, refused_value
from provisioner.api.time import label_time

from .instance_types import is_gpu_size
from .machine_labels import PLACEMENT_SCOPE, pool_machine_labels
from .pricing import size_of


def pool_labels(claim: NodeClaim, offering: Offering) -> dict[str, str]:
    """The node labels of a pool of this offering for a valid claim."""
    wanted = {labels.NODEPOOL: labels.DEFAULT_NODEPOOL}
    if nodepool_of(claim) is not None:
        wanted |= _of_machine(offering.size)
        wanted[PLACEMENT_SCOPE] = "zonal" if offering.zone else "regional"
        reference = claim.spec.node_class_ref
        wanted[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    wanted |= {key: value for key, value in claim.metadata.labels.items() if not is_excluded(key)}
    wanted[labels.KAITO_MACHINE_TYPE] = "gpu" if is_gpu_size(offering.size) else "cpu"
    wanted[labels.CAPACITY_TYPE] = offering.capacity_type
    wanted[labels.KAITO_CREATION_TIMESTAMP] = label_time(claim.metadata.creation_timestamp)
    wanted[labels.CLAIM_UID] = claim.uid
    return wanted


def _of_machine(name: str) -> dict[str, str]:
    size = size_of(name)
    return pool_machine_labels(size) if size is not None else {}


def validate(claim: NodeClaim) -> Iterator[FieldError]:
    """An error for each label that AKS refuses."""
    for key, value in claim.metadata.labels.items():
        for why in () if is_excluded(key) else (refused_key(key), refused_value(value)):
            if why is not None:
                cause, remedy = why
                message = f"{value[:40]!r}: {cause}"
                yield FieldError(f"metadata.labels[{key}]", reasons.LABEL_REFUSED, message, value, remedy)
