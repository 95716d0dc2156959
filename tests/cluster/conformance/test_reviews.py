"""SelfSubjectReview and SelfSubjectAccessReview: answered and never stored."""

import pytest

from .server import Json, Server

pytestmark = pytest.mark.asyncio

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def who() -> Json:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def may(**spec: object) -> Json:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def test_self_subject_review(server: Server) -> None:
    """The response is 201 with a user name and groups, without name and uid."""
    answer = await server.request("POST", WHO, who())
    assert answer.status == 201
    assert answer.body["kind"] == "SelfSubjectReview"
    user = answer.body["status"]["userInfo"]
    assert user["username"]
    assert "system:authenticated" in user["groups"]
    assert not {"name", "uid", "resourceVersion"} & set(answer.body["metadata"])


ATTRIBUTES = [
    {"group": "karpenter.sh", "resource": "nodeclaims", "verb": "watch"},
    {"group": "karpenter.sh", "resource": "nodeclaims", "subresource": "status", "verb": "patch"},
    {"resource": "nodes", "verb": "delete", "name": "some-node"},
    {"group": "coordination.k8s.io", "resource": "leases", "verb": "create", "namespace": "kube-system"},
    {"group": "nowhere.example.com", "resource": "things", "verb": "juggle"},
]


@pytest.mark.parametrize(
    "attributes", ATTRIBUTES, ids=lambda attributes: f"{attributes['verb']} {attributes['resource']}"
)
async def test_an_administrator_may_do_everything(server: Server, attributes: Json) -> None:
    """An administrator is allowed every request, existing resource or not; the response has the request's spec."""
    answer = await server.request("POST", MAY, may(resourceAttributes=attributes))
    assert answer.status == 201
    assert answer.body["kind"] == "SelfSubjectAccessReview"
    assert answer.body["spec"] == {"resourceAttributes": attributes}
    assert answer.body["status"]["allowed"] is True


async def test_non_resource_paths(server: Server) -> None:
    """A review of the path `/version` is answered."""
    result = await server.done("POST", MAY, may(nonResourceAttributes={"path": "/version", "verb": "get"}))
    assert result["status"]["allowed"] is True


WRONG = [
    (
        {},
        "spec.resourceAttributes",
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    (
        {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}},
        "spec.nonResourceAttributes",
        'Invalid value: {"Path":"","Verb":"get"}: cannot be specified in combination with resourceAttributes',
    ),
]


@pytest.mark.parametrize(("spec", "field", "message"), WRONG, ids=["none", "both"])
async def test_a_review_needs_exactly_one_subject(server: Server, spec: Json, field: str, message: str) -> None:
    """A review of nothing, or of a resource and a path, is 422 with the rule."""
    result = await server.refused(422, "Invalid", "POST", MAY, may(**spec))
    assert result["message"] == f'.authorization.k8s.io "" is invalid: {field}: {message}'
    (cause,) = result["details"]["causes"]
    assert (cause["field"], cause["message"]) == (field, message)
    assert {key: result["details"].get(key) for key in ("group", "kind", "name")} == {
        "group": "authorization.k8s.io",
        "kind": None,
        "name": None,
    }


@pytest.mark.parametrize("path", [WHO, MAY])
async def test_reviews_cannot_be_listed(server: Server, path: str) -> None:
    """A GET of reviews is refused."""
    await server.refused(405, "MethodNotAllowed", "GET", path)


@pytest.mark.parametrize("path", [WHO, MAY])
async def test_reviews_need_a_valid_token(server: Server, path: str) -> None:
    """A wrong token is refused with 401."""
    await server.refused(401, "Unauthorized", "POST", path, may(), token="wrong")


async def test_a_body_of_another_kind_is_refused(server: Server) -> None:
    """A body that is no JSON object is 400."""
    assert (await server.request("POST", MAY, b"[]")).status == 400
