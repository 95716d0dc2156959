"""`gpu-provisioner plan` prints the agent pool and the Node of a NodeClaim, and all errors, offline."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cloudprovider.azure.agentpool import pool_name
from provisioner.api.nodeclaim import NodeClaim
from provisioner.cli.commands import plan as command
from provisioner.cli.commands.console import Console
from provisioner.cli.commands.planning import CREATED, DERIVED, PUT_TIME, UID
from provisioner.cli.commands.refusal import Refused
from provisioner.cli.installation import INSTALL_TRY
from provisioner.cli.main import run_command
from provisioner.cli.parser import parse
from provisioner.operator.azure import CLOUD
from tests.world.demand import node_class, node_pool

EXAMPLES = Path(__file__).parents[3] / "examples"
Json = dict[str, Any]
TYPE, ZONE, CAPACITY = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"


def ran(*words: str, typed: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command; `typed`: its standard input."""
    out, err = io.StringIO(), io.StringIO()
    wanted = parse(["plan", *words]).arguments
    return command.run(wanted, CLOUD, io.StringIO(typed), Console(out, err)), out.getvalue(), err.getvalue()


def planned(*bodies: Any) -> list[Json]:
    """The plans of these documents."""
    code, out, _ = ran("-f", "-", "-o", "json", typed=yaml.safe_dump_all(bodies, sort_keys=False))
    plans: list[Json] = json.loads(out)
    assert code == any(plan["errors"] for plan in plans)
    return plans


def claim(name: str = "gpu1", *, sizes: tuple[str, ...] = ("Standard_NC24ads_A100_v4",), **more: Any) -> Json:
    """A NodeClaim; `labels` and `annotations` are in its metadata, other fields in its spec."""
    spec = {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [{"key": TYPE, "operator": "In", "values": list(sizes)}],
        "resources": {"requests": {"storage": "64Gi"}},
        **{key: value for key, value in more.items() if key not in ("labels", "annotations")},
    }
    metadata: Json = {"name": name, **{key: more[key] for key in ("labels", "annotations") if key in more}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def fields(plan: Json) -> list[tuple[str, str]]:
    assert all(one["message"] and one["remedy"] for one in plan["errors"])
    return [(one["field"], one["value"]) for one in plan["errors"]]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_example_is_planned(path: Path) -> None:
    """Exit code 0 without settings, with an agent pool and a Node; all formats have the same content."""
    out, err = io.StringIO(), io.StringIO()
    assert run_command(["plan", "-f", str(path)], {}, out, err) == 0
    assert err.getvalue() == ""
    assert out.getvalue().splitlines()[-1] == "1 NodeClaim; no errors"
    as_json = json.loads(ran("-f", str(path), "-o", "json")[1])
    assert as_json == yaml.safe_load(ran("-f", str(path), "-o", "yaml")[1])
    (plan,) = as_json
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    assert (plan["name"], plan["poolName"], plan["managed"]) == (name, name, True)
    assert plan["agentPool"]["properties"]["vmSize"] == plan["offerings"][0]["size"]


NODE_CLASS = {
    "apiVersion": "gpu-provisioner.sh/v1alpha1",
    "kind": "AgentPoolNodeClass",
    "metadata": {"name": "mig"},
    "spec": {"maxPods": 50, "gpu": {"migProfile": "MIG1g"}},
}
CLASS_REF = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "mig"}


def test_the_agent_pool_has_the_fields_of_its_node_class() -> None:
    """A class of the same files is used, wherever it stands; without it the defaults are, with a note."""
    plan, _ = planned(claim(nodeClassRef=CLASS_REF), NODE_CLASS)
    properties = plan["agentPool"]["properties"]
    assert (properties["maxPods"], properties["gpuInstanceProfile"]) == (50, "MIG1g")
    assert (plan["node"]["gpus"]["resource"], plan["node"]["gpus"]["count"]) == ("nvidia.com/gpu", 7)
    assert not any("AgentPoolNodeClass" in note for note in plan["notes"])
    (alone,) = planned(claim(nodeClassRef=CLASS_REF))
    assert "maxPods" not in alone["agentPool"]["properties"]
    assert "AgentPoolNodeClass mig is not in these files" in alone["notes"][0]


