"""The control plane of the tests: it is real, it enforces our chart's roles, and it survives restarts."""

import pytest

from .backend import Backend
from .controlplane import ControlPlane

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


@pytest.mark.asyncio
async def test_both_back_ends_serve_our_kinds(backend: Backend) -> None:
    """Each back end serves NodeClaims to its administrator, and a watch begins with the existing objects."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    made = await backend.demand("POST", "/api/v1/nodes", node)
    assert await backend.demand("GET", CLAIMS) is not None
    async with backend.stream("/api/v1/nodes?watch=1&allowWatchBookmarks=true") as stream:
        (event,) = await stream.until("ADDED")
    assert event["object"]["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.cluster
@pytest.mark.asyncio
async def test_the_service_account_has_the_charts_rights_only(cluster: ControlPlane) -> None:
    """Our service account may list claims and not Secrets."""
    token = cluster.controller_token
    assert (await cluster.request("GET", CLAIMS, token=token))[0] == 200
    status, answer = await cluster.request("GET", "/api/v1/secrets", token=token)
    assert (status, answer["reason"]) == (403, "Forbidden")


@pytest.mark.cluster
@pytest.mark.asyncio
async def test_state_survives_a_restart(cluster: ControlPlane) -> None:
    """After a compaction and a restart of the API server a Node is unchanged; a wipe deletes it."""
    made = await cluster.demand("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "finalizers": ["a/b"]}})
    await cluster.compact_etcd()
    await cluster.restart_apiserver()
    found = await cluster.demand("GET", "/api/v1/nodes/n1")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    await cluster.wipe()
    assert (await cluster.request("GET", "/api/v1/nodes/n1"))[0] == 404
