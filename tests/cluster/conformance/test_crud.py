"""Create, read, replace and delete: server-set fields, and refused requests."""

import pytest

from .server import MERGE, Server
from .things import CLAIMS, EVENTS, LEASES, NAMESPACES, NODES, at, claim, claim_body, lease, meta, node

pytestmark = pytest.mark.asyncio


async def test_server_set_fields_of_a_new_object(server: Server) -> None:
    """The server sets uid, creation time, version and generation, whatever was sent."""
    sent = claim_body(server, uid="mine", creationTimestamp="2020-01-01T00:00:00Z", generation=7)
    answer = await server.request("POST", CLAIMS, sent)
    assert answer.status == 201
    found = answer.body["metadata"]
    assert len(found["uid"]) == 36
    assert not found["creationTimestamp"].startswith("2020")
    assert found["generation"] == 1
    assert int(found["resourceVersion"]) > 0


async def test_a_read_returns_what_the_create_returned(server: Server) -> None:
    """A GET after a create returns the same object with the same version."""
    made = await claim(server)
    assert await server.get(at(CLAIMS, made)) == made


async def test_a_generated_name_has_its_prefix_and_is_unique(server: Server) -> None:
    """Two objects of one generateName have two names of that prefix and five characters."""
    prefix = server.name("some") + "-"
    names = []
    for _ in range(2):
        made = await server.done("POST", NODES, {"metadata": {"generateName": prefix}})
        names.append(made["metadata"]["name"])
    assert names[0] != names[1]
    assert all(name.startswith(prefix) and len(name) == len(prefix) + 5 for name in names)


async def test_an_existing_name_is_refused(server: Server) -> None:
    """A second object of that name is 409 AlreadyExists, and the response names it."""
    made = await claim(server)
    body = claim_body(server) | {"metadata": {"name": made["metadata"]["name"]}}
    result = await server.refused(409, "AlreadyExists", "POST", CLAIMS, body)
    assert result["details"] == {"name": made["metadata"]["name"], "group": "karpenter.sh", "kind": "nodeclaims"}
    assert result["message"] == f'nodeclaims.karpenter.sh "{made["metadata"]["name"]}" already exists'


async def test_the_404_of_an_absent_object_names_it(server: Server) -> None:
    """A 404 that proves an absence has the reason NotFound and the object's name, for every verb."""
    for method, how in (("GET", "application/json"), ("PATCH", MERGE), ("DELETE", "application/json")):
        result = await server.refused(404, "NotFound", method, f"{NODES}/nope", {}, how=how)
        assert result["details"] == {"name": "nope", "kind": "nodes"}
    result = await server.refused(404, "NotFound", "GET", f"{CLAIMS}/nope")
    assert result["details"] == {"name": "nope", "group": "karpenter.sh", "kind": "nodeclaims"}
    body = claim_body(server) | {"metadata": {"name": "nope", "resourceVersion": "1"}}
    result = await server.refused(404, "NotFound", "PUT", f"{CLAIMS}/nope", body)
    assert result["details"]["name"] == "nope"


async def test_the_404_of_an_unserved_kind_names_no_object(server: Server) -> None:
    """The 404 for an unknown group, version or kind names no object; in groups of CRDs it is not even a Status."""
    for path in ("/apis/nope.example/v1/nopes", "/apis/karpenter.sh/v1beta1/nodeclaims", "/apis/karpenter.sh/v1/nopes"):
        answer = await server.request("GET", f"{path}/x")
        assert (answer.status, answer.body) == (404, "404 page not found\n")
    result = await server.refused(404, "NotFound", "GET", "/api/v1/nopes/x")
    assert not result.get("details", {}).get("name")
    assert result["message"] == "the server could not find the requested resource"


async def test_an_unserved_subresource_is_404(server: Server) -> None:
    """/status of a Lease and /nope of a Node are 404 and name no object."""
    made, held = await node(server), await lease(server)
    for path in (at(LEASES, held, "status"), at(NODES, made, "nope")):
        result = await server.refused(404, "NotFound", "GET", path)
        assert not result.get("details", {}).get("name")


async def test_a_put_removes_what_it_does_not_send(server: Server) -> None:
    """A PUT replaces labels and spec; uid and creation time remain."""
    made = await node(server, labels={"a": "b"}, spec={"unschedulable": True})
    sent = {"metadata": {"name": made["metadata"]["name"], "labels": {"c": "d"}}}
    put = await server.done("PUT", at(NODES, made), sent)
    assert put["metadata"]["labels"] == {"c": "d"}
    assert not put["spec"].get("unschedulable")
    for kept in ("uid", "creationTimestamp"):
        assert put["metadata"][kept] == made["metadata"][kept]


