"""Orders of decisions: where one order leaves pods or buys too much, another one is found."""

from typing import Any

import pytest

from .cases import ZONE, decide, instance_type, node, pod

Json = dict[str, Any]


def over_zones(app: str) -> Json:
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}


def required(kind: str, app: str) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [over_zones(app)]}}}


def spread(app: str, skew: int = 1) -> Json:
    one = {**over_zones(app), "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [one]}


def preferring(model: str) -> Json:
    preference = {"matchExpressions": [{"key": "model", "operator": "In", "values": [model]}]}
    terms = [{"weight": 1, "preference": preference}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def test_pods_that_were_left_come_first() -> None:
    """Either five pods of a or two of b run in the only zone."""
    wanted = [
        *(pod(f"a{n}", gpus=1, **required("podAntiAffinity", "b")) for n in range(5)),
        *(pod(f"b{n}", gpus=1, labels={"app": "b"}) for n in range(2)),
    ]
    decision = decide(pods=wanted, instanceTypes=[instance_type("t4-1", zones=("z1",))])
    assert sorted(decision.errors) == ["default/b0", "default/b1"]


def test_pods_that_were_left_come_first_without_their_preferences_too() -> None:
    """Both pods of a prefer the model of the small machine; b runs on no other one."""
    wanted = [
        *(pod(f"a{n}", gpus=4, **preferring("t4")) for n in range(2)),
        pod("b0", gpus=4, labels={"app": "b"}, nodeSelector={"model": "t4"}),
    ]
    decision = decide(pods=wanted, nodes=[node("small", "t4-4"), node("large", "a100-8")], instanceTypes=[])
    assert dict(decision.errors) == {}


def test_as_few_zones_as_a_spread_allows_if_pods_share_machines_there() -> None:
    """Two machines for two pods each, instead of one in each of three zones."""
    wanted = [pod(f"a{n}", gpus=1, cpu="12", **spread("a", skew=2)) for n in range(4)]
    assert decide(pods=wanted).price == pytest.approx(2 * 4.3)


def test_a_zone_that_other_pods_require() -> None:
    """The worker runs in z2 only, and only beside a server, which could run in any zone."""
    wanted = [
        pod("server", labels={"app": "server"}, **spread("server")),
        pod("worker", gpus=1, nodeSelector={ZONE: "z2"}, **required("podAffinity", "server")),
    ]
    assert dict(decide(pods=wanted).errors) == {}


def test_paid_machines_of_a_zone_that_others_take_too() -> None:
    """The large pod fits both machines. The spread pod must run in z2, since its selector counts the others in z1."""
    wanted = [
        *(pod(f"a{n}", gpus=1, labels={"app": "a"}) for n in range(2)),
        pod("large", gpus=4, labels={"app": "a"}),
        pod("spread", gpus=2, labels={"app": "a"}, **spread("a")),
    ]
    paid = [node(f"{n}-small", "t4-1") for n in range(2)] + [node("4", "t4-4", zone="z2"), node("5", "t4-4")]
    decision = decide(pods=wanted, nodes=paid)
    assert (dict(decision.errors), decision.price) == ({}, 0.0)
    assert decision.existing["4"] == ("default/spread",)
