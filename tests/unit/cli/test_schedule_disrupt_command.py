"""`schedule --disrupt`: the table, the JSON and the lines that a user sees."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from provisioner.cli.main import run_command
from tests.unit.controllers.disruption.fleet import D2, D4, D16, T4, UP, Fleet, pool

SPENT = "No allowed disruptions for disruption reason Underutilized due to blocking budget"


def _run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_command(["schedule", "--disrupt", *words], {}, out, err)
    return code, out.getvalue(), err.getvalue()


def _objects(fleet: Fleet, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of a cluster as kubectl prints them."""
    found = {"NodePool": fleet.pools, "Node": fleet.nodes, "NodeClaim": fleet.claims}
    made = [(kind, json.loads(msgspec.json.encode(one))) for kind, objects in found.items() for one in objects]
    return [*({"kind": kind, **one} for kind, one in made), *more]


def _pod(name: str, node: str, cpus: str = "1", **meta: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner], **meta},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpus, "memory": "1Gi"}}}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(items: list[dict[str, Any]]) -> str:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
        return str(file)

    return written


def test_the_table_shows_what_is_disrupted_and_what_is_kept(write: Any) -> None:
    """An empty machine, one that is too large, and one whose pod must not be disrupted."""
    fleet = Fleet(pool(disruption={"consolidateAfter": "1m"})).add("empty", T4).add("large", D16).add("busy", D16)
    kept = _pod("train", "busy", annotations={"karpenter.sh/do-not-disrupt": "true"})
    code, out, _ = _run("-f", write(_objects(fleet, _pod("web", "large", "2"), kept)))
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["REASON", "DECISION", "NODES", "REPLACEMENTS", "USD/H"]
    assert lines[1].split() == ["Empty", "delete", "empty", "-", "0.526"]
    assert lines[2].split() == ["Underutilized", "delete", "large", "-", "0.768"]
    assert "2 machines would be disrupted now, which saves 1.294 USD an hour (list prices of eastus," in out
    assert lines[-1] == 'busy is kept: Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/train)'


def test_programs_read_json(write: Any) -> None:
    """The same as an object: a machine that is replaced, and its replacement."""
    code, out, _ = _run("-f", write(_objects(Fleet().add("large", D16), _pod("web", "large", "2"))), "-o", "json")
    found = json.loads(out)
    assert (code, found["blocked"]) == (0, {})
    (command,) = found["commands"]
    assert (command["reason"], command["decision"], command["nodes"]) == ("Underutilized", "replace", ["large"])
    assert [one["instanceTypes"][0] for one in command["replacements"]] == [D4]
    assert command["saving"] == pytest.approx(0.576)


def test_the_budgets_are_shared(write: Any) -> None:
    """One machine may be disrupted; the empty one is removed, so that the large one has to wait."""
    fleet = Fleet(pool(disruption={"budgets": [{"nodes": "1"}]})).add("empty", D4).add("large", D16)
    _, out, _ = _run("-f", write(_objects(fleet, _pod("web", "large", "2"))), "-o", "json")
    found = json.loads(out)
    assert [one["nodes"] for one in found["commands"]] == [["empty"]]
    assert found["blocked"] == {"large": SPENT}


def test_drifted_machines_are_replaced(write: Any) -> None:
    """Of a dynamic and of a static NodePool."""
    fleet = Fleet(pool(), pool("static", replicas=1))
    fleet.add("old", D4, up=(*UP, "Drifted")).add("fixed", D4, of="static", up=(*UP[:-1], "Drifted"))
    _, out, _ = _run("-f", write(_objects(fleet, _pod("web", "old", "3"), _pod("api", "fixed"))), "-o", "json")
    commands = {one["nodes"][0]: (one["reason"], len(one["replacements"])) for one in json.loads(out)["commands"]}
    assert commands == {"old": ("Drifted", 1), "fixed": ("Drifted", 1)}


