"""Discovery: the kinds of the server and their names, as kubectl reads them first."""

import asyncio
import json
from typing import Any

import pytest

from .server import Json, Server

pytestmark = pytest.mark.asyncio

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERBS = {"create", "delete", "get", "list", "patch", "update", "watch"}


async def read(server: Server, path: str, **options: Any) -> Json:
    """A document about the server, which need not have plain JSON as content type."""
    answer = await server.request("GET", path, **options)
    assert answer.status == 200, answer
    body: Json = answer.body if isinstance(answer.body, dict) else json.loads(answer.body)
    return body


async def aggregated(server: Server, path: str) -> dict[tuple[str, str], Json]:
    """Resources by group and plural."""
    body = await read(server, path, accept=AGGREGATED)
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    return {
        (group["metadata"].get("name", ""), resource["resource"]): {**resource, "version": version["version"]}
        for group in body["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }


async def test_aggregated_discovery(server: Server) -> None:
    """The aggregated form has names, short names, scope, categories and verbs of built-in kinds and of ours."""
    core, groups = await aggregated(server, "/api"), await aggregated(server, "/apis")
    expected: dict[tuple[str, str], dict[str, Any]] = {
        ("", "nodes"): {"scope": "Cluster", "singularResource": "node", "shortNames": ["no"]},
        ("", "pods"): {"scope": "Namespaced", "shortNames": ["po"], "categories": ["all"]},
        ("", "events"): {"scope": "Namespaced", "shortNames": ["ev"]},
        ("coordination.k8s.io", "leases"): {"scope": "Namespaced", "singularResource": "lease"},
        ("policy", "poddisruptionbudgets"): {"scope": "Namespaced", "shortNames": ["pdb"]},
        ("resource.k8s.io", "resourceslices"): {"scope": "Cluster", "version": "v1"},
        ("resource.k8s.io", "resourceclaims"): {"scope": "Namespaced", "singularResource": "resourceclaim"},
        ("resource.k8s.io", "resourceclaimtemplates"): {"scope": "Namespaced", "version": "v1"},
        ("resource.k8s.io", "deviceclasses"): {"scope": "Cluster", "version": "v1"},
        ("karpenter.sh", "nodeclaims"): {"scope": "Cluster", "categories": ["karpenter"], "version": "v1"},
        ("karpenter.sh", "nodepools"): {"scope": "Cluster", "categories": ["karpenter"], "version": "v1"},
        ("gpu-provisioner.sh", "agentpoolnodeclasses"): {
            "scope": "Cluster",
            "shortNames": ["apnc"],
            "version": "v1alpha1",
        },
        ("kaito.sh", "kaitonodeclasses"): {"scope": "Cluster", "shortNames": ["knc"], "version": "v1alpha1"},
    }
    for key, fields in expected.items():
        found = (core | groups)[key]
        assert {name: found[name] for name in fields} == fields
        assert set(found["verbs"]) >= VERBS
    assert groups["karpenter.sh", "nodeclaims"]["responseKind"] == {
        "group": "karpenter.sh",
        "version": "v1",
        "kind": "NodeClaim",
    }


async def test_subresources(server: Server) -> None:
    """A claim's status is listed, and a pod's eviction with the kind of its body."""
    core, groups = await aggregated(server, "/api"), await aggregated(server, "/apis")
    (status,) = groups["karpenter.sh", "nodeclaims"]["subresources"]
    assert status["subresource"] == "status"
    assert set(status["verbs"]) == {"get", "patch", "update"}
    eviction = next(s for s in core["", "pods"]["subresources"] if s["subresource"] == "eviction")
    assert eviction["responseKind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


async def test_the_older_form_is_equal(server: Server) -> None:
    """Discovery of each group has the same resources as the aggregated form."""
    found = await server.get("/apis/karpenter.sh/v1")
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "karpenter.sh/v1")
    by_name = {resource["name"]: resource for resource in found["resources"]}
    # The simulator does not serve scale.
    assert set(by_name) - {"nodepools/scale"} == {"nodeclaims", "nodeclaims/status", "nodepools", "nodepools/status"}
    claims = by_name["nodeclaims"]
    assert (claims["kind"], claims["namespaced"], claims["singularName"]) == ("NodeClaim", False, "nodeclaim")
    group = await server.get("/apis/karpenter.sh")
    assert group["preferredVersion"] == {"groupVersion": "karpenter.sh/v1", "version": "v1"}
    assert (await server.get("/api"))["versions"] == ["v1"]
    groups = {group["name"] for group in (await server.get("/apis"))["groups"]}
    assert groups >= {"karpenter.sh", "kaito.sh", "policy", "coordination.k8s.io", "apiextensions.k8s.io"}


async def test_unknown_groups_and_versions_are_404(server: Server) -> None:
    """An unknown group or version is 404 as plain text."""
    for path in ("/apis/nope.example", "/apis/karpenter.sh/v2", "/nope"):
        answer = await server.request("GET", path)
        assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_version_and_health(server: Server) -> None:
    """/version has numbers; /readyz, /livez and /healthz answer `ok` to unauthenticated clients."""
    version = await server.get("/version")
    assert version["major"] == "1"
    assert int(version["minor"].rstrip("+")) >= 34
    for path in ("/readyz", "/livez", "/healthz"):
        answer = await server.request("GET", path, token="")
        assert (answer.status, answer.body) == (200, "ok")


async def test_openapi_of_a_claim(server: Server) -> None:
    """OpenAPI v3 has our descriptions, and shows kubectl that the server validates fields."""
    async with asyncio.timeout(300):
        # The real server publishes the documents of CRDs some time after it has accepted them.
        while "apis/karpenter.sh/v1" not in (index := await read(server, "/openapi/v3"))["paths"]:  # noqa: ASYNC110 - another process publishes it
            await asyncio.sleep(0.2)
    document = await read(server, index["paths"]["apis/karpenter.sh/v1"]["serverRelativeURL"].partition("?")[0])
    schema = document["components"]["schemas"]["sh.karpenter.v1.NodeClaim"]
    assert "immutable" not in schema["description"]
    assert schema["properties"]["spec"]["description"] == "NodeClaimSpec describes the desired state of the NodeClaim"
    (kind,) = schema["x-kubernetes-group-version-kind"]
    assert kind == {"group": "karpenter.sh", "version": "v1", "kind": "NodeClaim"}
    patch = document["paths"]["/apis/karpenter.sh/v1/nodeclaims/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
