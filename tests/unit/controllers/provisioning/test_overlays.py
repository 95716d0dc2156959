"""What NodeOverlays change of instance types: the rows state overlays, and what an offering costs then."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from controllers.provisioning.instances import InstanceTypeCache, PriceTable
from controllers.provisioning.overlays import Overlaid, overlaid
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.requirements import conflict

from .observed import CLOUD, REGION, T4, TYPES, node_pool

SPOT_KEY, SIZE_KEY, POOL_KEY = "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type", "karpenter.sh/nodepool"
HERE = {"key": SIZE_KEY, "operator": "In", "values": [T4]}
LIST = next(
    one.price for kind in TYPES.types if kind.name == T4 for one in kind.offerings if one.capacity_type == "on-demand"
)


def overlay(name: str = "ea", *requirements: dict[str, Any], **spec: Any) -> NodeOverlay:
    body = {"metadata": {"name": name}, "spec": {"requirements": list(requirements), **spec}}
    return msgspec.convert(body, NodeOverlay)


def required(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def price(found: Overlaid, pool: str = "gpu", capacity_type: str = "on-demand", zone: str = "0") -> float | None:
    kinds = found.types.get(pool, TYPES.types)
    return next(
        one.price
        for kind in kinds
        if kind.name == T4
        for one in kind.offerings
        if (one.capacity_type, one.zone) == (capacity_type, zone)
    )


@pytest.mark.parametrize(
    ("overlays", "factor", "amount"),
    [
        ([overlay(price="0.25")], 0, 0.25),
        ([overlay(priceAdjustment="-40%")], 0.6, 0),
        ([overlay(priceAdjustment="+10%")], 1.1, 0),
        ([overlay(priceAdjustment="-100%")], 0, 0),
        ([overlay(priceAdjustment="+0.5")], 1, 0.5),
        ([overlay(priceAdjustment="-99999")], 0, 0),
        # Above 1,000,000 USD an hour no amount counts more, and none overflows.
        ([overlay(price="9" * 400)], 0, 1e6),
        ([overlay(priceAdjustment="+" + "9" * 400)], 0, 1e6),
        ([overlay(priceAdjustment="+" + "9" * 400 + "%")], 10_001, 0),
        ([overlay(priceAdjustment="+" + "9" * 1_000_001)], 0, 1e6),
        ([overlay(priceAdjustment="-" + "9" * 1_000_001)], 0, 0),
        ([overlay("ea", HERE, price="0.25")], 0, 0.25),
        ([overlay("ea", required(SIZE_KEY, "NotIn", T4), price="0.25")], 1, 0),
        ([overlay("ea", required(SPOT_KEY, "In", "spot"), price="0.25")], 1, 0),
        ([overlay("ea", required(POOL_KEY, "In", "gpu"), price="0.25")], 0, 0.25),
        ([overlay("ea", required(POOL_KEY, "In", "other"), price="0.25")], 1, 0),
        ([overlay("ea", required("team", "In", "ml"), price="0.25")], 0, 0.25),
        ([overlay("ea", required("team", "Exists"), price="0.25")], 0, 0.25),
        ([overlay("ea", required("absent", "Exists"), price="0.25")], 1, 0),
        ([overlay("ea", required("absent", "DoesNotExist"), price="0.25")], 0, 0.25),
        ([overlay("ea", required("topology.kubernetes.io/zone", "In", "eastus-1"), price="0.25")], 1, 0),
        # The greatest weight counts, whatever is written or read first.
        ([overlay("a", price="1", weight=1), overlay("b", price="2", weight=2)], 0, 2),
        ([overlay("b", price="2", weight=2), overlay("a", price="1", weight=1)], 0, 2),
        ([overlay("a", price="1", weight=3), overlay("b", priceAdjustment="-50%")], 0, 1),
    ],
)
def test_price(overlays: list[NodeOverlay], factor: float, amount: float) -> None:
    assert LIST is not None
    assert price(overlaid(overlays, [node_pool()], TYPES.types)) == pytest.approx(LIST * factor + amount)


def test_price_of_spot_and_of_a_zone() -> None:
    """Offerings of one instance type have prices of their own."""
    spot = overlay("spot", required(SPOT_KEY, "In", "spot"), price="0.1")
    zone = overlay("zone", required("topology.kubernetes.io/zone", "In", "eastus-2"), price="0.2", weight=5)
    found = overlaid([spot, zone], [node_pool()], TYPES.types)
    assert (price(found), price(found, capacity_type="spot")) == (LIST, 0.1)
    assert price(found, zone="eastus-2") == price(found, capacity_type="spot", zone="eastus-2") == 0.2


def test_a_label_of_template_and_instance_types() -> None:
    """Both must allow its value."""
    ours = overlay("ea", required("kubernetes.io/arch", "In", "amd64"), price="1")
    pools = [node_pool("a", labels={"kubernetes.io/arch": "amd64"}), node_pool("b", labels={"kubernetes.io/arch": "x"})]
    found = overlaid([ours], pools, TYPES.types)
    assert (price(found, "a"), price(found, "b"), price(found, "")) == (1, LIST, 1)


def test_many_overlays_and_node_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offerings are compared once with each overlay, not once for each NodePool: 1,000 overlays took 17 s with 10."""
    compared = 0

    def counted(*parts: Any) -> str:
        nonlocal compared
        compared += 1
        return conflict(*parts)

    monkeypatch.setattr("controllers.provisioning.overlays.conflict", counted)
    pools = [node_pool(f"p{number}") for number in range(10)]
    many = [overlay(f"o{n}", HERE, required(POOL_KEY, "In", f"p{n % 10}"), price="1", weight=n) for n in range(1, 31)]
    found = overlaid(many, pools, TYPES.types)
    assert {price(found, pool.name) for pool in pools} == {1}
    offerings = sum(len(kind.offerings) for kind in TYPES.types)
    assert compared == len(many) * (len(pools) + 1 + offerings)


