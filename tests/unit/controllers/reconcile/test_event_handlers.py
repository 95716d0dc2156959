"""Which events of Nodes add keys to the work queue: a pass over a pool of another owner reads its thousand Nodes."""

from typing import Any, cast

import msgspec
import pytest

from controllers.reconcile.event_handlers import EventHandlers
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from provisioner.api.aks_names import pool_of, resource_group_of
from provisioner.api.node import Node, NodeCondition
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.store import Store
from tests.unit.builders import KEY, claim, instance, node

POOL = KEY


class Recorder:
    """A queue, an inventory of one pool, and what else handlers call."""

    def __init__(self, *, claims: tuple[Any, ...] = (), pool: Any = None) -> None:
        self.keys: list[str] = []
        self._pool = pool
        cached: Store[NodeClaim] = Store(claim_indexes(lambda made: made.name))
        cached.replace(claims)
        nodes = Store(node_indexes(pool_of, resource_group_of))
        caches = cast("dict[str, Any]", {"claims": cached, "nodes": nodes, "crds": Store[Any]({})})
        indexes = Indexes(**caches, pool_name=lambda made: made.name, pool_of=pool_of)
        anything = cast("Any", self)
        self.handlers = EventHandlers(
            queue=anything, indexes=indexes, inventory=anything, cluster_state=anything, known_keys=tuple,
            continues=lambda _: False, launches=anything,
        )  # fmt: skip

    def add(self, key: str, *, first: bool) -> None:
        self.keys.append(key)

    def get(self, key: str) -> Any:
        return self._pool

    def key_changed(self, key: str) -> None:
        pass


def heartbeat(old: Node) -> tuple[Node, Node]:
    """A Node before and after its kubelet has written its status."""
    status = msgspec.structs.replace(old.status, conditions=(NodeCondition(type="Ready", status="Unknown"),))
    return old, msgspec.structs.replace(old, status=status)


OURS, THEIRS = node(), node(uid_label="", registered=False)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Recorder(), []),
        (Recorder(pool=instance(uid="")), []),
        (Recorder(pool=instance()), [POOL, POOL]),
        (Recorder(claims=(claim(),)), [POOL, POOL]),
    ],
    ids=["no pool", "a pool of another owner", "a pool of ours", "a claim"],
)
def test_a_node_without_marks(found: Recorder, expected: list[str]) -> None:
    """It matters where its pool is ours, or has a claim."""
    found.handlers.node_changed(*heartbeat(THEIRS))
    assert found.keys == expected


def test_a_node_with_marks() -> None:
    """It matters even after pool and claim are gone, and when it loses its marks."""
    found = Recorder()
    found.handlers.node_changed(*heartbeat(OURS))
    found.handlers.node_changed(OURS, THEIRS)
    found.handlers.node_changed(OURS, None)
    assert found.keys == [POOL] * 4
