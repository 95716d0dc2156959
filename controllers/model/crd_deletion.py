"""Whether a NodeClaim is deleted only because a CRD was: its own, or that of the NodePool that owns it.

The API server deletes all objects of a CRD with it, and the garbage collector deletes what these own. No user requested
the deletion of such a NodeClaim.

A kind that is no longer served is not an empty list: its cache keeps the objects (`provisioner/runtime/reflector.py`)
and `Indexes.current` is False, so that `controllers/garbagecollection/garbage.py` infers no removal.

Source: docs/references/rules.md#every-removal-has-a-cause,
https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents.
"""

from collections.abc import Mapping

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of
from provisioner.runtime.objects import CustomResourceDefinition

NODECLAIM_CRD = "nodeclaims.karpenter.sh"
NODEPOOL_CRD = "nodepools.karpenter.sh"
# The names of the CRDs with which a machine can be deleted.
CRD_NAMES = (NODECLAIM_CRD, NODEPOOL_CRD)

# By name; None: it does not exist. One that is missing is not known.
Crds = Mapping[str, CustomResourceDefinition | None]


def crds_of(claim: NodeClaim) -> tuple[str, ...]:
    """The names of the CRDs whose deletion deletes this NodeClaim."""
    return CRD_NAMES if nodepool_of(claim) is not None else (NODECLAIM_CRD,)


def deleted_with(claim: NodeClaim, crds: Crds) -> str:
    """The name of the CRD with which this NodeClaim was deleted; "" if it was deleted by itself, or is not deleted."""
    return next((name for name in crds_of(claim) if name in crds and _went_before(claim, name, crds[name])), "")


def _went_before(claim: NodeClaim, name: str, crd: CustomResourceDefinition | None) -> bool:
    """Whether the CRD was deleted before the NodeClaim was, so that the one deletion caused the other."""
    deleted_at = claim.metadata.deletion_timestamp
    if deleted_at is None:
        return False
    if crd is None:
        return True
    # The CRD of NodeClaims stays while one of them does. A NodePool has no finalizer: its CRD can have been installed
    # again before this is seen, and is then younger than what NodePools of the former one own.
    if name == NODEPOOL_CRD and claim.metadata.creation_timestamp < crd.metadata.creation_timestamp:
        return True
    going = crd.metadata.deletion_timestamp
    return going is not None and deleted_at >= going
