"""How the costs of machines are divided, summed up and printed."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from controllers.provisioning.instances import InstanceTypeCache
from provisioner.api import labels
from provisioner.api.deviceclaim import ResourceClaim
from provisioner.api.meta import EMPTY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.cli.commands.cost_machines import MachineCost, PodUse, machines, pod_use, with_claimed_devices
from provisioner.cli.commands.cost_report import report, shown
from tests.unit.controllers.disruption.fleet import A100, D2, MOMENT, NODE_CLASS, T4, T4_64, Fleet
from tests.unit.controllers.provisioning.observed import CLOUD, REGION, TYPES

PRICES = "list prices of eastus"
MIG = "nvidia.com/mig-1g.10gb"


def use(namespace: str, devices: float, **known: str) -> PodUse:
    return PodUse(node="n", namespace=namespace, labels=known, devices=devices)


def machine(name: str, pool: str, price: float | None, gpus: int, *uses: PodUse, **changed: Any) -> MachineCost:
    about = {"node_claim": name, "node": name, "node_pool": pool, "price": price, "list_price": price, "gpus": gpus}
    return MachineCost(uses=uses, **{**about, "devices": gpus, **changed})


SPOT = machine("a", "big", 8.0, 8, use("ml", 4, app="train"), use("web", 2, app="api"), list_price=20.0)
SLICED = machine("b", "big", 7.0, 1, use("ml", 1, app="train"), use("web", 1), devices=7)
VACANT = machine("c", "t4", 0.5, 1)
UNPRICED = machine("d", "t4", None, 4, use("ml", 4, app="train"), list_price=None)
CPU = machine("e", "", 0.1, 0)
FLEET = (SPOT, SLICED, VACANT, UNPRICED, CPU)

# Machines, unpriced, GPUs, requested, USD an hour, idle and saved.
Cells = tuple[int, int, float, float, float, float, float | None]
TABLE: dict[str, dict[str, Cells]] = {
    "nodepool": {
        "big": (2, 0, 9, 6 + 2 / 7, 15.0, 2.0 + 5.0, 12.0),
        "t4": (2, 1, 5, 4, 0.5, 0.5, 0.0),
        "<none>": (1, 0, 0, 0, 0.1, 0.0, 0.0),
    },
    "nodeclaim": {
        "a": (1, 0, 8, 6, 8.0, 2.0, 12.0),
        "b": (1, 0, 1, 2 / 7, 7.0, 5.0, 0.0),
        "c": (1, 0, 1, 0, 0.5, 0.5, 0.0),
        "e": (1, 0, 0, 0, 0.1, 0.0, 0.0),
        "d": (1, 1, 4, 4, 0.0, 0.0, None),
    },
    "namespace": {
        "ml": (3, 1, 8 + 1 / 7, 8 + 1 / 7, 5.0, 0.0, 6.0),
        "web": (2, 0, 2 + 1 / 7, 2 + 1 / 7, 3.0, 0.0, 3.0),
        "<idle>": (3, 0, 3 + 5 / 7, 0, 7.5, 7.5, 3.0),
        "<no GPUs>": (1, 0, 0, 0, 0.1, 0.0, 0.0),
    },
    "app": {
        "train": (3, 1, 8 + 1 / 7, 8 + 1 / 7, 5.0, 0.0, 6.0),
        "api": (1, 0, 2, 2, 2.0, 0.0, 3.0),
        "<none>": (1, 0, 1 / 7, 1 / 7, 1.0, 0.0, 0.0),
        "<idle>": (3, 0, 3 + 5 / 7, 0, 7.5, 7.5, 3.0),
        "<no GPUs>": (1, 0, 0, 0, 0.1, 0.0, 0.0),
    },
}


@pytest.mark.parametrize("by", TABLE)
def test_each_way_to_divide(by: str) -> None:
    """The dearest row comes first; whatever the rows are, the total is the same."""
    found = report(FLEET, by, PRICES)
    assert [one.name for one in found.rows] == [*TABLE[by]]
    for row in found.rows:
        cells = row.machines, row.unpriced, row.gpus, row.requested, row.per_hour, row.idle_per_hour
        assert cells == pytest.approx(TABLE[by][row.name][:6], abs=1e-5), row.name
        assert row.saved_per_hour == pytest.approx(TABLE[by][row.name][6], abs=1e-5), row.name
        assert row.per_day == pytest.approx(24 * row.per_hour, abs=1e-4)
    assert found.total == report(FLEET, "nodepool", PRICES).total
    assert sum(row.per_hour for row in found.rows) == pytest.approx(found.total.per_hour, abs=1e-5)
    assert sum(row.gpus for row in found.rows) == pytest.approx(found.total.gpus, abs=1e-5)


def test_the_table_that_a_user_reads() -> None:
    """What is not known is a dash, and notes state what is missing."""
    unlisted = msgspec.structs.replace(VACANT, list_price=None, spot_unknown=True)
    assert shown(report((SPOT, UNPRICED, CPU, unlisted), "nodepool", PRICES), "table") == [
        "NODEPOOL   MACHINES   GPUS   REQUESTED   USD/H   USD/DAY   IDLE   IDLE USD/H   SAVED USD/H   UNPRICED",
        "big        1          8      6           8.000   192.00    25%    2.000        12.000        -",
        "t4         2          5      4           0.500   12.00     20%    0.500        -             1",
        "<none>     1          0      0           0.100   2.40      -      -            0.000         -",
        "total      4          13     10          8.600   206.40    23%    2.500        12.000        1",
        "",
        "Prices: list prices of eastus",
        "1 machine without a price: part of no cost. State the price with a NodeOverlay or --prices.",
        "1 machine without a list price: part of no saving.",
        "Spot prices are not known: spot machines count with their price on demand, which they do not exceed.",
    ]
    row = shown(report((UNPRICED,), "namespace", PRICES), "table")[1]
    assert row.split() == ["ml", "1", "4", "4", "-", "-", "0%", "-", "-", "1"]


def test_shares_that_are_not_exact() -> None:
    """The sum of parts is not below zero."""
    shared = machine("a", "big", 1.0, 7, *(use("ml", part) for part in (0.1, 0.2, 0.7, 6.0)), devices=6.999999999999999)
    assert shown(report((shared,), "nodeclaim", PRICES), "table")[1].split()[6:8] == ["0%", "0.000"]


def test_nothing_runs() -> None:
    """One sentence; programs get the same fields as ever."""
    found = report((), "nodepool", PRICES)
    assert shown(found, "table") == ["No machine of this controller runs: nothing is paid."]
    decoded = msgspec.json.decode("\n".join(shown(found, "json")))
    assert (decoded["rows"], decoded["total"]["perHour"], decoded["total"]["idleShare"]) == ([], 0, None)


def test_a_label_that_no_pod_has() -> None:
    """It can be a typing error."""
    why = "No Pod that requests GPUs of these machines has the label namespaces."
    assert why in report(FLEET, "namespaces", PRICES).notes
    assert report((CPU, VACANT), "namespaces", PRICES).notes == ()


def _pod(requests: Mapping[str, str] = EMPTY, *, phase: str = "Running", claims: tuple[str, ...] = ()) -> Pod:
    found = [{"name": one, "resourceClaimName": one} for one in claims]
    spec = {"nodeName": "n", "containers": [{"resources": {"requests": dict(requests)}}], "resourceClaims": found}
    return msgspec.convert({"metadata": {"namespace": "ml"}, "spec": spec, "status": {"phase": phase}}, Pod)


@pytest.mark.parametrize(
    ("found", "devices"),
    [
        (_pod({"cpu": "4"}), None),
        (_pod({"nvidia.com/gpu": "2"}), 2.0),
        (_pod({"amd.com/gpu": "1", "rdma/hca": "8"}), 1.0),
        (_pod({MIG: "3"}), 3.0),
        (_pod({"nvidia.com/gpu": "2"}, phase="Succeeded"), None),
        (_pod(claims=("one",)), 0.0),
        (_pod({"nvidia.com/gpu": "two"}), None),
    ],
)
def test_what_a_pod_requests(found: Pod, devices: float | None) -> None:
    """GPUs and parts of GPUs of any vendor."""
    made = pod_use(found)
    assert (made.devices if made is not None else None) == devices


def test_the_devices_of_resource_claims() -> None:
    """Pods of one claim share its GPUs; network devices and administrative access are none."""
    results = [{"driver": "gpu.nvidia.com"}, {"driver": "gpu.nvidia.com", "adminAccess": True}, {"driver": "dranet"}]
    shared = {
        "metadata": {"name": "one", "namespace": "ml"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    waiting = {"metadata": {"name": "two", "namespace": "ml"}}
    claims = [msgspec.convert(one, ResourceClaim) for one in (shared, waiting)]
    pods = (_pod(claims=("one",)), _pod(claims=("one", "two")), _pod({"nvidia.com/gpu": "1"}))
    uses = [made for one in pods if (made := pod_use(one)) is not None]
    assert [one.devices for one in with_claimed_devices(uses, claims)] == [0.5, 0.5, 1.0]


def test_the_machines_of_a_cluster() -> None:
    """Those of others are none; a machine without a Node, a Node without a NodeClaim and lost GPUs are paid for."""
    fleet = Fleet().add("spot", A100, term="spot").add("lost", T4_64).add("cpu", D2).add("coming", T4)
    sizes = {one.name: one.metadata.labels for one in fleet.nodes}
    nodes = [
        _node("spot", {**sizes["spot"], labels.CLAIM_UID: "uid-spot"}, {MIG: "7"}),
        _node("lost", {**sizes["lost"], labels.CLAIM_UID: "uid-lost"}, {"nvidia.com/gpu": "3"}),
        _node("cpu", {**sizes["cpu"], labels.CLAIM_UID: "uid-cpu"}, {"cpu": "2"}),
        _node("left", {labels.CLAIM_UID: "gone", labels.INSTANCE_TYPE: "standard_nc4as_t4_v3"}),
        _node("system", {labels.INSTANCE_TYPE: D2}),
    ]
    new = {"metadata": {"name": "new", "uid": "new"}, "spec": {"nodeClassRef": NODE_CLASS}}
    karpenter = {"metadata": {"name": "k", "uid": "k"}, "status": {"conditions": [LAUNCHED]}}
    claims = [*fleet.claims, *(msgspec.convert(one, NodeClaim) for one in (new, karpenter))]
    uses = [PodUse(node=nodes[1].name, devices=4.0), PodUse(node=nodes[4].name, devices=1.0)]
    types = InstanceTypeCache(CLOUD, prices=[(f"{A100}/spot", Decimal("1.5"))]).in_region(REGION)
    found = {one.node_claim or "left": one for one in machines(claims, nodes, uses, types)}
    facts = {name: (one.node_pool, one.gpus, one.devices, one.list_price) for name, one in found.items()}
    assert facts == {
        "spot": ("gpu", 1, 7, 3.673),
        "lost": ("gpu", 4, 4, 4.352),
        "cpu": ("gpu", 0, 0, 0.096),
        "left": ("", 1, 1, 0.526),
        "coming": ("gpu", 1, 1, 0.526),
    }
    prices = {name: one.price for name, one in found.items()}
    assert prices == {**{name: one.list_price for name, one in found.items()}, "spot": 1.5}
    assert not any(one.spot_unknown for one in found.values())
    (spot,) = machines(claims[:1], (), (), TYPES)
    assert (spot.price, spot.spot_unknown) == (3.673, A100.lower() not in CLOUD.list_prices(REGION).spot)
    assert [len(found[name].uses) for name in ("lost", "left")] == [1, 0]


def test_a_claim_that_was_restored_from_a_backup() -> None:
    """It has another UID than its Node, and both are one machine."""
    restored = {
        "metadata": {"name": "ws1", "uid": "new", "labels": {labels.INSTANCE_TYPE: T4}},
        "spec": {"nodeClassRef": NODE_CLASS},
        "status": {"conditions": [LAUNCHED]},
    }
    node = _node("ws1", {labels.CLAIM_UID: "old", labels.INSTANCE_TYPE: T4})
    (found,) = machines([msgspec.convert(restored, NodeClaim)], [node], (), TYPES)
    assert (found.node, found.price) == (node.name, 0.526)


@pytest.mark.parametrize(("term", "price"), [("", 3.0), ("/spot", 1.0)])
def test_a_size_that_is_not_known(term: str, price: float) -> None:
    """Its price is that of the table, spot with the price on demand unless it has one of its own."""
    table = [("Standard_nc1_x_v9", Decimal(3)), ("Standard_NC1_X_v9/spot", Decimal(1))]
    types = InstanceTypeCache(CLOUD, prices=table).in_region(REGION)
    assert types.price("", "Standard_NC1_X_v9", "spot" if term else "on-demand", "") == price
    without = InstanceTypeCache(CLOUD, prices=table[:1]).in_region(REGION)
    assert without.price("", "Standard_NC1_X_v9", "spot", "") == 3.0
    assert TYPES.price("", "Standard_NC1_X_v9", "spot", "") is None


LAUNCHED = {"type": "Launched", "status": "True", "lastTransitionTime": MOMENT}


def _node(name: str, known: Mapping[str, str], allocatable: Mapping[str, str] = EMPTY) -> Node:
    pool = {"kubernetes.azure.com/agentpool": name}
    body = {"metadata": {"name": f"aks-{name}-00000000-vmss000000", "uid": name, "labels": {**known, **pool}}}
    return msgspec.convert({**body, "status": {"allocatable": allocatable}}, Node)
