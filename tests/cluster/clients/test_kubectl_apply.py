"""Server-side apply, and questions about permissions, of the real kubectl: the same on both servers."""

import pytest
import yaml

from tests.world.claims import EXAMPLES

from .stage import CLAIMS, TERMINATION, Json, Stage, claim, error_message

pytestmark = pytest.mark.asyncio

WS1 = "nodeclaim.karpenter.sh/ws1"
IMMUTABLE = "spec: Invalid value: spec is immutable"


def managers(stored: Json) -> list[tuple[str, str]]:
    return sorted((entry["manager"], entry["operation"]) for entry in stored["metadata"]["managedFields"])


async def test_server_side_apply_conflicts(it: Stage) -> None:
    """A second owner of a label gets a conflict and may force it; then the first owner gets the conflict."""
    mine, theirs = (claim(labels={"team": team}) for team in "ab")
    apply = ("apply", "--server-side", "-f")
    assert await it.kubectl(*apply, it.kubectl.file(mine)) == f"{WS1} serverside-applied\n"
    (made,) = await it.claims()
    assert managers(made) == [("kubectl", "Apply")]
    assert await it.kubectl(*apply, it.kubectl.file(mine)) == f"{WS1} serverside-applied\n"
    assert await it.claims() == [made]
    other = (*apply, it.kubectl.file(theirs), "--field-manager=gitops")
    output = await it.kubectl.refused(*other)
    assert output.startswith('error: Apply failed with 1 conflict: conflict with "kubectl": .metadata.labels.team\n')
    assert await it.kubectl(*other, "--force-conflicts") == f"{WS1} serverside-applied\n"
    (taken,) = await it.claims()
    assert taken["metadata"]["labels"] == {"team": "b"}
    assert managers(taken) == [("gitops", "Apply"), ("kubectl", "Apply")]
    output = await it.kubectl.refused("diff", "--server-side", "-f", it.kubectl.file(mine))
    assert 'Apply failed with 1 conflict: conflict with "gitops": .metadata.labels.team' in output


async def test_server_side_apply_keeps_the_controllers_fields(it: Stage) -> None:
    """Finalizer, labels and status belong to another manager: applying the file again neither removes them nor
    conflicts.
    """
    path = it.kubectl.file(claim())
    await it.kubectl("apply", "--server-side", "-f", path)
    written = {"finalizers": [TERMINATION], "labels": {"topology.kubernetes.io/zone": "westeurope-1"}}
    await it.patch(f"{CLAIMS}/ws1", {"metadata": written})
    await it.report("ws1", nodeName="aks-ws1-0")
    (before,) = await it.claims()
    assert await it.kubectl("apply", "--server-side", "-f", path) == f"{WS1} serverside-applied\n"
    assert await it.claims() == [before]
    assert await it.kubectl("apply", "-f", path) == f"{WS1} configured\n"
    (after,) = await it.claims()
    assert (after["metadata"]["finalizers"], after["metadata"]["labels"]) == tuple(written.values())
    assert (after["status"], after["spec"]) == (before["status"], before["spec"])


async def test_server_side_diff_and_dry_run(it: Stage) -> None:
    """The diff of a server-side apply shows the change and stores nothing; neither does its dry run."""
    await it.kubectl("apply", "--server-side", "-f", it.kubectl.file(claim()))
    before = await it.claims()
    path = it.kubectl.file(claim(labels={"team": "a"}))
    code, out, _ = await it.kubectl.run("diff", "--server-side", "-f", path)
    changed = {line for line in out.splitlines() if line.startswith(("+  ", "-  ")) and "f:" not in line}
    assert (code, {"+  labels:", "+    team: a"} <= changed) == (1, True)
    output = await it.kubectl("apply", "--server-side", "--dry-run=server", "-f", path)
    assert output == f"{WS1} serverside-applied (server dry run)\n"
    output = await it.kubectl.refused(
        "apply", "--server-side", "-f", it.kubectl.file(claim(spec={"terminationGracePeriod": "1h"}))
    )
    assert error_message(output) == f'The NodeClaim "ws1" is invalid: {IMMUTABLE}\n'
    assert await it.claims() == before


async def test_a_dry_run_accepts_every_example(it: Stage) -> None:
    """The server's schemas, defaults and CEL rules accept all files of `examples`, those for pods included."""
    # The CRDs of GKM, another project, are not installed here.
    paths = [path for path in sorted(EXAMPLES.rglob("*.yaml")) if "kind: GKMCache" not in path.read_text("utf-8")]
    documents = [
        document for path in paths for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document
    ]
    output = await it.kubectl("apply", "--dry-run=server", *(word for path in paths for word in ("-f", str(path))))
    lines = output.splitlines()
    assert len(lines) == len(documents)
    assert all(line.endswith(" created (server dry run)") for line in lines)
    assert {"pod/trainer", "nodepool.karpenter.sh/gpu"} <= {line.partition(" ")[0] for line in lines}


async def test_can_i_is_answered(it: Stage) -> None:
    """kubectl sends both reviews as protobuf; the user of the tests may do everything."""
    assert (await it.kubectl("auth", "can-i", "create", "nodeclaims.karpenter.sh")).strip() == "yes"
    assert (await it.kubectl("auth", "can-i", "get", "/metrics")).strip() == "yes"
    assert "[*]" in await it.kubectl("auth", "can-i", "--list")