async def test_a_put_must_name_the_object_of_its_path(server: Server) -> None:
    """A PUT with another name, or with none, is 400."""
    made = await node(server)
    name = made["metadata"]["name"]
    result = await server.refused(400, "BadRequest", "PUT", at(NODES, made), {"metadata": {"name": "other"}})
    assert result["message"] == f"the name of the object (other) does not match the name on the URL ({name})"
    result = await server.refused(400, "BadRequest", "PUT", at(NODES, made), {"metadata": {}})
    assert result["message"].endswith("name must be provided")


async def test_a_body_of_another_kind_is_refused(server: Server) -> None:
    """A Pod sent as a Node or as a NodeClaim is refused."""
    for collection in (NODES, CLAIMS):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod")}
        await server.refused(400, "BadRequest", "POST", collection, body)


async def test_a_custom_resource_must_have_a_kind(server: Server) -> None:
    """A NodeClaim without a kind is 400; a Node without one is accepted."""
    await server.done("POST", NODES, {"metadata": meta(server, "node")})
    body = {key: value for key, value in claim_body(server).items() if key != "kind"}
    result = await server.refused(400, "BadRequest", "POST", CLAIMS, body)
    assert "Object 'Kind' is missing" in result["message"]


async def test_a_body_that_is_not_json_is_refused(server: Server) -> None:
    """A truncated document and a list are 400, another format is 415."""
    for body in (b"{", b"[]"):
        result = await server.refused(400, "BadRequest", "POST", NODES, body)
        assert result["message"].startswith("the object provided is unrecognized (must be of type Node)")
    await server.refused(415, "UnsupportedMediaType", "POST", NODES, b"a: b", how="text/plain")


async def test_values_of_the_wrong_type_are_refused(server: Server) -> None:
    """A number for a label's value and a string for a list are 400."""
    for fields in ({"metadata": meta(server, "n", labels={"a": 1})}, {"spec": {"taints": "x"}}):
        body = {"metadata": meta(server, "node"), **fields}
        result = await server.refused(400, "BadRequest", "POST", NODES, body)
        assert result["message"].startswith('Node in version "v1" cannot be handled as a Node: json: cannot unmarshal ')


async def test_a_body_above_three_mebibytes_is_refused(server: Server) -> None:
    """A body above 3 MiB is 413, whatever its content."""
    body = {"metadata": meta(server, "node", annotations={"a": "x" * (3 * 2**20)})}
    result = await server.refused(413, "RequestEntityTooLarge", "POST", NODES, body)
    assert result["message"] == "Request entity too large: limit is 3145728"


async def test_an_invalid_name_has_one_cause(server: Server) -> None:
    """An invalid name is 422 with one cause, whose message is in the full message."""
    for collection, body in ((NODES, {"kind": "Node", "apiVersion": "v1"}), (CLAIMS, claim_body(server))):
        result = await server.refused(422, "Invalid", "POST", collection, {**body, "metadata": {"name": "X_y"}})
        (cause,) = result["details"]["causes"]
        assert (cause["field"], cause["reason"]) == ("metadata.name", "FieldValueInvalid")
        assert cause["message"].startswith('Invalid value: "X_y": a lowercase RFC 1123 subdomain must consist of')
        assert result["message"].endswith(f'"X_y" is invalid: metadata.name: {cause["message"]}')


async def test_a_name_is_required(server: Server) -> None:
    """Without name and generateName the cause is a required name, and the details have no empty name."""
    result = await server.refused(422, "Invalid", "POST", NODES, {"metadata": {}})
    message = "Required value: name or generateName is required"
    assert result["details"] == {
        "kind": "Node",
        "causes": [{"reason": "FieldValueRequired", "message": message, "field": "metadata.name"}],
    }


async def test_all_invalid_labels_are_reported(server: Server) -> None:
    """Each invalid key and value is a cause of its own."""
    labels = {"a b": "c", "d": "e f", "x/y/z": "", "-a": "", "X.y/a": "", "long": "v" * 64}
    body = {"metadata": meta(server, "node", labels=labels)}
    result = await server.refused(422, "Invalid", "POST", NODES, body)
    assert all(cause["field"] == "metadata.labels" for cause in result["details"]["causes"])
    found = sorted({cause["message"].split(":")[1] for cause in result["details"]["causes"]})
    assert found == [' "-a"', ' "X.y/a"', ' "a b"', ' "e f"', f' "{"v" * 64}"', ' "x/y/z"']