def test_two_overlays_that_set_the_same() -> None:
    """Of equal weights the one whose name is greater counts, and the other one is not used at all."""
    every, only = overlay("a", priceAdjustment="-50%", capacity={"rdma/hca": 1}), overlay("b", HERE, price="1")
    found = overlaid([every, only], [node_pool()], TYPES.types)
    assert price(found) == 1
    assert {name: (one.reason, one.message) for name, one in found.unused.items()} == {
        "a": (
            "Conflict",
            f"it sets the same as NodeOverlay b for {T4} in NodePool gpu: give one of them another spec.weight",
        )
    }
    assert found.offerings.keys() == {"b"}
    others = [new.offerings for new, old in zip(found.types["gpu"], TYPES.types, strict=True) if new.name != T4]
    assert others == [old.offerings for old in TYPES.types if old.name != T4]


def test_capacity() -> None:
    """Extended resources are added, and nothing that is known is replaced."""
    fabric = overlay("fabric", HERE, capacity={"rdma/hca": "8", "nvidia.com/gpu": "100"})
    found = overlaid([fabric], [node_pool()], TYPES.types)
    kind = next(one for one in found.types["gpu"] if one.name == T4)
    for amounts in (kind.capacity, kind.allocatable):
        assert (amounts["rdma/hca"], amounts["nvidia.com/gpu"]) == (8000, 1000)
    assert price(found) == LIST


