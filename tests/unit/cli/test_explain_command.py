"""`explain -f`: the answers about objects in files, as a user reads them."""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from provisioner.api.time import rfc3339
from provisioner.cli.commands.explain import target
from provisioner.cli.commands.refusal import Refused
from provisioner.cli.main import run_command
from tests.unit.controllers.disruption.fleet import D4, T4, UP, Fleet, pool
from tests.world.demand import node_class, node_pool, pod
from tests.world.harness import node_claim

A100 = "Standard_NC24ads_A100_v4"
SIZE = "node.kubernetes.io/instance-type"
AZURE = "agent pools, quota and VM sizes of Azure: not read for objects in files"


def sized(name: str, *sizes: str, **spec: Any) -> Any:
    """A NodePool of these sizes, Ready as far as its file tells."""
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*sizes]}
    return node_pool(name, requirements=[wanted], **spec)


@pytest.fixture
def explained(tmp_path: Path) -> Any:
    """Runs the command on these objects, in a file."""

    def run(*words: str, items: list[Any]) -> tuple[int, str, str]:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        code = run_command(["explain", *words, "-f", str(file)], {}, out, err)
        return code, out.getvalue(), err.getvalue()

    return run


POOLS = [node_class(), sized("a100", A100), sized("t4", T4, weight=5), sized("none", "Standard_D4s_v5")]


def test_a_pod_that_gets_a_machine(explained: Any) -> None:
    """Its machine with the price comes first, then what each NodePool would buy, or why it buys nothing."""
    code, out, err = explained("train", items=[*POOLS, pod("train")])
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:5] == [
        f"Pod default/train: would run on a new {T4}, 0.526 USD/h from NodePool t4",
        "",
        "Zones:   any",
        "Prices:  list prices of eastus, 2026-06-18",
        "NodePools:",
    ]
    assert lines[5] == f"  a100  3.673 USD/h, for a {A100}"
    assert lines[6].startswith("  none  no instance type with an available offering satisfies its requirements")
    assert f"  t4    0.526 USD/h, for a {T4}, weight 5" in lines
    assert f"  {AZURE}" in lines
    assert max(map(len, lines)) <= 100


def test_a_pod_with_stated_prices(explained: Any) -> None:
    """NodeOverlays decide, and the answer states that there are some."""
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "half"},
        "spec": {"requirements": [], "priceAdjustment": "-50%"},
    }
    code, out, err = explained("train", items=[*POOLS, overlay, pod("train")])
    assert (code, err) == (0, "")
    assert f"would run on a new {T4}, 0.263 USD/h from NodePool t4" in out
    assert "Prices:  list prices of eastus, 2026-06-18, and prices of NodeOverlays" in out


PENDING = [
    (pod("train", tolerates=False), "did not tolerate taint (taint=sku=gpu:NoSchedule)"),
    (pod("train", gpus=16), "nvidia.com/gpu 16 requested, at most 1 on one machine"),
    (pod("train", nodeSelector={"team": "web"}), "incompatible requirements: team In [web], the NodePool has In [ml]"),
]


@pytest.mark.parametrize(("body", "why"), PENDING)
def test_a_pod_without_a_machine(explained: Any, body: Any, why: str) -> None:
    """Each NodePool has its own reason."""
    code, out, _ = explained("pod/default/train", items=[*POOLS, body])
    assert code == 0
    assert out.startswith("Pod default/train: stays pending: no NodePool has a machine for it\n")
    assert why in " ".join(out.split())


NOT_CONSIDERED = [
    ({"schedulingGates": [{"name": "quota"}]}, "scheduling gate quota"),
    ({"schedulerName": "volcano"}, "scheduler volcano places it"),
    ({"nodeName": "other"}, ""),
]


@pytest.mark.parametrize(("spec", "why"), NOT_CONSIDERED)
def test_a_pod_that_needs_no_decision(explained: Any, spec: Any, why: str) -> None:
    """A pod that waits for something else than a machine, and one on a Node."""
    _, out, _ = explained("-n", "default", "po/train", items=[*POOLS, pod("train", **spec)])
    expected = f"no machine is bought for it: {why}" if why else "is on Node other"
    assert out.splitlines()[0] == f"Pod default/train: {expected}"


def test_without_node_pools(explained: Any) -> None:
    """A controller with this setting buys and disrupts nothing: no machine is announced, and the setting is named."""
    disabled = "NodePools are disabled by --node-pools, NODE_POOLS or nodePools.enabled of the chart"
    items = [*POOLS, pod("train"), pod("web", nodeName="other")]
    for name, answer in (
        ("pod/train", f"Pod default/train: no machine is bought for it: {disabled}"),
        ("np/t4", f"NodePool t4: ignored, {disabled}"),
        ("pod/web", "Pod default/web: is on Node other"),
    ):
        _, out, _ = explained(name, "--node-pools=false", items=items)
        assert " ".join(out.partition("\n\n")[0].split()) == answer


