"""Reviews: questions in the shape of objects, about the caller; answered and never stored."""

import pytest

from .server import Json, Server

pytestmark = pytest.mark.asyncio

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def who() -> Json:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def may(**spec: object) -> Json:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def test_who_one_is(server: Server) -> None:
    """201, a name and groups; no name and no uid, for nothing is stored."""
    answer = await server.request("POST", WHO, who())
    assert answer.status == 201
    assert answer.body["kind"] == "SelfSubjectReview"
    user = answer.body["status"]["userInfo"]
    assert user["username"]
    assert "system:authenticated" in user["groups"]
    assert not {"name", "uid", "resourceVersion"} & set(answer.body["metadata"])


ASKED = [
    {"group": "karpenter.sh", "resource": "nodeclaims", "verb": "watch"},
    {"group": "karpenter.sh", "resource": "nodeclaims", "subresource": "status", "verb": "patch"},
    {"resource": "nodes", "verb": "delete", "name": "some-node"},
    {"group": "coordination.k8s.io", "resource": "leases", "verb": "create", "namespace": "kube-system"},
    {"group": "nowhere.example.com", "resource": "things", "verb": "juggle"},
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: f"{asked['verb']} {asked['resource']}")
async def test_what_an_administrator_may_do(server: Server, asked: Json) -> None:
    """Everything, existing or not; the answer repeats the question."""
    answer = await server.request("POST", MAY, may(resourceAttributes=asked))
    assert answer.status == 201
    assert answer.body["kind"] == "SelfSubjectAccessReview"
    assert answer.body["spec"] == {"resourceAttributes": asked}
    assert answer.body["status"]["allowed"] is True


async def test_paths_can_be_asked_for_too(server: Server) -> None:
    """`/version` is no resource."""
    said = await server.done("POST", MAY, may(nonResourceAttributes={"path": "/version", "verb": "get"}))
    assert said["status"]["allowed"] is True


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


@pytest.mark.parametrize(("spec", "field", "words"), WRONG, ids=["none", "both"])
async def test_a_question_about_nothing_or_two_things(server: Server, spec: Json, field: str, words: str) -> None:
    """422, with the rule in words, about a field of no kind."""
    said = await server.refused(422, "Invalid", "POST", MAY, may(**spec))
    assert said["message"] == f'.authorization.k8s.io "" is invalid: {field}: {words}'
    (cause,) = said["details"]["causes"]
    assert (cause["field"], cause["message"]) == (field, words)
    assert {key: said["details"].get(key) for key in ("group", "kind", "name")} == {
        "group": "authorization.k8s.io",
        "kind": None,
        "name": None,
    }


@pytest.mark.parametrize("path", [WHO, MAY])
async def test_reviews_cannot_be_read(server: Server, path: str) -> None:
    """There is nothing to list."""
    await server.refused(405, "MethodNotAllowed", "GET", path)


@pytest.mark.parametrize("path", [WHO, MAY])
async def test_nobody_is_told_without_a_token(server: Server, path: str) -> None:
    """A wrong token is refused before any question is answered."""
    await server.refused(401, "Unauthorized", "POST", path, may(), token="wrong")


async def test_a_body_of_another_kind_is_refused(server: Server) -> None:
    """What is no JSON object is a 400."""
    assert (await server.request("POST", MAY, b"[]")).status == 400