def test_nothing_applies() -> None:
    """Without an overlay that applies, the instance types stay the same objects; so does a NodePool of another one."""
    assert overlaid([], [node_pool()], TYPES.types) == Overlaid()
    missed = overlaid([overlay("ea", required(SIZE_KEY, "In", "Standard_X"), price="1")], [node_pool()], TYPES.types)
    assert (missed.types, missed.offerings) == ({}, {"ea": 0})
    one = overlaid(
        [overlay("ea", required(POOL_KEY, "In", "a"), price="1")], [node_pool("a"), node_pool("b")], TYPES.types
    )
    assert (price(one, "a"), price(one, "b"), price(one, "")) == (1, LIST, LIST)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"price": "cheap"}, "spec.price: 'cheap' is not a price; write USD an hour, such as 3.25"),
        ({"price": "-1"}, "spec.price: '-1' is not a price; write USD an hour, such as 3.25"),
        (
            {"priceAdjustment": "15%"},
            "spec.priceAdjustment: '15%' is no adjustment; write a percentage of at least -100%, such as -15%, or USD"
            " an hour with a sign, such as +0.5",
        ),
        (
            {"priceAdjustment": "-101%"},
            "spec.priceAdjustment: '-101%' is no adjustment; write a percentage of at least -100%, such as -15%, or USD"
            " an hour with a sign, such as +0.5",
        ),
        ({"price": "1", "priceAdjustment": "+1"}, "spec.price and spec.priceAdjustment exclude each other: remove one"),
        ({"capacity": {"cpu": "4"}}, "spec.capacity[cpu]: only extended resources can be added; remove it"),
        (
            {"requirements": [required("a", "In", "b"), required("a", "In", "c")], "price": "1"},
            "spec.requirements: conflicting requirements on a: In [b], In [c]",
        ),
        ({"requirements": [required("a", "In")]}, "spec.requirements: a: In requires at least one value"),
    ],
)
def test_invalid(spec: dict[str, Any], why: str) -> None:
    """It names the field, its value and the remedy; the others count."""
    body = {"metadata": {"name": "ea"}, "spec": {"requirements": [], "weight": 9, **spec}}
    found = overlaid([msgspec.convert(body, NodeOverlay), overlay("b", price="2")], [node_pool()], TYPES.types)
    assert {name: (one.reason, one.message) for name, one in found.unused.items()} == {"ea": ("RuntimeValidation", why)}
    assert price(found) == 2


def test_size_without_a_price() -> None:
    """A percentage of an unknown price is not known; a price is."""
    kinds = tuple(
        msgspec.structs.replace(
            kind, offerings=tuple(msgspec.structs.replace(one, price=None) for one in kind.offerings)
        )
        for kind in TYPES.types
    )
    assert price(overlaid([overlay(priceAdjustment="-40%")], [node_pool()], kinds)) is None
    assert price(overlaid([overlay(price="3")], [node_pool()], kinds)) == 3


def test_machines_without_a_node_pool() -> None:
    """They have the prices of overlays that need no label of a NodePool, which conflict only within NodePools."""
    every, own = overlay("every", priceAdjustment="-50%"), overlay("own", required(POOL_KEY, "In", "gpu"), price="1")
    found = msgspec.structs.replace(TYPES, overlaid=overlaid([every], [], TYPES.types))
    assert LIST is not None
    assert found.price("", T4, "on-demand", "0") == pytest.approx(LIST / 2)
    assert found.price("deleted", T4, "on-demand", "no-zone") == pytest.approx(LIST / 2)
    found = msgspec.structs.replace(TYPES, overlaid=overlaid([own], [node_pool()], TYPES.types))
    assert (found.price("gpu", T4, "on-demand", "0"), found.price("", T4, "on-demand", "0")) == (1, LIST)
    assert found.price("gpu", "Standard_X", "on-demand", "0") is None


@pytest.mark.parametrize(
    ("table", "on_demand", "spot"),
    [
        ((), 1, 1),
        (((T4.upper(), Decimal("0.5")),), 0.5, 0.5),
        (((f"{T4}/spot", Decimal("0.125")),), 1, 0.125),
        (((T4, Decimal("0.5")), (f"{T4}/spot", Decimal("0.75"))), 0.5, 0.75),
    ],
)
def test_a_price_table(table: PriceTable, on_demand: float, spot: float) -> None:
    """It replaces list prices, and NodeOverlays change its prices: the factor 1 stands for the list price."""
    half = overlay("half", required("team", "Exists"), priceAdjustment="-50%")
    cache = InstanceTypeCache(CLOUD, overlays=lambda: [half], pools=lambda: [node_pool()], prices=table)
    types = cache.in_region(REGION)
    found = [types.price(pool, T4, kind, "0") for pool in ("", "gpu") for kind in ("on-demand", "spot")]
    assert LIST is not None
    wanted = [LIST if one == 1 else one for one in (on_demand, spot)]
    assert found == pytest.approx([*wanted, *(one / 2 for one in wanted)])
    assert types.stated is bool(table)