def test_a_static_machine_whose_pods_cannot_use_its_replacement(write: Any) -> None:
    """The NodePool buys smaller machines now: what the controller keeps is not shown as replaced."""
    small = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [D2]}]
    fleet = Fleet(pool("static", replicas=1, requirements=small))
    fleet.add("fixed", D4, of="static", up=(*UP[:-1], "Drifted"))
    _, out, _ = _run("-f", write(_objects(fleet, _pod("api", "fixed", "3"))), "-o", "json")
    found = json.loads(out)
    assert found["commands"] == []
    assert found["blocked"]["fixed"].startswith("not all pods would schedule, default/api => ")


def test_each_line_is_answered_by_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario with a PodDisruptionBudget that allows no eviction, then none at all."""
    fleet = Fleet().add("large", D16)
    types = [
        {
            "name": name,
            "capacity": {"cpu": cpus, "memory": "64Gi", "pods": "110"},
            "offerings": [{"Zone": "", "CapacityType": "on-demand", "Price": price}],
        }
        for name, cpus, price in ((D4, "4", 0.192), (D16, "16", 0.768))
    ]
    encoded = _objects(fleet)
    pods = [_pod("web", "large", "2", labels={"app": "web"})]
    scenario = {
        "nodePools": [encoded[0]],
        "instanceTypes": types,
        "nodes": [{"node": encoded[1], "nodeClaim": encoded[2], "pods": pods}],
        "now": "2026-03-01T13:00:00Z",
    }
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    lines = [json.dumps({**scenario, "podDisruptionBudgets": found}) for found in ([budget], [])]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    code, out, _ = _run("--json-lines")
    first, second = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert first["commands"] == []
    assert first["blocked"] == {"large": "Pdb prevents pod evictions (PodDisruptionBudget=[default/web])"}
    assert [one["nodes"] for one in second["commands"]] == [["large"]]
    assert {*second} == {"commands", "blocked", "micros"}


@pytest.mark.parametrize(
    ("items", "words", "cause"),
    [
        ([_pod("p", "n")], (), "no NodeClaim found"),
        ([], ("--region", "West Europe"), "not the name of a region"),
        ([{"kind": "NodeClaim", "metadata": {"name": 7}}], (), "$.metadata.name"),
    ],
)
def test_bad_input_is_refused(items: list[dict[str, Any]], words: tuple[str, ...], cause: str, write: Any) -> None:
    """Exit code 2, with the cause."""
    code, out, err = _run("-f", write(items), *words)
    assert (code, out) == (2, "")
    assert cause in err


def test_manifests_are_required() -> None:
    code, _, err = _run()
    assert code == 2
    assert "Name files with -f" in err


def test_nodepools_of_other_controllers_are_left_out(write: Any) -> None:
    """Their machines are neither disrupted nor listed."""
    theirs = pool()
    reference = msgspec.structs.replace(theirs.spec.template.spec.node_class_ref, kind="AKSNodeClass")
    spec = msgspec.structs.replace(theirs.spec.template.spec, node_class_ref=reference)
    template = msgspec.structs.replace(theirs.spec.template, spec=spec)
    theirs = msgspec.structs.replace(theirs, spec=msgspec.structs.replace(theirs.spec, template=template))
    code, out, err = _run("-f", write(_objects(Fleet(theirs).add("large", D16), _pod("web", "large", "2"))))
    assert (code, out) == (0, "No machine would be disrupted now.\n")
    assert err.startswith("warning: NodePool gpu is not used: another controller serves its node class AKSNodeClass")


def test_a_budget_without_a_namespace(write: Any) -> None:
    """It is one of the namespace default, as after kubectl apply."""
    fleet = Fleet(pool(disruption={"consolidateAfter": "1m"})).add("large", D16)
    web = _pod("web", "large", "2", labels={"app": "web"})
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    _, out, _ = _run("-f", write(_objects(fleet, web, budget)))
    assert "large is kept: Pdb prevents pod evictions (PodDisruptionBudget=[default/web])" in out
