"""`cost -f`: the costs of the objects in files, as a user reads them."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from provisioner.api import labels
from provisioner.cli.main import run_command
from tests.unit.controllers.disruption.fleet import A100, T4, Fleet, pool
from tests.world.demand import pod


@pytest.fixture
def costs(tmp_path: Path) -> Any:
    """Runs the command on these objects, in a file."""

    def run(*words: str, items: list[Any]) -> tuple[int, str, str]:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        code = run_command(["cost", *words, "-f", str(file)], {}, out, err)
        return code, out.getvalue(), err.getvalue()

    return run


def _objects(fleet: Fleet) -> list[Any]:
    found = {"NodePool": fleet.pools, "NodeClaim": fleet.claims}
    return [{**json.loads(msgspec.json.encode(one)), "kind": kind} for kind, all_of in found.items() for one in all_of]


def test_the_costs_of_files(costs: Any) -> None:
    """With prices of the command line; machines whose Node is not in the files count as well."""
    items = _objects(Fleet(pool("a"), pool("b")).add("one", A100, of="a").add("two", T4, of="b"))
    code, out, err = costs("--prices", f"{A100}=2", "-o", "yaml", items=[*items, pod("waits")])
    assert (code, err) == (0, "")
    found = yaml.safe_load(out)
    rows = [(row["name"], row["perHour"], row["perDay"], row["savedPerHour"]) for row in found["rows"]]
    assert rows == [("a", 2.0, 48.0, 1.673), ("b", 0.526, 12.624, 0.0)]
    assert found["prices"] == "list prices of eastus, 2026-06-18, and prices of --prices"
    assert found["notes"] == ["No Node names its region: prices are those of eastus."]


def test_files_without_a_machine(costs: Any) -> None:
    """A NodePool without machines costs nothing."""
    code, out, err = costs("--by", "namespace", items=_objects(Fleet()))
    assert (code, out, err) == (0, "No machine of this controller runs: nothing is paid.\n", "")


# It has list prices in other regions than that of the test.
H200 = "Standard_ND96isr_H200_v5"


def _overlay(price: str, key: str, value: str) -> Any:
    spec = {"requirements": [{"key": key, "operator": "In", "values": [value]}], "price": price}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": price}, "spec": spec}


@pytest.mark.parametrize(
    ("words", "more"),
    [(("--prices", f"{H200}=80"), []), ((), [_overlay("80", labels.INSTANCE_TYPE, H200)])],
    ids=["--prices", "NodeOverlay"],
)
def test_a_stated_price_of_a_size_that_the_list_has_elsewhere(costs: Any, words: tuple[str, ...], more: Any) -> None:
    """The machine exists, so its region has the size."""
    code, out, _ = costs(*words, "-o", "yaml", items=[*_objects(Fleet(pool("a")).add("one", H200, of="a")), *more])
    total = yaml.safe_load(out)["total"]
    assert (code, total["perHour"], total["unpriced"]) == (0, 80.0, 0)


@pytest.mark.parametrize(("cluster", "price"), [("MC_this", 0.1), ("MC_other", 3.673)])
def test_an_overlay_of_one_cluster(costs: Any, cluster: str, price: float) -> None:
    """It has the label that AKS gives all Nodes of that cluster."""
    known = {"agentpool": "system", labels.OS: "linux", "kubernetes.azure.com/cluster": "MC_this"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "system", "labels": known}}
    items = _objects(Fleet(pool("a")).add("one", A100, of="a"))
    overlay = _overlay("0.1", "kubernetes.azure.com/cluster", cluster)
    code, out, _ = costs("-o", "yaml", items=[*items, node, overlay])
    assert (code, yaml.safe_load(out)["total"]["perHour"]) == (0, price)


def test_a_price_of_a_mistyped_size(costs: Any) -> None:
    """Without the warning, the list price counts silently."""
    items = _objects(Fleet(pool("a")).add("one", A100, of="a"))
    _, _, err = costs("--prices", "Standard_NC24ads_A100v4=2,Standard_NC24ads_A100v4/spot=1", items=items)
    why = "PRICES has a price of Standard_NC24ads_A100v4, which is not a known VM size"
    assert err == f"warning: {why}; did you mean {A100}?\n"
