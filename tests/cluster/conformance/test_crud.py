"""Creating, reading, replacing and deleting: what an object is born with, and how a request is refused."""

import pytest

from .server import MERGE, Server
from .things import CLAIMS, EVENTS, LEASES, NAMESPACES, NODES, at, claim, claim_body, lease, meta, node

pytestmark = pytest.mark.asyncio


async def test_a_new_object_is_given_what_only_the_server_knows(server: Server) -> None:
    """Uid, time of creation, version and generation are the server's, whatever was sent."""
    sent = claim_body(server, uid="mine", creationTimestamp="2020-01-01T00:00:00Z", generation=7)
    answer = await server.request("POST", CLAIMS, sent)
    assert answer.status == 201
    found = answer.body["metadata"]
    assert len(found["uid"]) == 36
    assert not found["creationTimestamp"].startswith("2020")
    assert found["generation"] == 1
    assert int(found["resourceVersion"]) > 0


async def test_what_is_read_is_what_was_answered(server: Server) -> None:
    """A GET after a create shows the same object at the same version."""
    made = await claim(server)
    assert await server.get(at(CLAIMS, made)) == made


async def test_a_generated_name_begins_as_asked_and_is_new(server: Server) -> None:
    """Two objects of one generateName have two names of that prefix and five letters."""
    prefix = server.name("some") + "-"
    names = []
    for _ in range(2):
        made = await server.done("POST", NODES, {"metadata": {"generateName": prefix}})
        names.append(made["metadata"]["name"])
    assert names[0] != names[1]
    assert all(name.startswith(prefix) and len(name) == len(prefix) + 5 for name in names)


async def test_a_taken_name_is_refused(server: Server) -> None:
    """A second object of that name is 409 AlreadyExists, and the answer names it."""
    made = await claim(server)
    body = claim_body(server) | {"metadata": {"name": made["metadata"]["name"]}}
    said = await server.refused(409, "AlreadyExists", "POST", CLAIMS, body)
    assert said["details"] == {"name": made["metadata"]["name"], "group": "karpenter.sh", "kind": "nodeclaims"}
    assert said["message"] == f'nodeclaims.karpenter.sh "{made["metadata"]["name"]}" already exists'


async def test_an_absent_object_is_named_in_the_answer(server: Server) -> None:
    """A 404 that proves an absence has the reason NotFound and the object's name, for every verb."""
    for method, how in (("GET", "application/json"), ("PATCH", MERGE), ("DELETE", "application/json")):
        said = await server.refused(404, "NotFound", method, f"{NODES}/nope", {}, how=how)
        assert said["details"] == {"name": "nope", "kind": "nodes"}
    said = await server.refused(404, "NotFound", "GET", f"{CLAIMS}/nope")
    assert said["details"] == {"name": "nope", "group": "karpenter.sh", "kind": "nodeclaims"}
    body = claim_body(server) | {"metadata": {"name": "nope", "resourceVersion": "1"}}
    said = await server.refused(404, "NotFound", "PUT", f"{CLAIMS}/nope", body)
    assert said["details"]["name"] == "nope"


async def test_a_kind_that_is_not_served_is_no_absent_object(server: Server) -> None:
    """The 404 for an unknown group, version or kind names no object; of CRDs' groups it is not even a Status."""
    for path in ("/apis/nope.example/v1/nopes", "/apis/karpenter.sh/v1beta1/nodeclaims", "/apis/karpenter.sh/v1/nopes"):
        answer = await server.request("GET", f"{path}/x")
        assert (answer.status, answer.body) == (404, "404 page not found\n")
    said = await server.refused(404, "NotFound", "GET", "/api/v1/nopes/x")
    assert not said.get("details", {}).get("name")
    assert said["message"] == "the server could not find the requested resource"


async def test_a_subresource_that_a_kind_does_not_have_is_not_served(server: Server) -> None:
    """/status of a Lease and /nope of a Node are 404 and name no object."""
    made, held = await node(server), await lease(server)
    for path in (at(LEASES, held, "status"), at(NODES, made, "nope")):
        said = await server.refused(404, "NotFound", "GET", path)
        assert not said.get("details", {}).get("name")


async def test_a_put_removes_what_it_does_not_send(server: Server) -> None:
    """Labels and spec are what was put; uid and birth remain."""
    made = await node(server, labels={"a": "b"}, spec={"unschedulable": True})
    sent = {"metadata": {"name": made["metadata"]["name"], "labels": {"c": "d"}}}
    put = await server.done("PUT", at(NODES, made), sent)
    assert put["metadata"]["labels"] == {"c": "d"}
    assert not put["spec"].get("unschedulable")
    for kept in ("uid", "creationTimestamp"):
        assert put["metadata"][kept] == made["metadata"][kept]


