"""The behaviour of AKS agent pools that the provider relies on, as calls of the Azure SDK, against the service.

The facts are those of docs/references/agent-pools.md. With `AZURE_LIVE=1` the tests also run against a real cluster
(see `service.py`); otherwise those cases are skipped, and the summary of the run counts them.
"""

import json
from collections.abc import Awaitable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from .service import AZURE, EMULATOR, Service, service

RP = "/providers/Microsoft.ContainerService"
HEADERS = {"If-None-Match": "*"}

pytestmark = pytest.mark.parametrize("kind", [EMULATOR, AZURE])


async def refusal(call: Awaitable[object]) -> tuple[int, str, dict[str, Any]]:
    """Status, code and body of a rejected call."""
    with pytest.raises(HttpResponseError) as caught:
        await call
    error = caught.value
    body = json.loads(error.response.text())
    inner = body.get("error", body)
    return int(error.status_code or 0), inner["code"], body


def pools_path(azure: Service, group: str = "", cluster: str = "") -> str:
    return f"/resourceGroups/{group or azure.group}{RP}/managedClusters/{cluster or azure.cluster}/agentPools"


@pytest.mark.asyncio
async def test_a_new_pool_is_201_and_creating(kind: str) -> None:
    """The body is complete; Azure-AsyncOperation is the only header of the operation."""
    async with service(kind) as azure:
        pool = await azure.put("ct01")
        assert azure.last.status_code == 201
        assert azure.last.headers["Azure-AsyncOperation"].startswith("http")
        assert "Location" not in azure.last.headers
        assert pool.provisioning_state == "Creating"
        assert pool.power_state.code == "Running"
        assert (pool.os_disk_size_gb or 0) > 0
        assert pool.max_pods
        assert pool.e_tag


@pytest.mark.asyncio
async def test_ids_and_sizes_are_echoed_as_recorded(kind: str) -> None:
    """Lower-case `resourcegroups`, the ARM type, the size in the case of the request."""
    async with service(kind) as azure:
        size = azure.size.upper().replace("STANDARD", "Standard")
        pool = await azure.put("ct02", vm_size=size)
        assert "/resourcegroups/" in pool.id
        assert pool.type == "Microsoft.ContainerService/managedClusters/agentPools"
        assert pool.vm_size == size


@pytest.mark.asyncio
async def test_the_body_of_an_operation(kind: str) -> None:
    """Another api-version and a long query; name, status, startTime, and endTime once it has ended."""
    async with service(kind) as azure:
        await azure.put("ct03")
        url = azure.last.headers["Azure-AsyncOperation"]
        path, query = url.split(f"/subscriptions/{azure.subscription}")[1].split("?")
        assert "api-version=2026-08-01" not in query
        assert len(query) > 1000
        body = json.loads((await azure.ask(path, query=query)).text())
        assert set(body) == {"name", "status", "startTime"}
        assert body["status"] == "InProgress"
        await azure.become("ct03", "Succeeded")
        body = json.loads((await azure.ask(path, query=query)).text())
        assert (body["status"], "endTime" in body) == ("Succeeded", True)


@pytest.mark.asyncio
async def test_if_none_match_protects_an_existing_pool(kind: str) -> None:
    """PUT with `*` on an existing pool is 412 PreConditionFailed, and changes nothing."""
    async with service(kind) as azure:
        await azure.put("ct04", headers=HEADERS)
        made = await azure.become("ct04", "Succeeded")
        assert (await refusal(azure.put("ct04", headers=HEADERS)))[:2] == (412, "PreConditionFailed")
        assert (await azure.get("ct04")).e_tag == made.e_tag


@pytest.mark.asyncio
async def test_the_matrix_of_preconditions(kind: str) -> None:
    """If-Match on an absent pool 412; If-None-Match other than `*` 400; both together 400."""
    async with service(kind) as azure:
        assert (await refusal(azure.put("ct05", headers={"If-Match": '"x"'})))[0] == 412
        assert (await refusal(azure.put("ct05", headers={"If-None-Match": '"x"'})))[0] == 400
        both = {"If-Match": '"x"', "If-None-Match": "*"}
        assert (await refusal(azure.put("ct05", headers=both)))[0] == 400


@pytest.mark.asyncio
async def test_the_etag_changes_with_every_operation(kind: str) -> None:
    """The ETag, and what If-Match accepts, changes from Creating to Succeeded."""
    async with service(kind) as azure:
        began = await azure.put("ct06")
        ended = await azure.become("ct06", "Succeeded")
        assert began.e_tag != ended.e_tag
        stale, fresh = ({"If-Match": f'"{pool.e_tag}"'} for pool in (began, ended))
        assert (await refusal(azure.delete("ct06", headers=stale)))[:2] == (412, "PreConditionFailed")
        assert await azure.delete("ct06", headers=fresh) == 202


@pytest.mark.asyncio
async def test_a_write_during_an_operation_conflicts(kind: str) -> None:
    """409 OperationNotAllowed, with a message about the operation in progress."""
    async with service(kind) as azure:
        await azure.put("ct07")
        status, code, body = await refusal(azure.put("ct07", node_labels={"a": "b"}))
        assert (status, code) == (409, "OperationNotAllowed")
        assert "in progress" in json.dumps(body)


