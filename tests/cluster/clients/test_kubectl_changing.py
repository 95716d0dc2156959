"""Writes of the real kubectl, and their error messages: the same on both servers."""

import json
import re
from pathlib import Path

import pytest
import yaml

from .stage import CLAIMS, NODES, TERMINATION, Stage, claim, conditions, error_message

pytestmark = pytest.mark.asyncio

EXAMPLES = Path(__file__).parents[3] / "examples"
WS1 = "nodeclaim.karpenter.sh/ws1"
IMMUTABLE = "spec: Invalid value: spec is immutable"


async def test_apply_creates_then_is_unchanged_then_configures(it: Stage) -> None:
    """Client-side apply, its dry run and its diff work."""
    path = it.kubectl.file(claim())
    assert await it.kubectl("apply", "-f", path, "--dry-run=server") == f"{WS1} created (server dry run)\n"
    assert await it.claims() == []
    assert await it.kubectl("apply", "-f", path) == f"{WS1} created\n"
    (made,) = await it.claims()
    assert await it.kubectl("apply", "-f", path) == f"{WS1} unchanged\n"
    assert await it.claims() == [made]
    assert await it.kubectl.run("diff", "-f", path) == (0, "", "")
    path = it.kubectl.file(claim(labels={"team": "a"}))
    code, out, _ = await it.kubectl.run("diff", "-f", path)
    changed = [line for line in out.splitlines() if re.match(r"[+-]\s", line)]
    assert (code, changed) == (1, ["+  labels:", "+    team: a"])
    assert await it.kubectl("apply", "-f", path) == f"{WS1} configured\n"
    assert await it.kubectl("get", "nodeclaims", "-l", "team=a", "-o", "name") == f"{WS1}\n"
    path = it.kubectl.file(claim())
    assert await it.kubectl("apply", "-f", path) == f"{WS1} configured\n"
    assert await it.kubectl.run("get", "nodeclaims", "-l", "team") == (0, "", "No resources found\n")


async def test_apply_of_every_example(it: Stage) -> None:
    """Every example of the documentation can be applied and keeps all its fields."""
    documents = [doc for path in sorted(EXAMPLES.glob("*.yaml")) for doc in yaml.safe_load_all(path.read_text())]
    claims = [document for document in documents if document["kind"] == "NodeClaim"]
    output = await it.kubectl("apply", "-f", it.kubectl.file(*claims))
    assert output.splitlines() == [f"nodeclaim.karpenter.sh/{one['metadata']['name']} created" for one in claims]
    stored = {one["metadata"]["name"]: one["spec"] for one in await it.claims()}
    for one in claims:
        assert one["spec"].items() <= stored[one["metadata"]["name"]].items()
    assert len(claims) > 3


async def test_an_immutable_field_cannot_change(it: Stage) -> None:
    """apply, patch and replace print the message of the CRD's transition rule."""
    await it.kubectl("apply", "-f", it.kubectl.file(claim()))
    (made,) = await it.claims()
    refusal = f'The NodeClaim "ws1" is invalid: {IMMUTABLE}\n'
    path = it.kubectl.file(claim(spec={"expireAfter": "1h"}))
    assert error_message(await it.kubectl.refused("apply", "-f", path)) == refusal
    patch = ("patch", "nodeclaim", "ws1", "--type=merge", "-p", '{"spec":{"expireAfter":"1h"}}')
    assert error_message(await it.kubectl.refused(*patch)) == refusal
    changed = {**made, "spec": {**made["spec"], "terminationGracePeriod": "1h"}}
    assert error_message(await it.kubectl.refused("replace", "-f", it.kubectl.file(changed))) == refusal
    assert await it.claims() == [made]