def test_errors_of_a_node_class() -> None:
    """Fields that its CRD refuses, and fields that contradict the size of a claim."""
    (wrong, _) = planned({**NODE_CLASS, "spec": {"maxPods": 5, "osDisk": 1}}, claim(nodeClassRef=CLASS_REF))
    assert [field for field, _ in fields(wrong)] == ["spec.maxPods", "spec.osDisk"]
    _, plan = planned(NODE_CLASS, claim(sizes=("Standard_NC4as_T4_v3",), nodeClassRef=CLASS_REF))
    assert fields(plan) == [("AgentPoolNodeClass.spec.gpu.migProfile", "MIG1g")]
    assert plan["agentPool"] is None


@pytest.mark.parametrize("path", sorted((EXAMPLES / "nodepools").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_node_pools_of_the_examples_have_sizes(path: Path) -> None:
    code, out, _ = ran("-f", str(path), "-o", "json")
    plans = json.loads(out)
    assert (code, [plan["errors"] for plan in plans]) == (0, [[] for _ in plans])
    assert all(plan["sizes"] for plan in plans if plan["kind"] == "NodePool")


NODE_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: trainers
spec:
  limits: {nodes: 3}
  disruption:
    budgets:
      - nodes: "10%"
        schedule: 0 8 * * mon-fri
        duration: 10h
    consolidateAfter: 5m
  template:
    spec:
      nodeClassRef: {group: gpu-provisioner.sh, kind: AgentPoolNodeClass, name: mig}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [Standard_NC24ads_A100_v4]
"""
COST = "gpu-provisioner.sh/cost-per-hour"
# What is written instead, the line and the field of the error, and a part of its message or remedy.
POOL_ERRORS = [
    ("nodes: 3}", "nodes: 3}\n  limit: 3", 7, "spec.limit", "write limits"),
    ("nodes: 3}", "cpu: 9223372036854775808}", 6, "spec.limits.cpu", "should be less than or equal to"),
    ("{nodes: 3}", "{nodes: many}", 6, "spec.limits.nodes", "write a quantity"),
    ("nodes: 3}", f'{COST}: "-1"}}', 6, f"spec.limits[{COST}]", "write USD an hour of 0 or more"),
    ("nodes: 3}", f"{COST}: 12.5}}", 6, f"spec.limits.{COST}", "integer,string"),
    ("nodes: 3}", f"{COST}: $12}}", 6, f"spec.limits.{COST}", "$12"),
    (
        "name: trainers",
        f'name: trainers\n  annotations: {{{COST}: "12.5"}}',
        5,
        f"metadata.annotations[{COST}]",
        f"write spec.limits[{COST}] instead",
    ),
    ("0 8 * * mon-fri", "0 25 * * mon-fri", 10, "spec.disruption.budgets[0].schedule", "Bad hour"),
    ("10h", "10 hours", 11, "spec.disruption.budgets[0].duration", "10 hours"),
    ("consolidateAfter: 5m", "consolidateAfter: 5minutes", 12, "spec.disruption.consolidateAfter", "5minutes"),
    ("ads_A100_v4", "", 17, f"spec.template.spec.requirements[{TYPE}]", "did you mean Standard_NC24ads_A100_v4?"),
    ("operator: In", "operator: Inn", 18, "spec.template.spec.requirements[0].operator", "NotIn"),
    (f"key: {TYPE}", "key: kubernetes.io/hostname", 17, "spec.template.spec.requirements[0].key", "is restricted"),
    ("name: trainers", "labels: {}", 4, "metadata.name", "add it"),
]


@pytest.mark.parametrize(
    ("given", "written", "line", "field", "text"), POOL_ERRORS, ids=[row[3] for row in POOL_ERRORS]
)
def test_errors_of_a_node_pool(given: str, written: str, line: int, field: str, text: str) -> None:
    """Each with its line: those of the API server, then those of the controller."""
    assert given in NODE_POOL
    code, out, _ = ran("-f", "-", typed=NODE_POOL.replace(given, written))
    assert code == 1
    assert f"line {line}: {field}: " in out
    assert text in out


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ('{requirements: [], price: "1", priceAdjustment: "-5%"}', "spec"),
        ("{requirements: [], price: cheap}", "spec.price"),
        ('{requirements: [{key: a, operator: Gt, values: [b]}], price: "1"}', "spec.requirements"),
        ('{requirements: [], price: "1"}', ""),
    ],
)
def test_errors_of_a_node_overlay(spec: str, field: str) -> None:
    head = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: agreement}\nspec: "
    code, out, _ = ran("-f", "-", "-o", "json", typed=head + spec)
    (plan,) = json.loads(out)
    assert code == bool(field)
    assert (plan["kind"], plan["name"]) == ("NodeOverlay", "agreement")
    assert [one["field"] for one in plan["errors"]][:1] == ([field] if field else [])


@pytest.mark.parametrize(
    ("body", "nulls"),
    [
        (NODE_CLASS, {"metadata": {"name": None}}),
        (NODE_CLASS, {"spec": {"gpu": None}}),
        (yaml.safe_load(NODE_POOL), {"spec": {**yaml.safe_load(NODE_POOL)["spec"], "limits": None}}),
    ],
)
def test_a_field_that_is_null_is_unset(body: Json, nulls: Json) -> None:
    """As for the API server: it is an error only if the field is required, and all else is planned."""
    (plan,) = planned({**body, **nulls})
    assert [error["field"] for error in plan["errors"]] == ["metadata.name"] * ("metadata" in nulls)
    assert bool(plan["sizes"]) is (plan["kind"] == "NodePool")


def test_no_size_satisfies_a_node_pool() -> None:
    """An error in the region that is named, or that its zones determine; otherwise a note."""
    gpus = NODE_POOL.replace(TYPE, "karpenter.azure.com/sku-gpu-count").replace("Standard_NC24ads_A100_v4", '"7"')
    code, out, _ = ran("-f", "-", typed=gpus)
    assert (code, "name the region of the cluster with --region" in out) == (0, True)
    code, out, _ = ran("-f", "-", "--region", "westeurope", typed=gpus)
    assert (code, "In [7]: no size of westeurope has such a value" in out, "use 0, 1, 2," in out) == (1, True, True)
    several = "        - {key: karpenter.azure.com/sku-gpu-name, operator: In, values: [H1000]}\n"
    code, out, _ = ran("-f", "-", "--region", "westeurope", typed=gpus + several)
    assert (code, "no GPU or CPU size of westeurope satisfies all requirements" in out) == (1, True)


def test_a_node_pool_of_another_controller_is_ignored() -> None:
    code, out, _ = ran(
        "-f", "-", typed=NODE_POOL.replace("gpu-provisioner.sh, kind: AgentPool", "karpenter.azure.com, kind: AKS")
    )
    ignored = "ignored: its spec.template.spec.nodeClassRef is karpenter.azure.com/AKSNodeClass, which another"
    assert (code, ignored in out, out.endswith("1 ignored; no errors\n")) == (0, True, True)


def test_unknown_values_are_placeholders() -> None:
    """UID and times of a manifest; those of an existing object are used."""
    (plan,) = planned(claim())
    pool = plan["agentPool"]["properties"]
    assert pool["tags"] == {
        "gpu-provisioner_nodeclaim": "gpu1",
        "gpu-provisioner_nodeclaim-uid": UID,
        "gpu-provisioner_put-time": PUT_TIME,
    }
    assert pool["nodeLabels"]["gpu-provisioner.sh/nodeclaim-uid"] == UID
    assert pool["nodeLabels"]["kaito.sh/creation-timestamp"] == CREATED
    assert any("unknown before its creation" in note for note in plan["notes"])

    there = claim()
    there["metadata"] |= {"uid": "0a0a", "creationTimestamp": "2026-03-01T12:00:00Z", "generation": 1}
    (plan,) = planned(there)
    pool = plan["agentPool"]["properties"]
    assert pool["tags"]["gpu-provisioner_nodeclaim-uid"] == "0a0a"
    assert pool["nodeLabels"]["kaito.sh/creation-timestamp"] == "2026-03-01T12-00-00Z"
    assert pool["tags"]["gpu-provisioner_put-time"] == PUT_TIME
    assert plan["notes"] == []


NAMES = [
    ({"name": "gpu1"}, "gpu1"),
    ({"name": "a-long-name"}, DERIVED),
    ({"generateName": "ws"}, "ws<5 characters>"),
    ({"generateName": "my-claim-"}, DERIVED),
]


@pytest.mark.parametrize(("given", "name"), NAMES)
def test_the_pool_name(given: Json, name: str) -> None:
    """The name of the claim if AKS allows it, otherwise a name derived from the UID."""
    made = claim()
    made["metadata"] = given
    (plan,) = planned(made)
    assert plan["errors"] == []
    assert plan["poolName"] == name
    noted = any("is not a valid name of an agent pool" in note for note in plan["notes"])
    assert noted == (name == DERIVED)
    made["metadata"] = {"name": "a-long-name", "uid": "0a0a", "creationTimestamp": "2026-03-01T12:00:00Z"}
    (plan,) = planned(made)
    assert plan["poolName"] == pool_name(msgspec.convert(made, NodeClaim))


@pytest.mark.parametrize("kind", ["NodePool", "NodeOverlay", "AgentPoolNodeClass"])
def test_a_generated_name(kind: str) -> None:
    """As kubectl create accepts it, of whatever kind."""
    bodies: dict[str, Json] = {
        "NodePool": node_pool(),
        "AgentPoolNodeClass": node_class(),
        "NodeOverlay": {"apiVersion": "karpenter.sh/v1alpha1", "spec": {"requirements": [], "price": "1"}},
    }
    (plan,) = planned({**bodies[kind], "kind": kind, "metadata": {"generateName": "gpu-"}})
    assert (plan["errors"], plan["name"]) == ([], "gpu-<5 characters>")


def test_offerings_are_listed_in_the_order_of_tries() -> None:
    """By size, then capacity type, then zone; the PUT is that of the first one."""
    requirements = [
        {"key": TYPE, "operator": "In", "values": ["Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3"]},
        {"key": ZONE, "operator": "In", "values": ["westeurope-2", "westeurope-1"]},
        {"key": CAPACITY, "operator": "In", "values": ["spot", "on-demand"]},
    ]
    (plan,) = planned(claim(requirements=requirements))
    tries = [(one["size"], one["zone"], one["capacityType"]) for one in plan["offerings"]]
    assert tries[:3] == [
        ("Standard_NC24ads_A100_v4", "2", "spot"),
        ("Standard_NC24ads_A100_v4", "1", "spot"),
        ("Standard_NC24ads_A100_v4", "2", "on-demand"),
    ]
    assert len(tries) == 8
    pool = plan["agentPool"]["properties"]
    assert (pool["availabilityZones"], pool["scaleSetPriority"]) == (["2"], "Spot")
    assert plan["node"]["taints"] == ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]
    assert plan["node"]["labels"]["kubernetes.azure.com/scalesetpriority"] == "spot"
    _, text, _ = ran("-f", "-", typed=yaml.safe_dump(claim(requirements=requirements)))
    assert "1. Standard_NC24ads_A100_v4 in zone 2 (spot)" in text
    assert "8. Standard_NC4as_T4_v3 in zone 1" in text


def test_the_planned_node() -> None:
    """Taints, startup taints, GPUs, disk and image."""
    taint = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
    made = claim(
        sizes=("Standard_ND96isr_MI300X_v5",), taints=[taint], startupTaints=[{"key": "warm", "effect": "NoExecute"}]
    )
    (plan,) = planned(made)
    node = plan["node"]
    assert (node["taints"], node["startupTaints"]) == (["sku=gpu:NoSchedule"], ["warm:NoExecute"])
    assert node["gpus"] == {"resource": "amd.com/gpu", "count": 8, "model": "MI300X", "memoryGb": 1535, "awaited": True}
    assert (node["osDiskGib"], node["imageFamily"]) == (64, "Ubuntu")
    assert plan["agentPool"]["properties"]["gpuProfile"] == {"driver": "None"}
    assert plan["agentPool"]["properties"]["nodeTaints"] == ["sku=gpu:NoSchedule"]
    (plan,) = planned(claim(annotations={"gpu-provisioner.sh/gpu-readiness": "report"}))
    assert plan["node"]["gpus"]["awaited"] is False


NOTES = [
    (claim(sizes=("Standard_NC999_v9",)), "Standard_NC999_v9: unknown number of GPUs"),
    (
        claim(labels={"node-role.kubernetes.io/gpu": ""}),
        "metadata.labels[node-role.kubernetes.io/gpu]: not copied to the Node",
    ),
    (claim(labels={ZONE: "westeurope-1"}), f"metadata.labels[{ZONE}]: not copied to the Node"),
    (claim(annotations={"kaito.sh/node-image-family": "windows"}), "'windows' is not one of ubuntu or"),
    (
        claim(resources={"requests": {"nvidia.com/gpu": 8}}),
        "spec.resources.requests[nvidia.com/gpu]: 8 requested, Standard_NC24ads_A100_v4 has 1",
    ),
    (
        claim(
            requirements=[
                {"key": TYPE, "operator": "In", "values": ["Standard_D4s_v5"]},
                {"key": "beta.kubernetes.io/hostname", "operator": "In", "values": ["a"]},
            ]
        ),
        "spec.requirements[beta.kubernetes.io/hostname]: no effect",
    ),
]


@pytest.mark.parametrize(("made", "note"), NOTES, ids=[row[1][:40] for row in NOTES])
def test_unexpected_effects_are_noted(made: Json, note: str) -> None:
    """Notes do not change the exit code."""
    (plan,) = planned(made)
    assert plan["errors"] == []
    assert any(note in one for one in plan["notes"])


def test_all_errors_are_reported_at_once() -> None:
    """Errors of schema, rules, requirements, labels, taints and storage have a field, a value and a remedy."""
    made = claim(
        labels={"agentpool": "mine", "app.kubernetes.io/name": "x", "example.com/t": "a b"},
        requirements=[
            {"key": TYPE, "operator": "In", "values": ["p4d.24xlarge"]},
            {"key": ZONE, "operator": "In", "values": ["nowhere"]},
            {"key": "karpenter.sh/x", "operator": "Exists"},
        ],
        resources={"requests": {"storage": "5Ti"}},
        taints=[{"key": "kubernetes.azure.com/x", "effect": "NoSchedule"}],
        terminationGracePeriod="1d",
        zone=1,
    )
    (plan,) = planned(made)
    assert fields(plan) == [
        ("spec.requirements[2].key", "karpenter.sh/x"),
        ("spec.terminationGracePeriod", "1d"),
        ("spec.zone", "1"),
        (f"spec.requirements[{TYPE}]", "p4d.24xlarge"),
        (f"spec.requirements[{ZONE}]", "nowhere"),
        ("spec.resources.requests.storage", "5Ti"),
        ("metadata.labels[agentpool]", "mine"),
        ("metadata.labels[app.kubernetes.io/name]", "x"),
        ("metadata.labels[example.com/t]", "a b"),
        ("spec.taints[0]", "kubernetes.azure.com/x:NoSchedule"),
    ]
    assert plan["agentPool"] is None


def test_objects_that_are_not_managed_are_noted() -> None:
    """Claims of other node classes without KAITO's labels, and other kinds."""
    theirs = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    foreign, kaito = claim(nodeClassRef=theirs), claim("gpu2", nodeClassRef=theirs, labels={"kaito.sh/workspace": "w"})
    plans = planned(foreign, kaito, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}, 7)
    assert [plan["managed"] for plan in plans] == [False, True, False, False]
    assert "ignored: its spec.nodeClassRef is karpenter.azure.com/AKSNodeClass" in plans[0]["notes"][0]
    assert plans[0]["agentPool"] is None
    assert plans[2]["notes"] == ["ignored: the document is Deployment"]
    assert not any(plan["errors"] for plan in plans)


def test_manifests_are_read_from_files_directories_and_stdin(tmp_path: Path) -> None:
    """Each plan names its source; a duplicate name is an error."""
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([claim("a1"), None, claim("a2")]))
    (tmp_path / "b.json").write_text(json.dumps({"kind": "List", "items": [claim("b1"), claim("a1")]}))
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "below").mkdir()
    code, out, _ = ran("-f", str(tmp_path), "-f", "-", "-o", "json", typed=json.dumps(claim("s1")))
    plans = json.loads(out)
    assert [(plan["source"].removeprefix(f"{tmp_path}/"), plan["name"]) for plan in plans] == [
        ("a.yaml, document 1", "a1"),
        ("a.yaml, document 3", "a2"),
        ("b.json, item 1", "b1"),
        ("b.json, item 2", "a1"),
        ("standard input", "s1"),
    ]
    assert code == 1
    assert [fields(plan) for plan in plans] == [[], [], [], [("metadata.name", "a1")], []]
    assert plans[3]["errors"][0]["message"].endswith("a.yaml, document 1")