def test_a_pod_with_room_on_a_claim(explained: Any) -> None:
    """A NodeClaim that is on its way has room: no other machine is bought, and the answer is what it waits for."""
    claim = node_claim("a100-1", size=A100, labels={}) | {"status": {"conditions": [condition("Launched", "Creating")]}}
    _, out, _ = explained("train", items=[*POOLS, claim, pod("train")])
    first = "Pod default/train: has room on nodeclaim/a100-1, waiting for AKS to create the agent pool (since 3m1"
    assert " ".join(out.split()).startswith(first)


def condition(kind: str, reason: str, status: str = "Unknown", minutes: float = 3.17) -> dict[str, str]:
    at = rfc3339(datetime.now(UTC) - timedelta(minutes=minutes))
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at, "message": f"about {reason}"}


def test_a_claim_that_waits_for_its_node(explained: Any) -> None:
    """The headline has what it waits for, since when, and the deadline that the rules set."""
    conditions = [condition("Launched", "Launched", "True"), condition("Registered", "NodeNotFound")]
    code, out, _ = explained("nc/ws1", items=[node_claim("ws1", size=A100) | {"status": {"conditions": conditions}}])
    assert code == 0
    times = r"since 3m1\ds, deadline in 11m4\ds"
    assert re.fullmatch(rf"NodeClaim ws1: waiting for the Node \({times}\)", out.splitlines()[0])
    assert "Why:         Registered is Unknown, NodeNotFound: about NodeNotFound\n" in out
    assert "Agent pool:  ws1, not read\n" in out


