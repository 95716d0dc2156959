"""When a NodeClaim expires, as a table."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.expiration import clock_jumped, expires_at, why_delayed
from provisioner.api import labels
from provisioner.api.meta import ZERO_TIME, ObjectMeta, OwnerReference
from provisioner.api.nodeclaim import NodeClaim, NodeClassReference
from provisioner.api.nodepool import NodePool, NodePoolSpec
from provisioner.api.owner import is_member
from tests.unit.builders import BORN, claim

OWN_CLASS = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default")
OTHER_CLASS = NodeClassReference(group="karpenter.azure.com", kind="AKSNodeClass", name="default")
OWNER = OwnerReference(api_version="karpenter.sh/v1", kind="NodePool", name="gpu", uid="p")


def owned(
    after: str | None,
    *,
    owner: OwnerReference | None = OWNER,
    node_class: NodeClassReference = OWN_CLASS,
    label: str = "gpu",
    **meta: Any,
) -> NodeClaim:
    made = claim(deleting=meta.pop("deleting", False), more_labels={labels.NODEPOOL: label})
    owners = (owner,) if owner is not None else ()
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, owner_references=owners, **meta),
        spec=msgspec.structs.replace(made.spec, node_class_ref=node_class, expire_after=after),
    )


def pool(replicas: int | None = None, uid: str = "p") -> NodePool:
    return NodePool(metadata=ObjectMeta(name="gpu", uid=uid), spec=NodePoolSpec(replicas=replicas))


@pytest.mark.parametrize(
    ("node_claim", "node_pool", "expected"),
    [
        (owned("720h"), pool(), BORN + timedelta(days=30)),
        (owned("1h30m"), pool(), BORN + timedelta(minutes=90)),
        (owned("Never"), pool(), None),
        (owned(None), pool(), None),
        (owned("soon"), pool(), None),
        (owned("-1h"), pool(), None),
        (owned("0s"), pool(), None),
        (owned("1h", deleting=True), pool(), None),
        (owned("1h", creation_timestamp=ZERO_TIME), pool(), None),
        (owned("1h", owner=None), pool(), None),
        (owned("1h"), pool(uid="another"), None),
        (owned("1h", node_class=OTHER_CLASS), pool(), None),
        (owned("1h", label="other"), pool(), None),
        (owned("1h"), pool(replicas=1), None),
    ],
)
def test_expires_at(node_claim: NodeClaim, node_pool: NodePool, expected: datetime | None) -> None:
    assert expires_at(node_claim, node_pool if is_member(node_claim, node_pool) else None) == expected


@pytest.mark.parametrize(
    ("up", "annotations", "delayed"),
    [
        ((), {}, False),
        (("Drifted",), {}, False),
        (("DisruptionReason",), {}, True),
        ((), {labels.DISRUPTION_COMMAND: "gpu-1-10"}, True),
        # It is a replacement itself.
        ((), {labels.REPLACEMENT_COMMAND: "gpu-1-10"}, False),
    ],
)
def test_a_machine_that_is_replaced_does_not_expire(
    up: tuple[str, ...], annotations: dict[str, str], delayed: bool
) -> None:
    assert bool(why_delayed(claim(up=up, annotations=annotations))) is delayed


@pytest.mark.parametrize(("wall", "loop", "jumped"), [(0, 0, False), (1e6, 1e6 - 200, False), (1e6, 0, True), (0, 400, True)])  # fmt: skip  # noqa: E501
def test_a_clock_that_was_set(wall: float, loop: float, jumped: bool) -> None:
    assert clock_jumped(wall, loop) is jumped
