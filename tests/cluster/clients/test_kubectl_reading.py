"""Output of the real kubectl: the same on both servers (docs/references/kubernetes.md#kubectl)."""

import json
import re

import pytest
import yaml

from .stage import LABELS, NODES, Stage, conditions

pytestmark = pytest.mark.asyncio

A_FEW_SECONDS = re.compile(r"\d+s")
READY = conditions(Launched="True", Ready="True")


async def test_get_shows_the_columns_of_the_crd(it: Stage) -> None:
    """`get` prints type, capacity and zone from labels, Node and Ready from status, and more with -o wide."""
    assert await it.kubectl.run("get", "nodeclaims") == (0, "", "No resources found\n")
    await it.claim(labels=LABELS)
    await it.report("ws1", nodeName="aks-ws1-0", providerID="azure:///x", imageID="img", conditions=READY)
    await it.claim("ws2")
    header, *rows = await it.kubectl.table("get", "nodeclaims")
    assert header == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
    assert [row[:6] for row in rows] == [
        ["ws1", "Standard_NC4as_T4_v3", "on-demand", "westeurope-1", "aks-ws1-0", "True"],
        ["ws2", "", "", "", "", ""],
    ]
    assert all(A_FEW_SECONDS.fullmatch(row[6]) for row in rows)
    wide = await it.kubectl.table("get", "nodeclaim", "ws1", "-o", "wide")
    assert wide[0][7:] == ["REASON", "IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED"]
    assert wide[1][7:] == ["", "img", "azure:///x", "kaito", "default", ""]
    selected = await it.kubectl("get", "nodeclaims", "-l", "karpenter.sh/nodepool=kaito", "-L", "absent", "-o", "name")
    assert selected == "nodeclaim.karpenter.sh/ws1\n"
    (bare,) = (await it.kubectl("get", "nodeclaims", "--no-headers", "-l", "karpenter.sh/nodepool")).splitlines()
    assert bare.split()[:6] == rows[0][:6]


async def test_get_shows_whole_objects(it: Stage) -> None:
    """YAML, JSON and JSONPath output have the object as it is stored, defaults included."""
    made = await it.claim()
    made["metadata"].pop("managedFields", None)
    assert yaml.safe_load(await it.kubectl("get", "nodeclaim", "ws1", "-o", "yaml")) == made
    listed = json.loads(await it.kubectl("get", "nodeclaims", "-o", "json"))
    assert (listed["kind"], listed["items"]) == ("List", [made])
    assert await it.kubectl("get", "nodeclaim", "ws1", "-o", "jsonpath={.spec.expireAfter}") == "720h"
    columns = await it.kubectl.table(
        "get", "nodeclaims", "-o", "custom-columns=N:.metadata.name,G:.metadata.generation"
    )
    assert columns == [["N", "G"], ["ws1", "1"]]
    output = await it.kubectl.refused("get", "nodeclaim", "nope")
    assert output == 'Error from server (NotFound): nodeclaims.karpenter.sh "nope" not found\n'


async def test_get_by_category_and_short_name(it: Stage) -> None:
    """`kubectl get karpenter`, `knc` and `no` work."""
    await it.claim()
    await it.create("/apis/kaito.sh/v1alpha1/kaitonodeclasses", {
        "apiVersion": "kaito.sh/v1alpha1", "kind": "KaitoNodeClass", "metadata": {"name": "default"},
    })  # fmt: skip
    await it.node("aks-ws1-0")
    everything = await it.kubectl("get", "karpenter", "-o", "name")
    assert everything.splitlines() == ["kaitonodeclass.kaito.sh/default", "nodeclaim.karpenter.sh/ws1"]
    assert await it.kubectl("get", "knc", "-o", "name") == "kaitonodeclass.kaito.sh/default\n"
    assert await it.kubectl("get", "no", "-o", "name") == "node/aks-ws1-0\n"
    crds = ["customresourcedefinition.apiextensions.k8s.io/" + name for name in (
        "agentpoolnodeclasses.gpu-provisioner.sh", "kaitonodeclasses.kaito.sh", "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh",
    )]  # fmt: skip
    assert (await it.kubectl("get", "crd", "-o", "name")).splitlines() == crds
    assert await it.kubectl.table("api-resources", "--categories=karpenter", "--verbs=watch") == [
        ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"],
        ["agentpoolnodeclasses", "apnc", "gpu-provisioner.sh/v1alpha1", "false", "AgentPoolNodeClass"],
        ["kaitonodeclasses", "knc", "kaito.sh/v1alpha1", "false", "KaitoNodeClass"],
        ["nodeclaims", "", "karpenter.sh/v1", "false", "NodeClaim"],
        ["nodeoverlays", "overlays", "karpenter.sh/v1alpha1", "false", "NodeOverlay"],
        ["nodepools", "", "karpenter.sh/v1", "false", "NodePool"],
    ]
    assert re.search(r"^Server Version: v1\.\d+\.\d+", await it.kubectl("version"), re.MULTILINE)


