"""`schedule`: the table, the JSON and the lines that a user sees."""

import io
import json
from pathlib import Path

import pytest

from provisioner.api import labels
from provisioner.cli.main import run_command
from tests.world.demand import node_pool, pod
from tests.world.harness import Json

MANUAL = Path(__file__).parents[3] / "docs" / "how-to" / "schedule.md"


def _run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_command(["schedule", *words], {}, out, err)
    return code, out.getvalue(), err.getvalue()


def written(folder: Path, *items: Json) -> str:
    """A file with these objects, as kubectl prints them."""
    file = folder / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return str(file)


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """The manifest of the documentation: a NodePool with a taint, a Pod that tolerates it, and one that does not."""
    text = MANUAL.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    file = tmp_path / "fleet.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_the_table_shows_what_is_bought_and_what_stays_pending(fleet: str) -> None:
    """One machine for the Pod that tolerates the taint, and the taint as the cause for the other one."""
    code, out, _ = _run("-f", fleet, "--region", "eastus")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].split() == ["NODEPOOL", "TYPE", "CAPACITY", "USD/H", "PODS", "NAMES"]
    assert lines[1].split() == ["gpu", "Standard_NC4as_T4_v3", "on-demand", "0.526", "1", "default/trainer"]
    assert "1 new machine, 0.526 USD an hour (list prices of eastus," in out
    assert "default/intruder stays pending: NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)" in out


def test_node_overlays_among_the_files(fleet: str, tmp_path: Path) -> None:
    """They decide the price and the size; one that is not used is named."""
    stated = {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay"}
    size = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC24ads_A100_v4"]}
    reserved = {**stated, "metadata": {"name": "reserved"}, "spec": {"requirements": [size], "price": "0.25"}}
    wrong = {**stated, "metadata": {"name": "wrong"}, "spec": {"requirements": [], "price": "cheap"}}
    _, out, err = _run("-f", fleet, "-f", written(tmp_path, reserved, wrong), "--region", "eastus")
    assert out.splitlines()[1].split()[1:4] == ["Standard_NC24ads_A100_v4", "on-demand", "0.250"]
    assert "warning: NodeOverlay wrong is not used: spec.price: 'cheap' is not a price" in err


def test_how_spot_is_priced_is_stated(fleet: str) -> None:
    """A NodePool with both capacity types requests spot first; the price is the one on demand, and a line says so."""
    file = Path(fleet)
    requirement = "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}"
    text = file.read_text(encoding="utf-8")
    text = text.replace("requirements:\n", f"requirements:\n        {requirement}\n")
    toleration = "    - {key: kubernetes.azure.com/scalesetpriority, operator: Exists}"
    file.write_text(text.replace("  tolerations:\n", f"  tolerations:\n{toleration}\n"), encoding="utf-8")
    lines = _run("-f", fleet, "--region", "eastus")[1].splitlines()
    assert lines[1].split()[1:4] == ["Standard_NC4as_T4_v3", "spot,on-demand", "0.526"]
    assert [line for line in lines if line.startswith("Spot prices are not known: ")]


def test_daemon_sets_use_a_part_of_each_machine(fleet: str) -> None:
    """A machine is large enough for the pods of DaemonSets besides, with --disrupt or without."""
    agent = """
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  template:
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: agent, resources: {requests: {cpu: "3"}}}]
"""
    file = Path(fleet)
    file.write_text(file.read_text(encoding="utf-8") + agent, encoding="utf-8")
    lines = _run("-f", fleet, "--region", "eastus")[1].splitlines()
    assert lines[1].split()[1] == "Standard_NC8as_T4_v3"


NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: here, labels: {kubernetes.io/hostname: here}%(deleted)s}
status:
  capacity: {cpu: "4", memory: 28Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 28Gi, pods: "110"}
