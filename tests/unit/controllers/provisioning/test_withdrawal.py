"""Pods are taken back that kube-scheduler would not bind, because machines in another domain are limited."""

from collections import Counter
from typing import Any

import pytest

from controllers.provisioning.solver.model import Decision

from .cases import ZONE, decide, instance_type, node, node_pool, pod, pods

Json = dict[str, Any]
TYPES = [instance_type("t4-1")]


def spread(skew: int = 1, app: str = "a") -> Json:
    selector = {"matchLabels": {"app": app}}
    term = {"topologyKey": ZONE, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [term]}


def zonal(zone: str, nodes: int | None = None) -> Json:
    limits = {} if nodes is None else {"limits": {"nodes": str(nodes)}}
    return node_pool(zone, requirements=[{"key": ZONE, "operator": "In", "values": [zone]}], **limits)


def by_zone(decision: Decision) -> Counter[str]:
    return Counter(next(iter(one.requirements[ZONE].values)) for one in decision.machines for _ in one.pods)


@pytest.mark.parametrize("skew", [1, 2])
@pytest.mark.parametrize("limit", [1, 2])
def test_no_zone_has_more_pods_than_a_limited_one_and_the_skew(limit: int, skew: int) -> None:
    """Ten pods of one GPU each; a NodePool may buy a few machines in one zone, the other as many as it likes."""
    decision = decide(
        pods=pods(10, gpus=1, **spread(skew)), nodePools=[zonal("z1", limit), zonal("z2")], instanceTypes=TYPES
    )
    assert by_zone(decision) == {"z1": limit, "z2": limit + skew}
    assert len(decision.errors) == 10 - 2 * limit - skew


def test_the_reason_names_the_constraint() -> None:
    """It is not that no machine exists."""
    decision = decide(pods=pods(9, gpus=1, **spread()), nodePools=[zonal("z1", 1), zonal("z2")], instanceTypes=TYPES)
    assert any(f"topology spread over {ZONE}" in why for why in decision.errors.values()), decision.errors


def test_no_machine_is_bought_for_pods_that_are_taken_back() -> None:
    """Every machine has pods, and no pod has two places."""
    wanted = [*pods(9, gpus=1, **spread()), *(pod(f"b{n}", gpus=1, labels={"app": "b"}) for n in range(3))]
    decision = decide(pods=wanted, nodePools=[zonal("z1", 1), zonal("z2")], instanceTypes=TYPES)
    placed = Counter(name for one in decision.machines for name in one.pods)
    assert all(one.pods for one in decision.machines)
    assert set(placed.values()) == {1}
    assert placed.keys() | decision.errors.keys() == {
        *(f"default/p{n:02}" for n in range(9)),
        *(f"default/b{n}" for n in range(3)),
    }


def test_pods_that_their_own_constraint_does_not_count_are_kept_at_the_skew() -> None:
    """They are taken back only where others exceed the skew, not where these have just reached it."""
    other = pod("b", gpus=1, labels={"app": "b"}, nodeSelector={ZONE: "z2"})
    decision = decide(
        pods=[*pods(3, gpus=1, **spread(app="b")), other], nodePools=[zonal("z1", 1), zonal("z2")], instanceTypes=TYPES
    )
    assert not decision.errors


def test_pods_without_the_constraint_are_kept() -> None:
    """They keep their machines in the zone where others are taken back."""
    others = [pod(f"b{n}", gpus=1, labels={"app": "b"}, nodeSelector={ZONE: "z2"}) for n in range(4)]
    decision = decide(
        pods=[*pods(6, gpus=1, **spread()), *others], nodePools=[zonal("z1", 1), zonal("z2")], instanceTypes=TYPES
    )
    kept = {name for one in decision.machines for name in one.pods}
    assert kept >= {f"default/b{n}" for n in range(4)}
    assert len(kept) == 4 + 3


def test_room_on_an_existing_machine_is_used_as_far_as_the_skew_allows() -> None:
    """One machine may be bought in the other zone, so that two pods run here; the rest is for other pods."""
    existing = node("n", "t4-4", zone="z2")
    decision = decide(
        pods=[*pods(4, gpus=1, **spread()), pod("b", gpus=1, labels={"app": "b"})],
        nodes=[existing],
        nodePools=[zonal("z1", 1)],
        instanceTypes=TYPES,
    )
    counted = [name for name in decision.existing.get("n", ()) if "/p" in name]
    assert by_zone(decision) == {"z1": 1}
    assert len(counted) == 2
    assert "default/b" in decision.existing["n"]
