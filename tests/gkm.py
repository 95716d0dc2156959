"""The GPU Kernel Manager (GKM) as tests need it: CRDs with its names, and the objects that its agent and Jobs write.

The schemas are open ones of this project. With GKM_CRDS=<folder>, the folder `config/crd/bases` of a clone of GKM, its
own CRDs are installed instead.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

from typing import Any

from tests.custom_resources import OPEN, crd, given

Json = dict[str, Any]

GROUP, VERSION = "gkm.io", "v1alpha1"
CACHES, CACHE_NODES = f"gkmcaches.{GROUP}", f"gkmcachenodes.{GROUP}"
DIGEST = "sha256:4d0f"
# GKM's finalizers: on a cache until no Node has it, on the object of a Node until its cache is deleted.
CACHE_FINALIZER = "gkm.io.gkmcachenode/finalizer"

GPU_TAINT = {"key": "example.com/gpu-not-ready", "effect": "NoSchedule"}
CACHE_TAINT = {"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}
COUNTS = ("nodeErrorCnt", "nodeInUseCnt", "nodeNotInUseCnt", "podDeletingCnt", "podOutdatedCnt", "podRunningCnt")
STATES = ("Extracted", "Running", "Outdated")


def crds() -> tuple[Json, ...]:
    """GKMCache, GKMCacheNode and their cluster-scoped forms."""
    return given("GKM_CRDS") or (
        crd(GROUP, VERSION, "GKMCache", {"spec": OPEN, "status": OPEN}, namespaced=True),
        crd(GROUP, VERSION, "GKMCacheNode", {"status": OPEN}, namespaced=True),
        crd(GROUP, VERSION, "ClusterGKMCache", {"spec": OPEN, "status": OPEN}),
        crd(GROUP, VERSION, "ClusterGKMCacheNode", {"status": OPEN}),
    )


def rules(cache: str, namespace: str, **more: Any) -> list[Json]:
    """The rules of docs/how-to/gkm.md: GPUs first, then the cache, which must fit a GPU."""
    place = f".status.caches.{cache}.*"
    found = {"group": GROUP, "version": VERSION, "resource": "gkmcachenodes", "namespace": namespace}
    state = f'{{{place}.pvcStatus.*.conditions[?(@.status=="True")].type}}'
    return [
        {"taint": GPU_TAINT, "until": {"resource": {"name": "nvidia.com/gpu", "count": 1}}, **more},
        {"taint": CACHE_TAINT, "until": {"object": {**found, "jsonPath": state, "oneOf": list(STATES)}}, **more},
        {"taint": CACHE_TAINT, "until": {"object": {**found, "jsonPath": f"{{{place}.compatibleGPUs[*]}}"}}, **more},
    ]


def cache(name: str, namespace: str, *tolerations: Json) -> Json:
    """A GKMCache whose Jobs have these tolerations."""
    template = {"spec": {"tolerations": list(tolerations)}} if tolerations else {}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "GKMCache",
        "metadata": {"name": name, "namespace": namespace, "finalizers": [CACHE_FINALIZER]},
        "spec": {
            "image": "registry.example.com/kernels:1",
            "storageClassName": "managed-csi",
            **({"podTemplate": template} if template else {}),
        },
    }


def cache_node(node: str, namespace: str, *caches: str) -> Json:
    """The object that the agent creates for its Node."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "GKMCacheNode",
        "metadata": {
            "name": node,
            "namespace": namespace,
            "labels": {"kubernetes.io/hostname": node},
            "finalizers": [f"gkm.io.{name}/finalizer" for name in caches],
        },
    }


def cache_status(node: str, namespace: str, cache: str, state: str, *, gpus: tuple[int, ...] = (0,)) -> Json:
    """The status that the agent writes: the type of the one condition is the state."""
    condition = {
        "type": state,
        "status": "True",
        "reason": state,
        "message": state,
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    found: Json = {
        "pvcStatus": {namespace: {"jobName": f"{cache}-job", "conditions": [condition]}},
        "lastUpdated": "2026-03-01T12:00:00Z",
    }
    if gpus:
        found["compatibleGPUs"] = list(gpus)
    return {"nodeName": node, "counts": {"nodeCnt": 1, **dict.fromkeys(COUNTS, 0)}, "caches": {cache: {DIGEST: found}}}


def toleration(taint: Json) -> Json:
    """A toleration of this taint."""
    return {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}


def job_pod(name: str, namespace: str, node: str, *tolerations: Json) -> Json:
    """The pod of a Job of GKM: it is pinned to its Node by the label of its name, and requests no GPU."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"node": node, "digest": "4d0f"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": list(tolerations),
            "restartPolicy": "OnFailure",
            "containers": [{"name": "extract", "image": "extract"}],
        },
    }