---
apiVersion: v1
kind: Pod
metadata: {name: full, namespace: default}
spec: {nodeName: here, containers: [{name: c, image: c, resources: {requests: {cpu: "4"}}}]}
status: {phase: %(phase)s}
"""


@pytest.mark.parametrize(
    ("deleted", "phase", "placed"),
    [
        ("", "Running", []),
        ("", "Succeeded", ["default/intruder"]),
        (", deletionTimestamp: '2026-01-01T00:00:00Z'", "Succeeded", []),
    ],
    ids=["full", "its pod has ended", "being deleted"],
)
def test_existing_nodes_count_as_in_the_controller(fleet: str, deleted: str, phase: str, placed: list[str]) -> None:
    """Pods that have ended take no room, and a Node that is being deleted offers none."""
    file = Path(fleet)
    node = NODE % {"deleted": deleted, "phase": phase}
    file.write_text(file.read_text(encoding="utf-8") + node, encoding="utf-8")
    assert json.loads(_run("-f", fleet, "-o", "json")[1])["existing"].get("here", []) == placed


def test_programs_read_json(fleet: str) -> None:
    """The same as an object."""
    code, out, _ = _run("-f", fleet, "-o", "json")
    assert code == 1
    decided = json.loads(out)
    assert decided["newNodeClaims"][0]["pods"] == ["default/trainer"]
    assert [*decided["errors"]] == ["default/intruder"]


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        ((), "eastus"),
        (("westeurope-1",), "westeurope"),
        (("westeurope-1", "westeurope-2"), "westeurope"),
        (("westeurope-1", "eastus2-1"), "eastus"),
        (("rack-1",), "eastus"),
    ],
    ids=["none", "one", "two of one region", "two regions", "no region"],
)
def test_the_zones_in_the_manifests_name_the_region(zones: tuple[str, ...], expected: str, fleet: str) -> None:
    """Sizes and prices are those of the region that the manifests are for, if they name one."""
    pods = [
        {"kind": "Pod", "metadata": {"name": zone}, "spec": {"nodeSelector": {"topology.kubernetes.io/zone": zone}}}
        for zone in zones
    ]
    Path(fleet).write_text("\n---\n".join([Path(fleet).read_text(encoding="utf-8"), *map(json.dumps, pods)]))
    assert f"(list prices of {expected}," in _run("-f", fleet)[1]
    assert "(list prices of uksouth," in _run("-f", fleet, "--region", "uksouth")[1]


@pytest.mark.parametrize("stated", [True, False])
def test_a_region_without_prices(fleet: str, *, stated: bool) -> None:
    """Its machines have no prices, and a warning states by what they are compared; zones name such a region too."""
    zone = {"kind": "Pod", "metadata": {"name": "z"}, "spec": {"nodeSelector": {"topology.kubernetes.io/zone": ZONE}}}
    if not stated:
        Path(fleet).write_text(f"{Path(fleet).read_text(encoding='utf-8')}\n---\n{json.dumps(zone)}")
    words = ("--region", "usgovvirginia") if stated else ()
    _, out, err = _run("-f", fleet, *words)
    assert "warning: no list prices of usgovvirginia are known" in err
    assert "(usgovvirginia has no list prices)" in out
    assert "USD an hour" not in out
    decided = json.loads(_run("-f", fleet, "-o", "json", *words)[1])
    assert decided["newNodeClaims"]
    assert all(one.get("price") is None for one in decided["newNodeClaims"])


ZONE = "usgovvirginia-1"


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "westeurope-1"}}},
        {
            "kind": "NodePool",
            "metadata": {"name": "cpu"},
            "spec": {
                "template": {
                    "spec": {
                        "requirements": [
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["westeurope-1"]}
                        ]
                    }
                }
            },
        },
    ],
    ids=["Node", "NodePool"],
)
def test_nodes_and_nodepools_name_the_region_too(manifest: dict[str, object], fleet: str) -> None:
    Path(fleet).write_text(f"{Path(fleet).read_text(encoding='utf-8')}\n---\n{json.dumps(manifest)}")
    assert "(list prices of westeurope," in _run("-f", fleet)[1]


def test_each_line_is_one_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are answered in order; blank ones are skipped."""
    scenario = {"pods": [{"metadata": {"name": "p"}, "spec": {"containers": []}}]}
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{json.dumps(scenario)}\n\n{json.dumps({'pods': []})}\n"))
    code, out, _ = _run("--json-lines")
    assert code == 0
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["errors"] == {"default/p": "no NodePool is ready to provision machines"}
    assert first["newNodeClaims"] == second["newNodeClaims"] == []