async def test_edit_names_what_cannot_change(it: Stage) -> None:
    """`edit` saves labels; a change of the spec reopens the editor with the reason, and keeps a copy."""
    await it.claim(labels={"team": "a"})
    relabel = {"KUBE_EDITOR": "sed -i s/team:.*/team:\\ b/"}
    assert await it.kubectl("edit", "nodeclaim", "ws1", **relabel) == f"{WS1} edited\n"
    untouched = await it.kubectl.run("edit", "nodeclaim", "ws1", KUBE_EDITOR="true")
    assert untouched == (0, "", "Edit cancelled, no changes made.\n")
    seen = it.kubectl.home / "seen"
    script = it.kubectl.home / "editor"
    script.write_text(f'#!/bin/sh\ncat "$1" >> {seen}\nsed -i "s/expireAfter:.*/expireAfter: 1h/" "$1"\n')
    script.chmod(0o700)
    here = {"KUBE_EDITOR": str(script), "TMPDIR": str(it.kubectl.home)}
    output = (await it.kubectl.refused("edit", "nodeclaim", "ws1", **here)).splitlines()
    assert output[0] == 'error: nodeclaims.karpenter.sh "ws1" is invalid'
    copies = {
        f'A copy of your changes has been stored to "{path}"': path for path in it.kubectl.home.glob("kubectl-edit-*")
    }
    kept = copies[output[1]]
    assert yaml.safe_load(kept.read_text())["spec"]["expireAfter"] == "1h"
    assert output[2] == "error: Edit cancelled, no valid changes were saved."
    assert f'# nodeclaims.karpenter.sh "ws1" was not valid:\n# * {IMMUTABLE}\n' in error_message(seen.read_text())
    (stored,) = await it.claims()
    assert (stored["metadata"]["labels"], stored["spec"]["expireAfter"]) == ({"team": "b"}, "720h")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"resorces": {}},
            'NodeClaim in version "v1" cannot be handled as a NodeClaim: strict decoding error: '
            'unknown field "spec.resorces"',
        ),
        (
            {"requirements": [{"key": "karpenter.sh/initialized", "operator": "Exists"}]},
            'spec.requirements[0].key: Invalid value: label domain "karpenter.sh" is restricted',
        ),
        (
            {"requirements": [{"key": "a", "operator": "In", "values": []}]},
            "spec.requirements: Invalid value: requirements with operator 'In' must have a value defined",
        ),
        (
            {"requirements": [{"key": "a", "operator": "Around"}]},
            'spec.requirements[0].operator: Unsupported value: "Around"',
        ),
        (
            {"nodeClassRef": {"group": "kaito.sh", "kind": "", "name": "x"}},
            "spec.nodeClassRef.kind: Invalid value: kind may not be empty",
        ),
        ({"nodeClassRef": {"kind": "KaitoNodeClass", "name": "x"}}, "* spec.nodeClassRef.group: Required value"),
        ({"resources": {"requests": {"storage": "much"}}}, "spec.resources.requests.storage: Invalid value"),
    ],
)
async def test_invalid_manifests_are_refused(it: Stage, spec: dict[str, object], message: str) -> None:
    """Typos, restricted labels and missing values are refused before anything is created."""
    assert message in error_message(await it.kubectl.refused("create", "-f", it.kubectl.file(claim(spec=spec))))
    assert await it.claims() == []


@pytest.mark.parametrize(
    "condition", ["Launched", "Registered", "Initialized", "Ready", "Drained", "InstanceTerminating"]
)
async def test_wait_for_each_condition(it: Stage, condition: str) -> None:
    """`wait` returns when the condition becomes True, or immediately if it already is."""
    await it.claim()
    wait = ("wait", f"--for=condition={condition}", "nodeclaim/ws1", "--timeout=20s")
    async with it.kubectl.running(*wait, "-v=6") as kubectl:
        await kubectl.watches()
        await it.report("ws1", conditions=conditions(**{condition: "False", "Other": "True"}))
        await it.report("ws1", nodeName="aks-ws1-0")
        assert not kubectl.ended
        await it.report("ws1", conditions=conditions(**{condition: "True"}))
        code, out, _ = await kubectl.end()
    assert (code, out) == (0, f"{WS1} condition met\n")
    assert await it.kubectl(*wait) == f"{WS1} condition met\n"