async def test_a_put_must_name_the_object_of_its_path(server: Server) -> None:
    """Another name, and none, are 400."""
    made = await node(server)
    name = made["metadata"]["name"]
    said = await server.refused(400, "BadRequest", "PUT", at(NODES, made), {"metadata": {"name": "other"}})
    assert said["message"] == f"the name of the object (other) does not match the name on the URL ({name})"
    said = await server.refused(400, "BadRequest", "PUT", at(NODES, made), {"metadata": {}})
    assert said["message"].endswith("name must be provided")


async def test_a_body_of_another_kind_is_refused(server: Server) -> None:
    """A Pod is not taken for a Node, nor for a NodeClaim."""
    for collection in (NODES, CLAIMS):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod")}
        await server.refused(400, "BadRequest", "POST", collection, body)


async def test_a_custom_resource_must_say_its_kind(server: Server) -> None:
    """For a Node the path has said it; a NodeClaim without a kind is 400."""
    await server.done("POST", NODES, {"metadata": meta(server, "node")})
    body = {key: value for key, value in claim_body(server).items() if key != "kind"}
    said = await server.refused(400, "BadRequest", "POST", CLAIMS, body)
    assert "Object 'Kind' is missing" in said["message"]


async def test_a_body_that_is_not_json_is_refused(server: Server) -> None:
    """Half a document and a list are 400, another format 415."""
    for body in (b"{", b"[]"):
        said = await server.refused(400, "BadRequest", "POST", NODES, body)
        assert said["message"].startswith("the object provided is unrecognized (must be of type Node)")
    await server.refused(415, "UnsupportedMediaType", "POST", NODES, b"a: b", how="text/plain")


async def test_values_of_the_wrong_type_are_refused(server: Server) -> None:
    """A number for a label's value and a string for a list are 400."""
    for fields in ({"metadata": meta(server, "n", labels={"a": 1})}, {"spec": {"taints": "x"}}):
        body = {"metadata": meta(server, "node"), **fields}
        said = await server.refused(400, "BadRequest", "POST", NODES, body)
        assert said["message"].startswith('Node in version "v1" cannot be handled as a Node: json: cannot unmarshal ')


async def test_a_body_above_three_mebibytes_is_refused(server: Server) -> None:
    """It is 413, whatever is in it."""
    body = {"metadata": meta(server, "node", annotations={"a": "x" * (3 * 2**20)})}
    said = await server.refused(413, "RequestEntityTooLarge", "POST", NODES, body)
    assert said["message"] == "Request entity too large: limit is 3145728"


async def test_a_bad_name_is_told_by_its_field(server: Server) -> None:
    """422 Invalid with one cause, whose message the whole message repeats."""
    for collection, body in ((NODES, {"kind": "Node", "apiVersion": "v1"}), (CLAIMS, claim_body(server))):
        said = await server.refused(422, "Invalid", "POST", collection, {**body, "metadata": {"name": "X_y"}})
        (cause,) = said["details"]["causes"]
        assert (cause["field"], cause["reason"]) == ("metadata.name", "FieldValueInvalid")
        assert cause["message"].startswith('Invalid value: "X_y": a lowercase RFC 1123 subdomain must consist of')
        assert said["message"].endswith(f'"X_y" is invalid: metadata.name: {cause["message"]}')


async def test_a_name_is_required(server: Server) -> None:
    """Neither name nor generateName: the cause says so, and the details have no empty name."""
    said = await server.refused(422, "Invalid", "POST", NODES, {"metadata": {}})
    words = "Required value: name or generateName is required"
    assert said["details"] == {
        "kind": "Node",
        "causes": [{"reason": "FieldValueRequired", "message": words, "field": "metadata.name"}],
    }


async def test_bad_labels_are_all_told_at_once(server: Server) -> None:
    """Each bad key and value is a cause of its own."""
    body = {"metadata": meta(server, "node", labels={"a b": "c", "d": "e f", "x/y/z": "", "long": "v" * 64})}
    said = await server.refused(422, "Invalid", "POST", NODES, body)
    assert all(cause["field"] == "metadata.labels" for cause in said["details"]["causes"])
    found = sorted({cause["message"].split(":")[1] for cause in said["details"]["causes"]})
    assert found == [' "a b"', ' "e f"', f' "{"v" * 64}"', ' "x/y/z"']