@pytest.mark.parametrize(
    ("body", "words", "cause"),
    [
        (
            "kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n",
            ("--region", "West Europe"),
            "not the name of a region",
        ),
        ("kind: NodePool\nmetadata: {name: p}\n", (), "no Pod and no Node found"),
        ("kind: Pod\nmetadata: {name: 7}\n", (), "$.metadata.name"),
        ("{]", (), "line 1"),
        (
            "kind: List\nitems:\n- {kind: Pod, metadata: {name: p}}\n- kind: NodePool\n  metadata: {name: x}\n"
            "  spec: {limits: {cpu: many}}\n",
            (),
            "NodePool x: cpu: 'many' is not a quantity",
        ),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path: Path, body: str, words: tuple[str, ...], cause: str) -> None:
    """The message names the object, the field or the flag; nothing is printed as a result."""
    file = tmp_path / "input.yaml"
    file.write_text(body, encoding="utf-8")
    code, out, err = _run("-f", str(file), *words)
    assert (code, out) == (2, "")
    assert cause in err


def machine(name: str, region: str = "westeurope", **labels: str) -> Json:
    """A Node with one GPU, and these labels of Karpenter."""
    of_cloud = {"node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3", "topology.kubernetes.io/region": region}
    known = {**of_cloud, **{f"karpenter.sh/{key}": value for key, value in labels.items()}}
    has = {"cpu": "3860m", "memory": "26091Mi", "nvidia.com/gpu": "1", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": known}, "status": {"allocatable": has}}


def test_the_fleet_is_the_answer_when_no_pod_is_pending(tmp_path: Path) -> None:
    """Machines of NodePools and NodeClaims, with the price of the Nodes' region and the room that their pods leave."""
    own = {"nodepool": "gpu", "initialized": "true", "capacity-type": "on-demand"}
    running, daemon = pod("t", gpus=1), pod("d", gpus=0)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon["metadata"]["ownerReferences"] = [owner]
    for one in (running, daemon):
        one["spec"]["nodeName"] = "full"
    coming = {"kind": "NodeClaim", "metadata": {"name": "gpu-2", "labels": {"karpenter.sh/nodepool": "gpu"}}}
    sizes = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC24ads_A100_v4"]}
    coming["spec"] = {"requirements": [sizes]}
    leaving = machine("old", **own)
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    system = machine("system")
    file = written(tmp_path, node_pool(), machine("full", **own), leaving, system, coming, running, daemon)
    code, out, _ = _run("-f", file)
    assert code == 0
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in out.splitlines()]
    assert [row[:7] for row in rows[1:4]] == [
        ["full", "gpu", "Standard_NC4as_T4_v3", "-", "on-demand", "0.658", "1"],
        ["gpu-2", "gpu", "Standard_NC24ads_A100_v4", "0", "on-demand", "4.775", "0"],
        ["old", "gpu", "Standard_NC4as_T4_v3", "-", "on-demand", "0.658", "0"],
    ]
    assert rows[1][7].startswith("nvidia.com/gpu 0, cpu ")
    assert rows[2][7].endswith("(no Node yet)")
    assert rows[3][7] == "is being removed"
    assert rows[-1][0].startswith("No Pod is pending. 3 machines, 6.091 USD an hour (list prices of westeurope, ")
    as_json = json.loads(_run("-f", file, "-o", "json")[1])
    assert [(one["name"], one["coming"], one["leaving"]) for one in as_json["fleet"]] == [
        ("full", False, False),
        ("gpu-2", True, False),
        ("old", False, True),
    ]
    assert as_json["fleet"][0]["room"]["nvidia.com/gpu"] == "0"


def test_the_fleet_is_not_part_of_an_answer_about_pending_pods(tmp_path: Path) -> None:
    decided = json.loads(_run("-f", written(tmp_path, node_pool(), pod("a")), "-o", "json")[1])
    assert "fleet" not in decided


def test_regions_of_nodes_that_differ_are_not_guessed(tmp_path: Path) -> None:
    """The default region has the prices."""
    own = {"nodepool": "gpu", "initialized": "true"}
    file = written(tmp_path, machine("a", **own), machine("b", "eastus", **own))
    assert "(list prices of eastus, " in _run("-f", file)[1]
    assert "(list prices of westeurope, " in _run("-f", file, "--region", "westeurope")[1]


CLASS = "kind: AgentPoolNodeClass\nmetadata: {name: other}\n"


@pytest.mark.parametrize(
    ("changed", "more", "why"),
    [
        (
            (
                'key: karpenter.azure.com/sku-gpu-count, operator: Gt, values: ["0"]',
                "key: node.kubernetes.io/instance-type, operator: In, values: [Standard_X9]",
            ),
            "",
            "spec.template.spec.requirements[node.kubernetes.io/instance-type]: Standard_X9: unknown sizes; check the",
        ),
        (
            (
                "  template:\n    spec:\n      nodeClassRef",
                "  disruption: {budgets: [{nodes: '1', schedule: '99 8 * * *', duration: 8h}]}\n"
                "  template:\n    spec:\n      nodeClassRef",
            ),
            "",
            "spec.disruption.budgets[0].schedule: 99 8 * * *: Bad minute",
        ),
        (
            ("", ""),
            CLASS,
            "AgentPoolNodeClass default is not among the manifests; add it, or correct nodeClassRef.name",
        ),
        (
            ("group: gpu-provisioner.sh, kind: AgentPoolNodeClass", "group: karpenter.azure.com, kind: AKSNodeClass"),
            "",
            "another controller serves its node class AKSNodeClass.karpenter.azure.com",
        ),
        (("spec:\n  template:", "spec:\n  replicas: 2\n  template:"), "", "spec.replicas determines its machines"),
    ],
    ids=["unknown size", "cron", "missing class", "another controller's", "static"],
)
def test_nodepools_that_are_not_used_are_named(changed: tuple[str, str], more: str, why: str, fleet: str) -> None:
    """As the controller reports it on the NodePool; nothing is bought from them."""
    text, file = Path(fleet).read_text(encoding="utf-8"), Path(fleet)
    assert changed[0] in text
    file.write_text(text.replace(*changed, 1) + (f"\n---\n{more}" if more else ""), encoding="utf-8")
    code, out, err = _run("-f", fleet)
    assert code == 1
    assert f"warning: NodePool gpu is not used: {why}" in err
    assert "default/trainer stays pending: no NodePool is ready to provision machines" in out


def test_a_pod_with_an_invalid_quantity_does_not_affect_others(fleet: str, tmp_path: Path) -> None:
    """The Pod is reported with its field; the others get their machines."""
    bad = tmp_path / "bad.yaml"
    requests = "{requests: {cpu: lots}}"
    bad.write_text(f"kind: Pod\nmetadata: {{name: b}}\nspec: {{containers: [{{resources: {requests}}}]}}\n")
    _, out, _ = _run("-f", fleet, "-f", str(bad))
    assert "default/b stays pending: invalid Pod: cpu: 'lots' is not a quantity" in out
    assert "default/trainer" in out


SLICED = """
---
apiVersion: gpu-provisioner.sh/v1alpha1
kind: AgentPoolNodeClass
metadata: {name: default}
spec: {gpu: {migProfile: MIG1g, migStrategy: Mixed}}
---
apiVersion: v1
kind: Pod
metadata: {name: slice, namespace: default}
spec:
  tolerations: [{operator: Exists}]
  containers:
    - {name: main, image: trainer, resources: {limits: {nvidia.com/mig-1g.10gb: 7}}}
"""


def test_machines_offer_what_their_node_class_states(fleet: str) -> None:
    """Slices for the Pod that requests them, and no whole GPUs for others; an error names its field."""
    file = Path(fleet)
    text = file.read_text(encoding="utf-8") + SLICED
    file.write_text(text, encoding="utf-8")
    decided = json.loads(_run("-f", fleet, "-o", "json")[1])
    (bought,) = decided["newNodeClaims"]
    assert (bought["pods"], bought["instanceTypes"][0]) == (["default/slice"], "Standard_NC24ads_A100_v4")
    assert "nvidia.com/gpu 1 requested, at most 0 on one machine" in decided["errors"]["default/trainer"]
    file.write_text(text.replace("MIG1g", "MIG9g"), encoding="utf-8")
    assert "NodePool gpu is not used: AgentPoolNodeClass default: spec.gpu.migProfile" in _run("-f", fleet)[2]


WAITING = [
    ({"spec": {"schedulingGates": [{"name": "quota"}]}}, "scheduling gate quota"),
    ({"spec": {"schedulerName": "volcano"}}, "scheduler volcano places it"),
    ({"status": {"nominatedNodeName": "n"}}, "it preempts pods of Node n"),
    ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, None),
]


