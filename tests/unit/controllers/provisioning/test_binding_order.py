"""kube-scheduler binds the pods of a decision in any order: each is placed as if all others were there before it."""

from typing import Any

import pytest

from .cases import HOSTNAME, ZONE, decide, instance_type, node, pod

Json = dict[str, Any]
ONE_ZONE = [instance_type(name, zones=("z1",)) for name in ("t4-1", "t4-4", "a100-8")]


def term(key: str, app: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def required(kind: str, key: str, app: str = "a") -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(key, app)]}}


def spread(app: str = "a", **more: Any) -> list[Json]:
    return [{**term(ZONE, app), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}]


TOGETHER = required("podAffinity", HOSTNAME)
# The constraints of five pods that must share a machine, the existing machines, and how many of them run.
SHARED: dict[str, tuple[Json, list[Json], int]] = {
    "nothing else": ({"affinity": TOGETHER}, [], 5),
    "apart by zone": ({"affinity": {**TOGETHER, **required("podAntiAffinity", ZONE)}}, [], 1),
    "spread over zones, of which one has machines": (
        {"affinity": TOGETHER, "topologySpreadConstraints": spread(maxSkew=2)},
        [],
        5,
    ),
    "spread over zones, of which two have machines": (
        {"affinity": TOGETHER, "topologySpreadConstraints": spread(maxSkew=2)},
        [node("one", "cpu-4", zone="z2"), node("other", "cpu-4", zone="z3")],
        2,
    ),
    "spread over more zones than there are": (
        {"affinity": TOGETHER, "topologySpreadConstraints": spread(maxSkew=3, minDomains=3)},
        [],
        3,
    ),
}


@pytest.mark.parametrize("case", SHARED)
def test_as_many_pods_share_a_machine_as_constraints_over_its_zone_allow(case: str) -> None:
    """A machine is in one zone, so that all pods on it count there."""
    constraints, nodes, running = SHARED[case]
    decision = decide(pods=[pod(f"p{number}", gpus=1, **constraints) for number in range(5)], nodes=nodes)
    placed = [one.pods for one in decision.machines] + [*decision.existing.values()]
    assert (len(placed), sum(map(len, placed))) == (1, running)
    assert len(decision.errors) == 5 - running


def test_pods_that_a_spread_counts_may_be_bound_before_those_that_have_it() -> None:
    """With too few zones at most one pod of b may exist when a is bound; five are to be bound as well."""
    counting = [pod(f"a{n}", gpus=1, topologySpreadConstraints=spread("b", minDomains=2)) for n in range(2)]
    counted = [pod(f"b{n}", gpus=1, labels={"app": "b"}) for n in range(5)]
    decision = decide(pods=[*counting, *counted], instanceTypes=ONE_ZONE)
    assert sorted(decision.errors) == ["default/a0", "default/a1"]


def test_pods_with_spreads_that_count_each_other() -> None:
    """The last pod of either app fits beside all others; where it does not, those with the constraint wait."""
    one = [pod(f"a{n}", gpus=1, topologySpreadConstraints=spread("b", maxSkew=2, minDomains=3)) for n in range(3)]
    other = [pod(f"b{n}", gpus=1, labels={"app": "b"}, topologySpreadConstraints=spread("a")) for n in range(3)]
    decision = decide(pods=[*one, *other], instanceTypes=ONE_ZONE)
    assert sorted(decision.errors) == ["default/a0", "default/a1", "default/a2"]