async def test_wait_for_a_value_and_its_timeout(it: Stage) -> None:
    """`wait` accepts a JSONPath, waits for an object that does not exist yet, and fails at its timeout."""
    async with it.kubectl.running("wait", "--for=create", "nodeclaim/ws1", "--timeout=20s", "-v=6") as kubectl:
        await kubectl.requested("/nodeclaims")
        await it.claim()
        code, out, _ = await kubectl.end()
    assert (code, out) == (0, f"{WS1} condition met\n")
    at_path = ("wait", "--for=jsonpath={.spec.expireAfter}=720h", "nodeclaim/ws1", "--timeout=5s")
    assert await it.kubectl(*at_path) == f"{WS1} condition met\n"
    output = await it.kubectl.refused("wait", "--for=condition=Ready", "nodeclaim/ws1", "--timeout=1s")
    assert output == "error: timed out waiting for the condition on nodeclaims/ws1\n"
    await it.report("ws1", conditions=conditions(Ready="True"))
    negative = ("wait", "--for=condition=Ready=false", "nodeclaim/ws1", "--timeout=20s")
    async with it.kubectl.running(*negative, "-v=6") as kubectl:
        await kubectl.watches()
        await it.report("ws1", conditions=conditions(Ready="False"))
        assert (await kubectl.end()).out == f"{WS1} condition met\n"


async def test_delete_waits_for_the_finalizer(it: Stage) -> None:
    """`delete` blocks until the object is gone."""
    await it.claim(finalizers=[TERMINATION])
    async with it.kubectl.running("delete", "nodeclaim", "ws1", "-v=6") as kubectl:
        await kubectl.watches()
        (deleting,) = await it.claims()
        assert "deletionTimestamp" in deleting["metadata"]
        await it.report("ws1", conditions=conditions(InstanceTerminating="True"))
        assert not kubectl.ended
        await it.release("ws1")
        code, out, _ = await kubectl.end()
    assert (code, out) == (0, 'nodeclaim.karpenter.sh "ws1" deleted\n')
    output = await it.kubectl.refused("delete", "nodeclaim", "ws1")
    assert output == 'Error from server (NotFound): nodeclaims.karpenter.sh "ws1" not found\n'
    assert await it.kubectl("delete", "nodeclaim", "ws1", "--ignore-not-found") == ""


async def test_delete_without_waiting(it: Stage) -> None:
    """`--wait=false` returns while the object is deleting; `wait --for=delete` works afterwards."""
    await it.claim(finalizers=[TERMINATION])
    await it.claim("ws2")
    assert await it.kubectl("delete", "nodeclaims", "--all", "--wait=false") == (
        'nodeclaim.karpenter.sh "ws1" deleted\nnodeclaim.karpenter.sh "ws2" deleted\n'
    )
    (left,) = await it.claims()
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("ws1", True)
    async with it.kubectl.running("wait", "--for=delete", "nodeclaim/ws1", "--timeout=20s", "-v=6") as kubectl:
        await kubectl.watches()
        assert not kubectl.ended
        await it.release("ws1")
        assert (await kubectl.end()).out == f"{WS1} condition met\n"
    assert await it.claims() == []


async def test_a_dry_run_of_delete_deletes_nothing(it: Stage) -> None:
    """`--dry-run=server` prints what would be deleted."""
    made = await it.claim()
    assert await it.kubectl("delete", "nodeclaim", "ws1", "--dry-run=server") == (
        'nodeclaim.karpenter.sh "ws1" deleted (server dry run)\n'
    )
    assert [one["metadata"]["resourceVersion"] for one in await it.claims()] == [made["metadata"]["resourceVersion"]]


