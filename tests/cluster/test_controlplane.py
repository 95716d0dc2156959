"""The control plane of the tests: it is real, it enforces our chart's roles, and it survives restarts."""

import pytest

from .controlplane import ControlPlane

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


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
