"""The number of NodeClaims of a static NodePool, as a table."""

import pytest

from controllers.nodepool.replica_schedules import desired
from controllers.nodepool.static_capacity import Replica, Scale, beyond_limit, scale
from provisioner.api.nodepool import NodePool, NodePoolSpec
from tests.unit.builders import BORN

from .replicas import replica


@pytest.mark.parametrize(
    ("replicas", "create", "delete", "replace"),
    [(2, 0, (), ("old",)), (3, 0, (), ("old",)), (1, 0, ("old",), ())],
    ids=["enough", "too few: it is replaced first", "too many"],
)
def test_outdated(replicas: int, create: int, delete: tuple[str, ...], replace: tuple[str, ...]) -> None:
    found = scaled(static(replicas), [replica("old", ready=False, outdated=True), replica("a")])
    names = tuple(tuple(one.name for one in of) for of in (found.delete, found.replace))
    assert (found.create, *names) == (create, delete, replace)


def scaled(pool: NodePool, machines: list[Replica]) -> Scale:
    """Without a schedule."""
    target = desired(pool, (), BORN)
    assert target is not None
    return scale(pool, machines, target)


def static(replicas: int | None, **limits: str) -> NodePool:
    return NodePool(spec=NodePoolSpec(replicas=replicas, limits=limits))


@pytest.mark.parametrize(
    ("pool", "machines", "create", "delete"),
    [
        (static(0), [], 0, ()),
        (static(3), [], 3, ()),
        (static(3), [replica("a"), replica("b", ready=False)], 1, ()),
        (static(2), [replica("a"), replica("b", deleting=True)], 1, ()),
        (static(2), [replica("a"), replica("b")], 0, ()),
        (static(0), [replica("a"), replica("b", deleting=True)], 0, ("a",)),
        # One that is being replaced, before and after its replacement is created.
        (static(2), [replica("a"), replica("b", replaced=True)], 0, ()),
        (static(2), [replica("a"), replica("b", replaced=True), replica("c", ready=False)], 0, ()),
        (static(2), [replica("b", replaced=True)], 1, ()),
        (static(1), [replica("a"), replica("b", replaced=True), replica("c", ready=False)], 0, ("c",)),
        # Those being deleted still use the limit.
        (static(3, nodes="3"), [replica("a"), replica("b", deleting=True)], 1, ()),
        (static(3, nodes="2"), [replica("a"), replica("b", deleting=True)], 0, ()),
        (static(3, nodes="0"), [], 0, ()),
        (static(3, nodes="many"), [], 3, ()),
        # The order of deletion.
        (static(1), [replica("ready"), replica("unready", ready=False, age=9)], 0, ("unready",)),
        (static(1), [replica("empty", age=9), replica("busy", cost=1.0)], 0, ("empty",)),
        (static(1), [replica("one", cost=1.0, age=9), replica("many", cost=8.0)], 0, ("one",)),
        (static(1), [replica("web", cost=9.0, age=9), replica("serves", gpus=True, cost=1.0)], 0, ("web",)),
        (static(1), [replica("serves", gpus=True, cost=9.0), replica("trains", work=True, gpus=True)], 0, ("serves",)),
        (static(1), [replica("trains", work=True, gpus=True), replica("kept", protected=True)], 0, ("trains",)),
        (static(1), [replica("trains", work=True, ready=False), replica("web", cost=1.0, age=9)], 0, ("web",)),
        (static(1), [replica("kept", protected=True, ready=False), replica("busy", cost=1.0)], 0, ("busy",)),
        (static(1), [replica("old", age=9), replica("young", age=1), replica("middle", age=5)], 0, ("young", "middle")),
    ],
)
def test_scale(pool: NodePool, machines: list[Replica], create: int, delete: tuple[str, ...]) -> None:
    found = scaled(pool, machines)
    assert (found.create, tuple(one.name for one in found.delete)) == (create, delete)


@pytest.mark.parametrize(
    ("pool", "surplus"),
    [
        (static(None), 0),
        (static(3), 0),
        (static(3, nodes="3"), 0),
        (static(3, nodes="1"), 2),
        (static(1, nodes="x"), 0),
    ],
)
def test_replicas_beyond_the_limit(pool: NodePool, surplus: int) -> None:
    assert (f"does not allow {surplus} of spec.replicas" in beyond_limit(pool)) is bool(surplus)


@pytest.mark.parametrize(
    ("pool", "machines", "created", "not_allowed"),
    [
        (static(3), [], 3, 0),
        (static(3, nodes="1"), [], 1, 2),
        (static(3, nodes="1"), [replica("a")], 0, 2),
        (static(1, nodes="1"), [replica("a", deleting=True)], 0, 1),
        (static(1, nodes="1"), [replica("a")], 0, 0),
        (static(1, nodes="1"), [replica("a"), replica("b", deleting=True)], 0, 0),
        (static(1, nodes="x"), [], 1, 0),
    ],
)
def test_what_the_limit_does_not_allow_now(
    pool: NodePool, machines: list[Replica], created: int, not_allowed: int
) -> None:
    found = scaled(pool, machines)
    assert (found.create, found.limited) == (created, not_allowed)
