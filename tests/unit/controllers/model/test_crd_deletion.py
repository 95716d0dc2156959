"""With which CRD a NodeClaim was deleted, as a table."""

from datetime import datetime, timedelta

import msgspec
import pytest

from controllers.model.crd_deletion import NODECLAIM_CRD, NODEPOOL_CRD, Crds, deleted_with
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.objects import CustomResourceDefinition
from tests.unit.builders import BORN, claim

HOUR = timedelta(hours=1)
DELETED = BORN + 2 * HOUR
POOL = OwnerReference(api_version="karpenter.sh/v1", kind="NodePool", name="gpu", uid="p")


def crd(going: datetime | None = None, made: datetime = BORN - HOUR) -> CustomResourceDefinition:
    return CustomResourceDefinition(metadata=ObjectMeta(creation_timestamp=made, deletion_timestamp=going))


def found(at: datetime | None = DELETED, *, owned: bool = True) -> NodeClaim:
    """A NodeClaim that was deleted then."""
    made = claim()
    owners = (POOL,) if owned else ()
    meta = msgspec.structs.replace(
        made.metadata, creation_timestamp=BORN, deletion_timestamp=at, owner_references=owners
    )
    return msgspec.structs.replace(made, metadata=meta)


BOTH: Crds = {NODECLAIM_CRD: crd(), NODEPOOL_CRD: crd()}
GOING, LATER, YOUNG = crd(DELETED - HOUR), crd(DELETED + HOUR), crd(made=DELETED - HOUR)


@pytest.mark.parametrize(
    ("one", "crds", "name"),
    [
        (found(), BOTH, ""),
        (found(), {**BOTH, NODECLAIM_CRD: GOING}, NODECLAIM_CRD),
        (found(), {**BOTH, NODECLAIM_CRD: crd(DELETED)}, NODECLAIM_CRD),
        (found(), {**BOTH, NODECLAIM_CRD: LATER}, ""),
        (found(), {**BOTH, NODECLAIM_CRD: None}, NODECLAIM_CRD),
        (found(), {**BOTH, NODEPOOL_CRD: GOING}, NODEPOOL_CRD),
        (found(), {**BOTH, NODEPOOL_CRD: LATER}, ""),
        (found(), {**BOTH, NODEPOOL_CRD: None}, NODEPOOL_CRD),
        (found(), {**BOTH, NODEPOOL_CRD: YOUNG}, NODEPOOL_CRD),
        (found(), {NODECLAIM_CRD: crd()}, ""),
        (found(owned=False), {**BOTH, NODEPOOL_CRD: None}, ""),
        (found(None), {**BOTH, NODEPOOL_CRD: None}, ""),
    ],
    ids=[
        "by itself",
        "with its own",
        "in the same second",
        "before its own",
        "its own is gone",
        "with that of NodePools",
        "before that of NodePools",
        "that of NodePools is gone",
        "it was installed again",
        "that of NodePools is not known",
        "no NodePool owns it",
        "it is not deleted",
    ],
)
def test_deleted_with(one: NodeClaim, crds: Crds, name: str) -> None:
    assert deleted_with(one, crds) == name