UNREADABLE = ["{ broken", "a: [1\n", "\t", "a: !!python/object:os.system x"]


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:12])
def test_a_malformed_document_is_an_error(text: str) -> None:
    """The error has its position, and previous documents are planned."""
    code, out, err = ran("-f", "-", "-o", "json", typed=f"{json.dumps(claim())}\n---\n{text}\n")
    first, second = json.loads(out)
    assert (code, err) == (1, "")
    assert first["errors"] == []
    assert second["source"] == "standard input, document 2"
    assert second["errors"][0]["message"].startswith("invalid document: ")


NO_CLAIMS: list[Any] = [None, "", 7, [], {"kind": "Deployment"}]


@pytest.mark.parametrize("body", NO_CLAIMS, ids=str)
def test_input_without_a_nodeclaim_is_rejected(body: Any) -> None:
    """So that a pipeline with a wrong file name fails."""
    with pytest.raises(Refused) as refused:
        ran("-f", "-", typed=yaml.safe_dump(body) if body is not None else "")
    assert refused.value.code == 2


BAD_USAGE = [
    ((), "the following arguments are required: -f/--file"),
    (("-f", "/nowhere/claim.yaml"), "/nowhere/claim.yaml: No such file or directory"),
    (("-f", "{tmp}"), "no file with the suffix .yaml, .yml, .json"),
    (("-f", "{tmp}/bytes.bin"), "it is not text in UTF-8"),
    (("-f", "x", "-o", "xml"), "invalid choice: 'xml'"),
    (("-f", "x", "--subscription-id", "y"), "unrecognized arguments: --subscription-id y"),
]