async def test_explain_prints_the_crd(it: Stage) -> None:
    """`explain` prints the descriptions of our CRD and the required fields."""
    explained = await it.kubectl("explain", "nodeclaim.spec.nodeClassRef")
    assert explained.splitlines()[:5] == [
        "GROUP:      karpenter.sh",
        "KIND:       NodeClaim",
        "VERSION:    v1",
        "",
        "FIELD: nodeClassRef <Object>",
    ]
    assert "NodeClassRef is a reference to an object that defines provider specific" in explained
    assert "  group\t<string> -required-\n    API version of the referent\n" in explained
    condition = await it.kubectl("explain", "nodeclaim.status.conditions")
    assert "  status\t<string> -required-\n  enum: True, False, Unknown\n" in condition
    output = await it.kubectl.refused("explain", "nodeclaim.spec.colour")
    assert output == 'error: field "colour" does not exist\n'


async def test_get_watches(it: Stage) -> None:
    """`get -w` prints a row for every change until the object is gone."""
    await it.claim(finalizers=["example.com/hold"])
    async with it.kubectl.running("get", "nodeclaims", "-w") as kubectl:
        lines = [await kubectl.line() for _ in range(2)]
        await it.report("ws1", nodeName="aks-ws1-0", conditions=conditions(Ready="False"))
        lines.append(await kubectl.line())
        await it.report("ws1", conditions=READY)
        lines.append(await kubectl.line())
        await it.kubectl("delete", "nodeclaim", "ws1", "--wait=false")
        lines.append(await kubectl.line())
        await it.release("ws1")
        lines.append(await kubectl.line())
        await it.claim("ws2")
        lines.append(await kubectl.line())
    assert lines[0][0] == "NAME"
    ready = ["ws1", "aks-ws1-0", "True"]
    assert [line[:-1] for line in lines[1:]] == [["ws1"], ["ws1", "aks-ws1-0", "False"], ready, ready, ready, ["ws2"]]
    assert all(A_FEW_SECONDS.fullmatch(line[-1]) for line in lines[1:])


async def test_output_watch_events(it: Stage) -> None:
    """`--output-watch-events` names the type of each change, and `--watch-only` omits existing objects."""
    await it.claim()
    watching = ("get", "nodeclaims", "--watch-only", "--output-watch-events", "-v=6")
    async with it.kubectl.running(*watching) as kubectl:
        await kubectl.watches()
        await it.report("ws1", conditions=READY)
        await it.kubectl("delete", "nodeclaim", "ws1")
        lines = [await kubectl.line() for _ in range(3)]
    assert lines[0][:2] == ["EVENT", "NAME"]
    assert [line[:2] for line in lines[1:]] == [["MODIFIED", "ws1"], ["DELETED", "ws1"]]


async def test_describe_and_events(it: Stage) -> None:
    """Events of a claim are in describe, in `events --for` and in `get events`; those of other claims are not."""
    await it.event(await it.claim(), "NoCapacity", "none left in westeurope")
    await it.event(await it.claim("ws2"), "Launched", "another claim")
    await it.report("ws1", conditions=conditions(Launched="False"))
    described = (await it.kubectl("describe", "nodeclaim", "ws1")).splitlines()
    assert described[0] == "Name:         ws1"
    assert "Kind:         NodeClaim" in described
    assert [line.split() for line in described if "Launched" in line] == [["Type:", "Launched"]]
    shown = described[described.index("Events:") + 1 :]
    assert shown[0].split() == ["Type", "Reason", "Age", "From", "Message"]
    (event,) = [line.split() for line in shown[2:]]
    assert (event[:2], event[-5:]) == (
        ["Warning", "NoCapacity"],
        ["gpu-provisioner", "none", "left", "in", "westeurope"],
    )
    header, row = await it.kubectl.table("events", "--for", "nodeclaim/ws1")
    assert header == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[2:] == ["Warning", "NoCapacity", "NodeClaim/ws1", "none left in westeurope"]
    header, *rows = await it.kubectl.table("get", "events")
    assert header == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert sorted(row[2:] for row in rows) == [
        ["Warning", "Launched", "nodeclaim/ws2", "another claim"],
        ["Warning", "NoCapacity", "nodeclaim/ws1", "none left in westeurope"],
    ]


async def test_wide_nodes_and_pods(it: Stage) -> None:
    """Nodes are printed with role and address, pods of all namespaces with their Node."""
    await it.node("aks-ws1-0", agentpool="ws1", **{"node-role.kubernetes.io/gpu": ""})
    await it.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await it.pod("web", node="aks-ws1-0")
    await it.pod("job", node="aks-ws1-0", namespace="team")
    header, row = await it.kubectl.table("get", "nodes")
    assert header == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [*row[:3], row[4]] == ["aks-ws1-0", "Ready", "gpu", "v1.33.1"]
    wide = await it.kubectl("get", "nodes", "-o", "wide", "-l", "agentpool=ws1")
    assert wide.splitlines()[1].split()[5:8] == ["10.0.0.4", "<none>", "Ubuntu"]
    header, *rows = await it.kubectl.table("get", "pods", "-A")
    assert header == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:5] for row in rows] == [
        ["default", "web", "1/1", "Running", "0"],
        ["team", "job", "1/1", "Running", "0"],
    ]
    there = ("get", "pods", "-A", "--field-selector=spec.nodeName=aks-ws1-0,status.phase=Running", "-o", "name")
    assert (await it.kubectl(*there)).splitlines() == ["pod/web", "pod/job"]
    described = await it.kubectl("describe", "node", "aks-ws1-0")
    assert "  nvidia.com/gpu:  1\n" in described
    assert "Non-terminated Pods:          (2 in total)\n" in described
    assert (await it.get(f"{NODES}/aks-ws1-0"))["metadata"]["name"] == "aks-ws1-0"