async def test_annotations_have_a_size(server: Server) -> None:
    """More than 256 KiB of them are refused."""
    body = {"metadata": meta(server, "node", annotations={"a": "x" * 2**18})}
    said = await server.refused(422, "Invalid", "POST", NODES, body)
    assert said["details"]["causes"][0]["field"] == "metadata.annotations"
    assert said["details"]["causes"][0]["reason"] == "FieldValueTooLong"


async def test_what_is_created_has_no_version(server: Server) -> None:
    """A create that names a resourceVersion is refused: somebody confuses it with an update."""
    for collection, body in ((NODES, {"metadata": {}}), (CLAIMS, claim_body(server))):
        sent = {**body, "metadata": meta(server, "x", resourceVersion="5")}
        said = await server.refused(500, "", "POST", collection, sent)
        assert said["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_dry_run_answers_and_stores_nothing(server: Server) -> None:
    """The answer is the object that would be, without a version."""
    answer = await server.request("POST", CLAIMS, claim_body(server), dryRun="All")
    assert answer.status == 201
    assert answer.body["spec"]["expireAfter"] == "720h"
    assert "resourceVersion" not in answer.body["metadata"]
    assert await server.absent(at(CLAIMS, answer.body))
    said = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server), dryRun="Some")
    assert said["details"]["causes"][0]["field"] == "dryRun"


async def test_a_delete_says_what_went(server: Server) -> None:
    """An object without finalizers goes at once, and the answer is a Status with its uid."""
    made = await claim(server)
    said = await server.delete(at(CLAIMS, made))
    assert (said["kind"], said["status"]) == ("Status", "Success")
    assert said["details"] == {
        "name": made["metadata"]["name"],
        "group": "karpenter.sh",
        "kind": "nodeclaims",
        "uid": made["metadata"]["uid"],
    }
    assert await server.absent(at(CLAIMS, made))


async def test_a_name_can_be_used_again_by_another_object(server: Server) -> None:
    """After a deletion the name is free; who bears it next has another uid."""
    first = await claim(server)
    await server.delete(at(CLAIMS, first))
    second = await server.done("POST", CLAIMS, claim_body(server) | {"metadata": {"name": first["metadata"]["name"]}})
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_namespace_must_exist_and_agree(server: Server) -> None:
    """Nothing is created in a namespace that is not there, nor under a path of another one."""
    body = {"metadata": {"name": "x", "namespace": "nope"}}
    path = LEASES.replace("default", "nope")
    said = await server.refused(404, "NotFound", "POST", path, body)
    assert said["details"] == {"name": "nope", "kind": "namespaces"}
    said = await server.refused(400, "BadRequest", "POST", LEASES, {"metadata": {"name": "x", "namespace": "nope"}})
    assert said["message"].startswith("the namespace of the provided object does not match the namespace sent on the ")


async def test_a_namespace_that_is_ending_takes_nothing_new_and_goes_empty(server: Server) -> None:
    """What is in it is deleted, what is created meanwhile is 403, and the namespace goes last."""
    name = server.name("ns")
    await server.done("POST", NAMESPACES, {"metadata": {"name": name}})
    inside = EVENTS.replace("default", name)
    body = {"metadata": {"name": "e", "finalizers": ["example.com/a"]}, "involvedObject": {"namespace": name}}
    await server.done("POST", inside, body)
    await server.delete(f"{NAMESPACES}/{name}")
    async with server.stream(inside) as watch:
        await watch.until(lambda event: "deletionTimestamp" in event.object["metadata"])
    said = await server.refused(403, "Forbidden", "POST", inside, body | {"metadata": {"name": "late"}})
    assert "because it is being terminated" in said["message"]
    async with server.stream(NAMESPACES, fieldSelector=f"metadata.name={name}") as watch:
        await server.patch(f"{inside}/e", {"metadata": {"finalizers": None}})
        await watch.until(lambda event: event.type == "DELETED")


async def test_a_method_that_a_path_does_not_have_is_refused(server: Server) -> None:
    """POST to an object and PUT to a collection are 405."""
    for method, path in (("POST", f"{NODES}/x"), ("PUT", NODES)):
        said = await server.refused(405, "MethodNotAllowed", method, path, {})
        assert said["message"] == "the server does not allow this method on the requested resource"


async def test_a_wrong_token_is_401(server: Server) -> None:
    """The answer is a Status with the reason Unauthorized."""
    said = await server.refused(401, "Unauthorized", "GET", NODES, token="wrong")
    assert said["message"] == "Unauthorized"


async def test_a_form_that_is_not_offered_is_406(server: Server) -> None:
    """HTML is not to be had."""
    await server.refused(406, "NotAcceptable", "GET", NODES, accept="text/html")
