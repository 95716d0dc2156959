"""The binding subresource, by which a scheduler assigns a pod to a Node."""

import pytest

from .server import MERGE, Json, Server
from .things import PODS, at, node, pod

pytestmark = pytest.mark.asyncio


def binding(of: Json, target: str, **metadata: object) -> Json:
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": of["metadata"]["name"], **metadata}}
    return {**head, "target": {"apiVersion": "v1", "kind": "Node", "name": target}}


async def bind(server: Server, of: Json, target: str, **metadata: object) -> None:
    answer = await server.request("POST", at(PODS, of, "binding"), binding(of, target, **metadata))
    assert answer.status == 201, answer
    assert (answer.body["kind"], answer.body["status"], answer.body["code"]) == ("Status", "Success", 201)


async def test_a_binding_sets_the_node_and_the_condition(server: Server) -> None:
    """One write sets nodeName and PodScheduled, adds annotations, and leaves the generation as it is."""
    made, target = await pod(server), (await node(server))["metadata"]["name"]
    async with server.stream(PODS, fieldSelector=f"metadata.name={made['metadata']['name']}") as watch:
        await watch.next()
        await bind(server, made, target, annotations={"example.com/by": "test"})
        found = (await watch.next()).object
    assert found["spec"]["nodeName"] == target
    assert [(c["type"], c["status"]) for c in found["status"]["conditions"]] == [("PodScheduled", "True")]
    assert found["metadata"]["annotations"] == {"example.com/by": "test"}
    assert found["metadata"]["generation"] == made["metadata"]["generation"]


async def test_a_bound_pod_is_bound_once(server: Server) -> None:
    """A second binding is a conflict, to the same Node too."""
    made = await pod(server)
    await bind(server, made, "one")
    result = await server.refused(409, "Conflict", "POST", at(PODS, made, "binding"), binding(made, "one"))
    assert f'pod {made["metadata"]["name"]} is already assigned to node "one"' in result["message"]
    assert result["details"] == {"name": made["metadata"]["name"], "kind": "pods/binding"}


@pytest.mark.parametrize(("verb", "how"), [("PATCH", MERGE), ("PUT", "application/json")], ids=["PATCH", "PUT"])
@pytest.mark.parametrize("bound", [False, True], ids=["pending", "bound"])
async def test_an_update_does_not_bind_a_pod(server: Server, verb: str, how: str, bound: bool) -> None:
    """Only the binding subresource sets nodeName; an update that changes it is invalid, before and after."""
    made = await pod(server)
    if bound:
        await bind(server, made, "one")
    now = await server.get(at(PODS, made))
    change: Json = {"spec": {"nodeName": "two"}}
    body = change if verb == "PATCH" else {**now, "spec": {**now["spec"], **change["spec"]}}
    result = await server.refused(422, "Invalid", verb, at(PODS, made), body, how=how)
    (cause,) = result["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", "spec")
    assert cause["message"].startswith(
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )
    assert await server.get(at(PODS, made)) == now


async def test_a_deleting_or_gated_pod_is_not_bound(server: Server) -> None:
    """A deleting pod and one with scheduling gates are conflicts."""
    deleting = await pod(server, finalizers=["example.com/hold"])
    await server.delete(at(PODS, deleting))
    result = await server.refused(409, "Conflict", "POST", at(PODS, deleting, "binding"), binding(deleting, "one"))
    assert "is being deleted, cannot be assigned to a host" in result["message"]
    body = {**deleting, "metadata": {"name": server.name("pod")}}
    body["spec"] = {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGates": [{"name": "example.com/gate"}],
    }
    gated = await server.done("POST", PODS, body)
    result = await server.refused(409, "Conflict", "POST", at(PODS, gated, "binding"), binding(gated, "one"))
    assert "has non-empty .spec.schedulingGates" in result["message"]


async def test_a_binding_names_its_pod(server: Server) -> None:
    """Another name than in the path is 400, an absent pod 404, another UID 409."""
    made = await pod(server)
    other = binding({"metadata": {"name": "other"}}, "one")
    await server.refused(400, "BadRequest", "POST", at(PODS, made, "binding"), other)
    await server.refused(404, "NotFound", "POST", f"{PODS}/other/binding", other)
    wrong = binding(made, "one", uid="11111111-1111-4111-8111-111111111111")
    await server.refused(409, "Conflict", "POST", at(PODS, made, "binding"), wrong)
    await bind(server, made, "one", uid=made["metadata"]["uid"])


async def test_a_dry_run_of_a_binding(server: Server) -> None:
    """A dry run binds nothing."""
    made = await pod(server)
    await server.done("POST", at(PODS, made, "binding"), binding(made, "one"), dryRun="All")
    assert await server.get(at(PODS, made)) == made