@pytest.mark.asyncio
async def test_a_removal_is_202_empty_then_deleting_then_404(kind: str) -> None:
    """Both operation headers, no body."""
    async with service(kind) as azure:
        await azure.put("ct08")
        await azure.become("ct08", "Succeeded")
        assert await azure.delete("ct08") == 202
        assert {"azure-asyncoperation", "location"} <= {name.lower() for name in azure.last.headers}
        assert azure.last.text() == ""
        assert (await azure.get("ct08")).provisioning_state == "Deleting"
        assert await azure.become("ct08", "") is None


@pytest.mark.asyncio
async def test_an_absent_pool(kind: str) -> None:
    """GET is 404 with a body that names the absent pool, DELETE is 204."""
    async with service(kind) as azure:
        status, code, body = await refusal(azure.get("ct09"))
        assert status == 404
        flat = code == "NotFound" and "error" not in body and "Agent Pool not found" in body["message"]
        assert flat or (code == "ResourceNotFound" and "/agentPools/ct09" in body["error"]["message"])
        assert await azure.delete("ct09") == 204


@pytest.mark.asyncio
async def test_404s_of_cluster_group_and_subscription(kind: str) -> None:
    """Wrapped bodies from the gateway, which do not name the pool."""
    async with service(kind) as azure:
        nobody = "11111111-2222-3333-4444-555555555555"
        for path, about, codes in (
            (pools_path(azure, cluster="ctnone"), "", {"ResourceNotFound", "ParentResourceNotFound"}),
            (pools_path(azure, group="ctnone"), "", {"ResourceGroupNotFound"}),
            (pools_path(azure), nobody, {"SubscriptionNotFound", "InvalidSubscriptionId"}),
        ):
            response = await azure.ask(path, subscription=about)
            assert response.status_code == 404
            assert json.loads(response.text())["error"]["code"] in codes
            assert response.headers["x-ms-failure-cause"] == "gateway"


@pytest.mark.asyncio
async def test_the_list_is_one_object_with_value(kind: str) -> None:
    """`value` has all pools; an empty or absent nextLink ends it."""
    async with service(kind) as azure:
        await azure.put("ct11")
        body = json.loads((await azure.ask(pools_path(azure))).text())
        assert "ct11" in {pool["name"] for pool in body["value"]}
        assert not body.get("nextLink")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Ct12", {}),
        ("ct12toolongby1", {}),
        ("ct12", {"node_labels": {"kubernetes.azure.com/mine": "x"}}),
        ("ct12", {"node_taints": ["no-effect"]}),
        ("ct12", {"count": -1}),
        ("ct12", {"os_disk_size_gb": 10}),
        ("ct12", {"os_sku": "Slackware"}),
    ],
)
async def test_invalid_fields_are_rejected(kind: str, name: str, changes: dict[str, Any]) -> None:
    """Names, labels, taints, counts, disks and enumerations: 400, and no pool."""
    async with service(kind) as azure:
        assert (await refusal(azure.put(name, **changes)))[0] == 400
        assert name not in {pool.name async for pool in azure.pools.list(azure.group, azure.cluster)}


@pytest.mark.asyncio
async def test_create_only_fields_cannot_be_changed(kind: str) -> None:
    """Another number of pods per node is 400."""
    async with service(kind) as azure:
        await azure.put("ct13", max_pods=40)
        await azure.become("ct13", "Succeeded")
        assert (await refusal(azure.put("ct13", max_pods=50)))[0] == 400


@pytest.mark.asyncio
async def test_responses_have_request_ids_and_remaining_reads(kind: str) -> None:
    """Request and correlation ids, and the remaining reads of ARM."""
    async with service(kind) as azure:
        headers = (await azure.ask(pools_path(azure))).headers
        assert headers["x-ms-request-id"]
        assert headers["x-ms-correlation-request-id"]
        assert int(headers["x-ms-ratelimit-remaining-subscription-reads"]) > 0


@pytest.mark.asyncio
async def test_a_call_without_api_version_is_rejected(kind: str) -> None:
    """400 MissingApiVersionParameter."""
    async with service(kind) as azure:
        response = await azure.ask(pools_path(azure), query="")
        assert response.status_code == 400
        assert json.loads(response.text())["error"]["code"] == "MissingApiVersionParameter"


@pytest.mark.asyncio
async def test_puts_of_a_pool_are_throttled_and_reads_are_not(kind: str) -> None:
    """At the latest the 30th consecutive PUT of one pool is 429 `Throttled`, with whole seconds."""
    async with service(kind) as azure:
        await azure.put("ct16")
        heard: list[tuple[int, str]] = []
        while len(heard) < 30 and not any(status == 429 for status, _ in heard):
            heard.append((await refusal(azure.put("ct16", headers=HEADERS)))[:2])
        assert heard[-1] == (429, "Throttled")
        assert int(azure.last.headers["Retry-After"]) >= 1
        assert (await azure.get("ct16")).name == "ct16"


@pytest.mark.asyncio
async def test_the_upgrade_profile_names_the_newest_image(kind: str) -> None:
    """A new pool has the newest node image, and the Kubernetes version of the control plane."""
    async with service(kind) as azure:
        await azure.put("ct15")
        pool = await azure.become("ct15", "Succeeded")
        profile = await azure.pools.get_upgrade_profile(azure.group, azure.cluster, "ct15")
        assert profile.latest_node_image_version == pool.node_image_version
        name, _, release = pool.node_image_version.rpartition("-")
        assert (name.startswith("AKS"), release.count(".")) == (True, 2)
        cluster = await azure.client.managed_clusters.get(azure.group, azure.cluster)
        assert pool.current_orchestrator_version == cluster.current_kubernetes_version