async def test_label_annotate_and_patch(it: Stage) -> None:
    """Custom resources accept merge patches and JSON patches; labels and annotations are not a new generation."""
    await it.claim()
    assert await it.kubectl("label", "nodeclaim", "ws1", "team=a") == f"{WS1} labeled\n"
    assert await it.kubectl("label", "nodeclaim", "ws1", "team=a") == f"{WS1} not labeled\n"
    output = await it.kubectl.refused("label", "nodeclaim", "ws1", "team=b")
    assert output == "error: 'team' already has a value (a), and --overwrite is false\n"
    assert await it.kubectl("label", "nodeclaim", "ws1", "team=b", "--overwrite") == f"{WS1} labeled\n"
    assert await it.kubectl("label", "nodeclaim", "ws1", "--list") == "team=b\n"
    assert await it.kubectl("label", "nodeclaim", "ws1", "team-") == f"{WS1} unlabeled\n"
    assert (
        await it.kubectl("annotate", "nodeclaims", "--all", "karpenter.sh/do-not-disrupt=true") == f"{WS1} annotated\n"
    )
    patch = ("patch", "nodeclaim", "ws1", "--type=json", "-p")
    added = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    assert await it.kubectl(*patch, json.dumps(added)) == f"{WS1} patched\n"
    failed = [{"op": "test", "path": "/metadata/labels/x", "value": "z"}]
    output = await it.kubectl.refused(*patch, json.dumps(failed))
    assert output == "The request is invalid: the server rejected our request due to an error in our request\n"
    meta = (await it.get(f"{CLAIMS}/ws1"))["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"x": "y"}, {"karpenter.sh/do-not-disrupt": "true"})
    assert meta["generation"] == 1
    output = await it.kubectl.refused("label", "nodeclaim", "ws1", "team=has space")
    assert "a valid label must be an empty string or consist of alphanumeric characters" in output


async def test_replace_and_a_stale_replace(it: Stage) -> None:
    """A replace with an old resourceVersion is refused."""
    old = await it.claim()
    new = await it.patch(f"{CLAIMS}/ws1", {"metadata": {"labels": {"theirs": "1"}}})
    output = await it.kubectl.refused("replace", "-f", it.kubectl.file(old))
    assert "the object has been modified; please apply your changes to the latest version and try again" in output
    new["metadata"]["labels"]["mine"] = "1"
    assert await it.kubectl("replace", "-f", it.kubectl.file(new)) == f"{WS1} replaced\n"
    assert (await it.get(f"{CLAIMS}/ws1"))["metadata"]["labels"] == {"theirs": "1", "mine": "1"}


async def test_nodes_can_be_cordoned_labelled_and_tainted(it: Stage) -> None:
    """Nodes accept strategic merge patches; taints are replaced as a whole, as kubectl sends them."""
    await it.node("n1")
    for taint in ("sku=gpu:NoSchedule", "a=b:NoExecute"):
        assert await it.kubectl("taint", "node", "n1", taint) == "node/n1 tainted\n"
    assert await it.kubectl("taint", "node", "n1", "a-") == "node/n1 untainted\n"
    assert await it.kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert await it.kubectl("cordon", "n1") == "node/n1 already cordoned\n"
    assert (await it.kubectl.table("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    described = (await it.kubectl("describe", "node", "n1")).splitlines()
    assert "Unschedulable:      true" in described
    assert await it.kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert await it.kubectl("label", "node", "n1", "agentpool=ws1") == "node/n1 labeled\n"
    stored = await it.get(f"{NODES}/n1")
    assert stored["metadata"]["labels"] == {"agentpool": "ws1"}
    assert "unschedulable" not in stored["spec"]
    taints = [(taint["key"], taint["effect"]) for taint in stored["spec"]["taints"]]
    assert ("sku", "NoSchedule") in taints
    assert "a" not in dict(taints)


async def test_a_deleted_pod_is_terminating(it: Stage) -> None:
    """`delete pod` leaves the pod Terminating until its kubelet removes it."""
    await it.node("n1")
    await it.pod("web", node="n1", finalizers=["example.com/hold"])
    output = await it.kubectl("delete", "pod", "web", "--wait=false")
    assert output == 'pod "web" deleted from default namespace\n'
    ((_, _, status, *_),) = (await it.kubectl.table("get", "pods"))[1:]
    assert status == "Terminating"
    await it.patch("/api/v1/namespaces/default/pods/web", {"metadata": {"finalizers": None}})
    assert await it.kubectl("wait", "--for=delete", "pod/web", "--timeout=20s") == ""
