"""Deletes everything that tests create between two tests, finalizers or not.

Afterwards the server has what it had at the start: our CRDs and our chart's roles. With nothing to delete it costs one
LIST of metadata for each kind.
"""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp

    from .controlplane import ControlPlane

Json = dict[str, Any]

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
OWN_CRDS = frozenset(
    {
        "nodeclaims.karpenter.sh",
        "nodepools.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "kaitonodeclasses.kaito.sh",
        "agentpoolnodeclasses.gpu-provisioner.sh",
    }
)
OWN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", "gpu-provisioner"})
# Owners before their dependents, so that nothing is created again.
KINDS = (
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses",
    "/apis/kaito.sh/v1alpha1/kaitonodeclasses",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/api/v1/nodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACES = "/api/v1/namespaces"
SYSTEM_LEASES = ("apiserver-",)
GONE_SECONDS = 300.0
AT_ONCE = 50
AGAIN_SECONDS = 0.5


async def wipe(cp: "ControlPlane") -> None:
    """Delete all of it. Raises TimeoutError if an object is not gone in time."""
    async with cp.session() as session, asyncio.timeout(GONE_SECONDS):
        for kind in KINDS:
            while found := [item for item in await _items(session, kind) if not _is_systems(kind, item)]:
                await _remove(session, kind, found)
        crds = await _items(session, CRDS)
        await _remove(session, CRDS, [crd for crd in crds if crd["metadata"]["name"] not in OWN_CRDS])
        namespaces = await _items(session, NAMESPACES)
        await _remove(session, NAMESPACES, [one for one in namespaces if one["metadata"]["name"] not in OWN_NAMESPACES])


def _is_systems(kind: str, item: Json) -> bool:
    return kind.endswith("/leases") and item["metadata"]["name"].startswith(SYSTEM_LEASES)


async def _items(session: "aiohttp.ClientSession", kind: str) -> list[Json]:
    async with session.get(kind, headers={"Accept": METADATA}) as answer:
        if answer.status == 404:
            return []
        if answer.status == 429:  # a restarted server is ready before its custom resources are
            await asyncio.sleep(AGAIN_SECONDS)
            return await _items(session, kind)
        assert answer.status == 200, await answer.text()
        # An empty list of metadata is `null` on the real server.
        items: list[Json] = (await answer.json())["items"] or []
        return items


async def _remove(session: "aiohttp.ClientSession", kind: str, items: list[Json]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        for item in items:
            tasks.create_task(_remove_one(session, kind, item["metadata"], limit))


async def _remove_one(session: "aiohttp.ClientSession", kind: str, meta: Json, limit: asyncio.Semaphore) -> None:
    path = _path(kind, meta)
    async with limit:
        if meta.get("finalizers"):
            patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
            headers = {"Content-Type": "application/merge-patch+json"}
            async with session.patch(path, json=patch, headers=headers) as answer:
                assert answer.status in {200, 404, 409}, await answer.text()
        async with session.delete(path, json={"gracePeriodSeconds": 0}) as answer:
            assert answer.status in {200, 202, 404, 409}, await answer.text()


def _path(kind: str, meta: Json) -> str:
    root, plural = kind.rsplit("/", 1)
    if namespace := meta.get("namespace"):
        return f"{root}/namespaces/{namespace}/{plural}/{meta['name']}"
    return f"{kind}/{meta['name']}"