async def test_annotations_have_a_maximum_size(server: Server) -> None:
    """Annotations of more than 256 KiB are refused."""
    body = {"metadata": meta(server, "node", annotations={"a": "x" * 2**18})}
    result = await server.refused(422, "Invalid", "POST", NODES, body)
    assert result["details"]["causes"][0]["field"] == "metadata.annotations"
    assert result["details"]["causes"][0]["reason"] == "FieldValueTooLong"


async def test_a_create_has_no_version(server: Server) -> None:
    """A create with a resourceVersion is refused."""
    for collection, body in ((NODES, {"metadata": {}}), (CLAIMS, claim_body(server))):
        sent = {**body, "metadata": meta(server, "x", resourceVersion="5")}
        result = await server.refused(500, "", "POST", collection, sent)
        assert result["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_dry_run_stores_nothing(server: Server) -> None:
    """The response of a dry run is the object, without a version."""
    answer = await server.request("POST", CLAIMS, claim_body(server), dryRun="All")
    assert answer.status == 201
    assert answer.body["spec"]["expireAfter"] == "720h"
    assert "resourceVersion" not in answer.body["metadata"]
    assert await server.absent(at(CLAIMS, answer.body))
    result = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server), dryRun="Some")
    assert result["details"]["causes"][0]["field"] == "dryRun"


async def test_the_response_of_a_delete(server: Server) -> None:
    """An object without finalizers is deleted at once, and the response is a Status with its uid."""
    made = await claim(server)
    result = await server.delete(at(CLAIMS, made))
    assert (result["kind"], result["status"]) == ("Status", "Success")
    assert result["details"] == {
        "name": made["metadata"]["name"],
        "group": "karpenter.sh",
        "kind": "nodeclaims",
        "uid": made["metadata"]["uid"],
    }
    assert await server.absent(at(CLAIMS, made))


async def test_a_name_can_be_reused(server: Server) -> None:
    """After a deletion the name is available; the next object of that name has another uid."""
    first = await claim(server)
    await server.delete(at(CLAIMS, first))
    second = await server.done("POST", CLAIMS, claim_body(server) | {"metadata": {"name": first["metadata"]["name"]}})
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_namespace_must_exist_and_match(server: Server) -> None:
    """A create in a namespace that does not exist, or with another namespace than in the path, is refused."""
    body = {"metadata": {"name": "x", "namespace": "nope"}}
    path = LEASES.replace("default", "nope")
    result = await server.refused(404, "NotFound", "POST", path, body)
    assert result["details"] == {"name": "nope", "kind": "namespaces"}
    result = await server.refused(400, "BadRequest", "POST", LEASES, {"metadata": {"name": "x", "namespace": "nope"}})
    assert result["message"].startswith(
        "the namespace of the provided object does not match the namespace sent on the "
    )


async def test_a_namespace_that_is_ending_takes_nothing_new_and_goes_empty(server: Server) -> None:
    """In a terminating namespace objects are deleted, creates are 403, and the namespace is deleted last."""
    name = server.name("ns")
    await server.done("POST", NAMESPACES, {"metadata": {"name": name}})
    inside = EVENTS.replace("default", name)
    body = {"metadata": {"name": "e", "finalizers": ["example.com/a"]}, "involvedObject": {"namespace": name}}
    await server.done("POST", inside, body)
    await server.delete(f"{NAMESPACES}/{name}")
    async with server.stream(inside) as watch:
        await watch.until(lambda event: "deletionTimestamp" in event.object["metadata"])
    result = await server.refused(403, "Forbidden", "POST", inside, body | {"metadata": {"name": "late"}})
    assert "because it is being terminated" in result["message"]
    async with server.stream(NAMESPACES, fieldSelector=f"metadata.name={name}") as watch:
        await server.patch(f"{inside}/e", {"metadata": {"finalizers": None}})
        await watch.until(lambda event: event.type == "DELETED")


async def test_an_unsupported_method_is_405(server: Server) -> None:
    """POST to an object and PUT to a collection are 405."""
    for method, path in (("POST", f"{NODES}/x"), ("PUT", NODES)):
        result = await server.refused(405, "MethodNotAllowed", method, path, {})
        assert result["message"] == "the server does not allow this method on the requested resource"


async def test_a_wrong_token_is_401(server: Server) -> None:
    """A wrong token gets a Status with the reason Unauthorized."""
    result = await server.refused(401, "Unauthorized", "GET", NODES, token="wrong")
    assert result["message"] == "Unauthorized"


async def test_an_unsupported_accept_header_is_406(server: Server) -> None:
    """A request for HTML is 406."""
    await server.refused(406, "NotAcceptable", "GET", NODES, accept="text/html")