def test_a_claim_of_another_controller(explained: Any) -> None:
    """It is said, and nothing else is computed."""
    body = node_claim("ws1", nodeClassRef={"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "d"})
    body["metadata"]["labels"] = {}
    _, out, _ = explained("ws1", items=[body])
    ignored = "ignored, another controller serves its nodeClassRef karpenter.azure.com/AKSNodeClass"
    assert out == f"NodeClaim ws1: {ignored}\n\n"


def test_a_nodepool(explained: Any) -> None:
    """What each machine costs and why it stays; the empty one would be removed."""
    fleet = Fleet(pool(disruption={"consolidateAfter": "1m"})).add("empty", T4).add("busy", D4)
    web = pod("web", gpus=0, nodeName="busy") | {"status": {"phase": "Running"}}
    web["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    code, out, err = explained(f"np/{fleet.pools[0].name}", "-o", "json", items=[*objects(fleet), web])
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["answer"].endswith("; 1 would be disrupted now")
    machines = {one["name"]: one["why"] for one in answer["parts"]["machines"]}
    assert machines["empty"] == "would be removed now: Empty"
    assert 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/web)' in machines["busy"]
    assert [one["name"] for one in answer["parts"]["disruptionNow"]] == ["Empty"]


def test_a_price_that_is_not_known(explained: Any) -> None:
    """A machine without a known price, as before its launch, costs something; the sum does not pretend otherwise."""
    fleet = Fleet(pool()).add("a", T4).add("new", T4, up=(), labels={"node.kubernetes.io/instance-type": ""})
    _, out, _ = explained("np/gpu", items=objects(fleet))
    assert out.startswith("NodePool gpu: 2 machines, 0.526 USD/h, 1 of unknown price; ")


def test_a_limit_in_money(explained: Any) -> None:
    """Of a static NodePool it is an annotation; its status states what its machines cost."""
    limited, key = pool(replicas=1), "gpu-provisioner.sh/cost-per-hour"
    meta = msgspec.structs.replace(limited.metadata, annotations={**limited.metadata.annotations, key: "12.5"})
    status = msgspec.structs.replace(limited.status, resources={key: "0.526"})
    limited = msgspec.structs.replace(limited, metadata=meta, status=status)
    _, out, _ = explained("np/gpu", items=objects(Fleet(limited).add("a", T4)))
    assert "gpu-provisioner.sh/cost-per-hour 0.526 of 12.5" in out


def test_a_nodepool_beside_one_that_cannot_be_read(explained: Any) -> None:
    """The API server accepts no such operator; a file can have it. The machines are listed, and the cause is named."""
    near = {"key": "disk", "operator": "Near", "values": ["fast"]}
    fleet = Fleet(pool("wrong", replicas=1, requirements=[near]), pool())
    fleet.add("drifted", T4, of="wrong", up=(*UP, "Drifted")).add("fine", T4)
    code, out, err = explained("np/gpu", items=objects(fleet))
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("NodePool gpu: 1 machine, 0.526 USD/h; disruption is not known ")
    assert "stays: whether a method of disruption concerns it is not known" in text
    assert "what disruption would do: NodePool wrong: disk: unknown operator 'Near'" in text


def objects(fleet: Fleet) -> list[Any]:
    found = {"NodePool": fleet.pools, "Node": fleet.nodes, "NodeClaim": fleet.claims}
    return [{"kind": kind, **json.loads(msgspec.json.encode(one))} for kind, many in found.items() for one in many]


WRONG = [
    ("nix", 1, "there is no NodeClaim or NodePool or Pod named nix in namespace default"),
    ("pod", 1, "there is no NodeClaim or NodePool or Pod named pod in"),
    ("nodepool/nix", 1, "there is no NodePool named nix"),
    ("a100", 2, "a100 names a NodePool and a Pod\n    Write nodepool/a100 or pod/default/a100."),
    ("vm/a100", 2, "'vm/a100': 'vm' is not a type that can be explained"),
    ("pod/", 2, "'pod/' does not name an object"),
    ("nodeclaim/a/b", 2, "'nodeclaim/a/b' does not name an object"),
]


@pytest.mark.parametrize(("written", "code", "cause"), WRONG)
def test_an_object_that_cannot_be_found(explained: Any, written: str, code: int, cause: str) -> None:
    """The cause names the value, and a remedy follows."""
    ended, out, err = explained(written, items=[*POOLS, pod("a100")])
    assert (ended, out) == (code, "")
    assert err.startswith(f"gpu-provisioner explain: {cause}")
    assert len(err.splitlines()) == 2


BROKEN = [
    (node_pool("broken"), {"spec": {"template": 1}}, "Expected `object`, got `int` - at `$.spec.template`"),
    (node_pool("broken"), {"status": []}, "Expected `object | null`, got `array` - at `$.status`"),
    (
        node_pool("broken"),
        {"status": {"conditions": "x"}},
        "Expected `array | null`, got `str` - at `$.status.conditions`",
    ),
    (
        node_pool("broken"),
        {"status": {"conditions": [1]}},
        "Expected `object`, got `int` - at `$.status.conditions[0]`",
    ),
    (pod("broken"), {"spec": "x"}, "Expected `object | null`, got `str` - at `$.spec`"),
]


@pytest.mark.parametrize(("body", "part", "why"), BROKEN)
def test_a_file_that_cannot_be_decoded(explained: Any, body: Any, part: Any, why: str) -> None:
    """The object and its field are named."""
    code, out, err = explained("broken", items=[body | part])
    assert (code, out) == (2, "")
    assert f"cluster.json, item 1: {why}\n" in err


FORMS = [
    ("nodeclaim/ws1", "NodeClaim", "team", "ws1"),
    ("nodepools.karpenter.sh/a100", "NodePool", "team", "a100"),
    ("pod/train", "Pod", "team", "train"),
    ("po/default/train", "Pod", "default", "train"),
]


@pytest.mark.parametrize(("written", "kind", "namespace", "name"), FORMS)
def test_the_forms_of_an_argument(written: str, kind: str, namespace: str, name: str) -> None:
    """As kubectl writes and reads them."""
    found = target(written, "team")
    assert ([one.kind for one in found.resources], found.namespace, found.name) == ([kind], namespace, name)


@pytest.mark.parametrize("namespace", ["", "..", "a/b"])
def test_a_flag_that_is_no_namespace(namespace: str) -> None:
    """The flag and its value are named, not the object."""
    with pytest.raises(Refused) as refused:
        target("pod/train", namespace)
    assert refused.value.cause == f"--namespace={namespace}: it is not the name of a namespace"


def test_a_namespace_that_cannot_exist() -> None:
    """It would change the path of a request."""
    with pytest.raises(Refused, match="does not name an object"):
        target("pod/../train", "team")


def test_fields_that_are_null(explained: Any) -> None:
    """They are unset, as the API server stores them: kubectl writes a creationTimestamp that is null."""
    body = pod("train", affinity=None, nodeSelector=None)
    body["metadata"]["creationTimestamp"] = body["status"] = None
    code, out, err = explained("train", items=[*POOLS, body])
    assert (code, err) == (0, "")
    assert out.startswith(f"Pod default/train: would run on a new {T4}")


def test_a_machine_of_a_size_that_the_list_has_elsewhere(explained: Any) -> None:
    """It exists, so its region has the size; without Azure the list of the subscription's sizes is not read."""
    size = "Standard_ND96isr_H200_v5"
    fleet = Fleet(pool("big")).add("one", size, of="big")
    kinds = {"NodePool": fleet.pools, "NodeClaim": fleet.claims}
    items = [{**json.loads(msgspec.json.encode(one)), "kind": kind} for kind, found in kinds.items() for one in found]
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "agreement"},
        "spec": {"requirements": [{"key": SIZE, "operator": "In", "values": [size]}], "price": "80"},
    }
    out = explained("np/big", items=[*items, overlay])[1]
    assert out.startswith("NodePool big: 1 machine, 80.000 USD/h; ")