@pytest.mark.parametrize(("changed", "why"), WAITING)
def test_a_pod_for_which_the_controller_buys_nothing(
    changed: dict[str, dict[str, object]], why: str | None, tmp_path: Path
) -> None:
    """It stays pending with the cause that explain states; one that is being deleted needs nothing."""
    body = pod("train")
    body |= {part: {**body.get(part, {}), **fields} for part, fields in changed.items()}
    code, out, _ = _run("-f", written(tmp_path, node_pool(), body), "-o", "json")
    decided = json.loads(out)
    assert decided["newNodeClaims"] == []
    assert decided["errors"] == ({"default/train": f"no machine is bought for it: {why}"} if why else {})
    assert code == (1 if why else 0)


def test_a_daemon_set_that_no_new_node_satisfies(fleet: str, tmp_path: Path) -> None:
    """It is left out, as by the controller; the Pods are placed."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    agent: Json = {
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"affinity": affinity, "containers": [{"name": "agent"}]}}},
    }
    _, out, err = _run("-f", fleet, "-f", written(tmp_path, agent), "--region", "eastus")
    assert err == ""
    assert "1 new machine, 0.526 USD an hour" in out


def test_a_pod_that_claims_devices(tmp_path: Path) -> None:
    """Which machine has them is not known: no other one is bought for it, and other pods get theirs."""
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]
    items = node_pool(), pod("train", gpus=0, resourceClaims=claims), pod("other")
    code, out, _ = _run("-f", written(tmp_path, *items), "-o", "json")
    decided = json.loads(out)
    assert [one["pods"] for one in decided["newNodeClaims"]] == [["default/other"]]
    assert [*decided["errors"]] == ["default/train"]
    assert "the devices of its ResourceClaims are not known" in decided["errors"]["default/train"]
    assert code == 1


def test_fields_that_are_null(tmp_path: Path) -> None:
    """They are unset, as the API server stores them: kubectl writes a creationTimestamp that is null."""
    body = pod("train", affinity=None, nodeSelector=None)
    body["metadata"]["creationTimestamp"] = body["status"] = body["spec"]["containers"][0]["ports"] = None
    code, out, err = _run("-f", written(tmp_path, node_pool(limits=None), body), "-o", "json")
    assert (code, err) == (0, "")
    assert [one["pods"] for one in json.loads(out)["newNodeClaims"]] == [["default/train"]]


def test_a_limit_in_money(tmp_path: Path) -> None:
    """It is enough for one of two machines, and `schedule` states the amounts."""
    limited = node_pool(limits={"gpu-provisioner.sh/cost-per-hour": "0.6"})
    code, out, _ = _run("-f", written(tmp_path, limited, pod("a"), pod("b")), "-o", "json")
    answer = json.loads(out)
    assert (code, len(answer["newNodeClaims"]), len(answer["errors"])) == (1, 1, 1)
    (why,) = answer["errors"].values()
    assert "gpu-provisioner.sh/cost-per-hour" in why


def test_an_object_that_is_named_twice(tmp_path: Path) -> None:
    """The last one counts, as after kubectl apply: one machine for the pod, and the later NodePool."""
    before = node_pool(limits={"nvidia.com/gpu": "0"})
    code, out, _ = _run("-f", written(tmp_path, before, node_pool(), pod("train", gpus=4), pod("train")), "-o", "json")
    (claim,) = json.loads(out)["newNodeClaims"]
    assert (code, claim["pods"], claim["requests"]["nvidia.com/gpu"]) == (0, ["default/train"], "1")


def test_an_object_without_a_name(tmp_path: Path) -> None:
    """No API server has it."""
    body = pod("")
    code, out, err = _run("-f", written(tmp_path, node_pool(), body))
    assert (code, out) == (2, "")
    assert "item 2: it is no object with a name" in err


A100 = "karpenter.azure.com/sku-gpu-name"
# A further requirement of the NodePool, GPUs and node selector of the Pod, and the alternatives: type, USD/h, why not.
INSTEAD: dict[str, tuple[Json | None, Json, list[str]]] = {
    "too few GPUs": (
        None,
        {"gpus": 2},
        [
            "Standard_NC24ads_A100_v4 3.673 it has nvidia.com/gpu 1 of 2 requested",
            "Standard_NV72ads_A10_v5 6.520 2.168 USD an hour more",
            "Standard_NC48ads_A100_v4 7.346 2.994 USD an hour more",
        ],
    ),
    "the Pod": (
        None,
        {"gpus": 1, "nodeSelector": {A100: "A100"}},
        [
            f"Standard_NV36ads_A10_v5 3.200 its pods do not allow it: {A100}",
            "Standard_NC48ads_A100_v4 7.346 3.673 USD an hour more",
            "Standard_NC96ads_A100_v4 14.692 11.019 USD an hour more",
        ],
    ),
    "the NodePool": (
        {"key": A100, "operator": "NotIn", "values": ["T4", "A10"]},
        {"gpus": 1},
        [
            f"Standard_NV36ads_A10_v5 3.200 NodePool gpu does not allow it: {A100}",
            "Standard_NC40ads_H100_v5 6.980 3.307 USD an hour more",
            "Standard_NC48ads_A100_v4 7.346 3.673 USD an hour more",
        ],
    ),
    "only one size is allowed": (
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC8as_T4_v3"]},
        {"gpus": 1},
        ["Standard_NC4as_T4_v3 0.526 NodePool gpu does not allow it: node.kubernetes.io/instance-type"],
    ),
}


@pytest.mark.parametrize("case", INSTEAD)
def test_what_could_be_bought_instead(tmp_path: Path, case: str) -> None:
    """The two cheapest that would do, and the dearest of those that cost less; people and programs see the same."""
    requirement, wanted, expected = INSTEAD[case]
    gpus = {"key": "karpenter.azure.com/sku-gpu-count", "operator": "Gt", "values": ["0"]}
    pool = node_pool("gpu", requirements=[gpus, *([requirement] if requirement else [])])
    fleet = written(tmp_path, pool, pod("worker", **wanted))
    _, out, _ = _run("-f", fleet, "--region", "eastus")
    shown = out.partition("INSTEAD OF ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [" ".join(line.split()) for line in shown] == expected
    (claim,) = json.loads(_run("-f", fleet, "--region", "eastus", "-o", "json")[1])["newNodeClaims"]
    reported = claim["alternatives"]
    assert [f"{one['instanceType']} {one['price']:.3f} {one['why']}" for one in reported] == expected


def _overlay(name: str, price: str, **required: str) -> Json:
    keys = {"size": labels.INSTANCE_TYPE, "zone": labels.ZONE, "term": labels.CAPACITY_TYPE}
    entries = [{"key": keys[key], "operator": "In", "values": [value]} for key, value in required.items()]
    spec = {"requirements": entries, "price": price}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec}


T4, T4_64, TWO_A100 = "Standard_NC8as_T4_v3", "Standard_NC64as_T4_v3", "Standard_NC48ads_A100_v4"
# What the NodePool requires besides, its limits, what the Pod selects, and an alternative that costs less or nothing.
CHEAPER: dict[str, tuple[list[Json], Json, Json, str]] = {
    "a zone of another NodePool": (
        [{"key": labels.ZONE, "operator": "In", "values": ["eastus-1"]}],
        {},
        {},
        f"{TWO_A100} 7.346 6.594 USD an hour more",
    ),
    "a zone that the Pod does not select": (
        [],
        {},
        {labels.ZONE: "eastus-1"},
        f"{TWO_A100} 7.346 6.594 USD an hour more",
    ),
    "the limits of the NodePool": (
        [],
        {"nvidia.com/gpu": 1},
        {labels.ZONE: "eastus-2"},
        f"{TWO_A100} 0.100 it exceeds spec.limits of NodePool gpu: nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("case", CHEAPER)
def test_an_alternative_has_the_price_of_its_place(tmp_path: Path, case: str) -> None:
    """An overlay states the price of one zone."""
    required, limits, selected, expected = CHEAPER[case]
    sizes = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4, TWO_A100]}
    pool = node_pool("gpu", requirements=[sizes, *required], limits=limits)
    overlay = _overlay("zone", "0.1", size=TWO_A100, zone="eastus-2")
    worker = pod("worker", gpus=1, nodeSelector=selected)
    found = json.loads(_run("-f", written(tmp_path, pool, worker, overlay), "--region", "eastus", "-o", "json")[1])
    (claim,) = found["newNodeClaims"]
    others = {
        one["instanceType"]: f"{one['instanceType']} {one['price']:.3f} {one['why']}" for one in claim["alternatives"]
    }
    assert (claim["instanceTypes"][0], others[TWO_A100]) == (T4, expected)


def test_the_sources_of_prices_are_named(tmp_path: Path) -> None:
    """NodeOverlays among them; a machine without a price is no part of the sum."""
    files = written(tmp_path, node_pool("gpu"), pod("worker", gpus=1), _overlay("half", "0.2"))
    assert (
        "1 new machine, 0.200 USD an hour (list prices of eastus, 2026-06-18, and prices of NodeOverlays)\n"
        in (_run("-f", files, "--region", "eastus")[1])
    )
