"""Which empty machines are kept for the pods that still run on them, as a table."""

import pytest

from controllers.disruption.emptiness import kept_by_pods
from provisioner.api.nodepool import NodePool

from .fleet import D4, Fleet, pod, pool

FULL = "not all pods would schedule on other machines, default/a-0"
LOST = "Pod would not be created again elsewhere (Pod=default/alone)"
ALONE = pod("alone", on="a", meta={"ownerReferences": []})


@pytest.mark.parametrize(
    ("fleet", "due", "kept"),
    [
        (Fleet().add("a"), ("a",), {}),
        (Fleet().add("a", pods=[(1, 0)]), ("a",), {"a": FULL}),
        (Fleet().add("a", pods=[(1, 0)]).add("b", D4), ("a",), {}),
        # What is removed at the same time takes no pod; the first one in line goes.
        (Fleet().add("a", pods=[(1, 0)]).add("b"), ("a", "b"), {"a": FULL}),
        (Fleet().add("a", pods=[(2, 0)]).add("b", pods=[(2, 0)]).add("c", D4), ("b", "a"), {"a": FULL}),
        (Fleet().add("a", pods=[(1, 0)]).add("b", leaving=True), ("a",), {"a": FULL}),
        (Fleet().add("a", pods=[(1, 0)]).add("b", up=("Launched", "Registered")), ("a",), {"a": FULL}),
        # A pending pod has this room already.
        (Fleet().add("a", pods=[(3, 0)]).add("b").pending(pod("p", 3)), ("a",), {"a": FULL}),
        (Fleet().add("a", pods=[ALONE]).add("b"), ("a",), {"a": LOST}),
    ],
)
def test_kept(fleet: Fleet, due: tuple[str, ...], kept: dict[str, str]) -> None:
    """The sizes have 4 CPUs; nothing is bought for the pods."""
    node_pool: NodePool = pool()
    view = fleet.view()
    by_name = {one.claim.name: one for one in view.machines}
    found = kept_by_pods(view, node_pool, [by_name[name] for name in due])
    assert {uid.removeprefix("uid-"): why for uid, why in found.items()} == kept