@pytest.mark.parametrize(("words", "cause"), BAD_USAGE, ids=[row[1][:30] for row in BAD_USAGE])
def test_invalid_usage_is_rejected(words: tuple[str, ...], cause: str, tmp_path: Path) -> None:
    """Exit code 2, with cause and remedy on stderr."""
    (tmp_path / "bytes.bin").write_bytes(b"\xff\xfe\x00")
    out, err = io.StringIO(), io.StringIO()
    code = run_command(["plan", *(word.replace("{tmp}", str(tmp_path)) for word in words)], {}, out, err)
    assert (code, out.getvalue()) == (2, "")
    assert cause in err.getvalue()
    assert "Traceback" not in err.getvalue()


JUNK: list[Any] = [
    {"kind": "NodeClaim"},
    {"kind": "NodeClaim", "metadata": 7, "spec": []},
    {
        "kind": "NodeClaim",
        "apiVersion": "karpenter.sh/v1beta1",
        "metadata": {"name": ["x"]},
        "spec": {"requirements": {}},
    },
    {"kind": "NodeClaim", "apiVersion": 1, "metadata": {"labels": {"a": 1}}, "spec": {"nodeClassRef": None}},
    {"kind": "NodeClaim", 7: True, "metadata": {"name": "x", "labels": [], "creationTimestamp": "never"}, "spec": None},
]


@pytest.mark.parametrize("body", JUNK, ids=[str(number) for number in range(len(JUNK))])
def test_malformed_claims_are_errors(body: Any) -> None:
    """With a remedy and without a traceback."""
    (plan,) = planned(body)
    assert fields(plan)
    assert plan["agentPool"] is None


def test_a_missing_library_is_reported() -> None:
    """One line for the cause, one for the remedy, exit code 2."""
    script = (
        "import os, sys; sys.modules['jsonschema_rs'] = None; from provisioner.cli.main import run_command;"
        " sys.exit(run_command(['plan', '-f', 'x'], os.environ, sys.stdout, sys.stderr))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "gpu-provisioner plan: the package aks-gpu-provisioner-try is not installed (no module jsonschema_rs)\n"
        f"    {INSTALL_TRY}\n"
    )
