"""A GPU kernel cache on a new machine, with the GPU Kernel Manager (GKM) played by the test: its agent and operator
write objects, its Jobs are pods that kube-scheduler places. Runs in the simulator and on a real API server.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from provisioner.api import labels
from tests import gkm
from tests.world.claims import ready
from tests.world.demand import TAINT, TOLERATION, pod
from tests.world.harness import node_claim

from .stories import CLASSES, LONG, Scene, is_ready

Json = dict[str, Any]
NAMESPACE = "default"
CACHE = "vllm"
REFERENCE = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "gkm"}
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


async def s3_acceptance(scene: Scene, doctor: Callable[[], Awaitable[str]] | None = None) -> None:
    """The Job is Pending without its toleration and runs with it; the workload starts when the cache is extracted.

    The deletion of the NodeClaim lets GKM remove the cache. `doctor`: creates the Job of the pod that waits, and
    returns the report of the command.
    """
    stage, store = scene.stage, scene.stage.store
    rules = {"readiness": gkm.rules(CACHE, NAMESPACE)}
    await stage.apply(
        {
            "apiVersion": "gpu-provisioner.sh/v1alpha1",
            "kind": "AgentPoolNodeClass",
            "metadata": {"name": "gkm"},
            "spec": rules,
        }
    )
    await stage.until(lambda: is_ready(stage, CLASSES, "gkm"), 60, "the node class is Ready")
    store.create(gkm.CACHES, gkm.cache(CACHE, NAMESPACE), NAMESPACE)
    workload = pod("workload", nodeSelector={labels.AKS_AGENTPOOL: scene.name})
    store.create("pods", workload, NAMESPACE)
    await stage.apply(node_claim(scene.name, nodeClassRef=REFERENCE, taints=[TAINT]))

    def taints() -> list[str]:
        return [taint["key"] for node in stage.nodes_of(scene.name) for taint in node["spec"].get("taints") or ()]

    def running(name: str) -> bool:
        return bool(((store.get("pods", name, NAMESPACE) or {}).get("status") or {}).get("phase") == "Running")

    def unscheduled(name: str) -> str:
        status = (store.get("pods", name, NAMESPACE) or {}).get("status") or {}
        found = (
            c["message"]
            for c in status.get("conditions") or ()
            if (c["type"], c["status"]) == ("PodScheduled", "False")
        )
        return next(found, "")

    # GPUs first: the agent, which does not tolerate this taint, starts when it is gone.
    await stage.until(lambda: "gkm.io/cache-not-ready" in taints(), LONG, "the Node bears the taints")
    await stage.until(lambda: gkm.GPU_TAINT["key"] not in taints(), LONG, "the GPU taint is removed")
    node = scene.node()["metadata"]["name"]
    store.create(gkm.CACHE_NODES, gkm.cache_node(node, NAMESPACE, CACHE), NAMESPACE)
    store.create("pods", gkm.job_pod("extract-1", NAMESPACE, node, TOLERATION), NAMESPACE)
    await stage.until(lambda: "untolerated taint" in unscheduled("extract-1"), 60, "the Job is Pending, by the taint")
    assert gkm.CACHE_TAINT["key"] in taints()
    if doctor is not None:
        report = await doctor()
        assert "extract-1" in report, report
        assert gkm.CACHE_TAINT["key"] in report, report

    # With podTemplate, GKM creates the Job anew.
    tolerations = [gkm.toleration(gkm.CACHE_TAINT), TOLERATION]
    template = {"spec": {"podTemplate": {"spec": {"tolerations": tolerations}}}}
    store.patch(gkm.CACHES, CACHE, template, NAMESPACE)
    store.delete("pods", "extract-1", NAMESPACE)
    store.create("pods", gkm.job_pod("extract-2", NAMESPACE, node, *tolerations), NAMESPACE)
    await stage.until(lambda: running("extract-2"), 120, "the Job runs")
    assert not running("workload")
    store.delete("pods", "extract-2", NAMESPACE)
    for state in ("Pending", "Extracted"):
        assert gkm.CACHE_TAINT["key"] in taints()
        status = gkm.cache_status(node, NAMESPACE, CACHE, state)
        store.patch(gkm.CACHE_NODES, node, {"status": status}, NAMESPACE, subresource="status")
    await stage.until(lambda: taints() == [TAINT["key"]], 60, "the cache taint is removed")
    uid = await ready(stage, scene.name)
    await stage.until(lambda: running("workload"), 120, "the workload runs")
    assert store.get("pods", "workload", NAMESPACE)["spec"]["nodeName"] == node

    # GKM's operator removes the finalizer of a cache that no object of a Node counts.
    store.delete("pods", "workload", NAMESPACE)
    await stage.delete_claim(scene.name)
    store.delete(gkm.CACHES, CACHE, NAMESPACE)
    await stage.until(lambda: not stage.pools_of(uid) and stage.claim(scene.name) is None, LONG, "the machine is gone")
    await stage.until(lambda: store.get(gkm.CACHE_NODES, node, NAMESPACE) is None, LONG, "the stale object is gone")
    assert "deletionTimestamp" in store.get(gkm.CACHES, CACHE, NAMESPACE)["metadata"]
    store.patch(gkm.CACHES, CACHE, {"metadata": {"finalizers": None}}, NAMESPACE)
    assert store.get(gkm.CACHES, CACHE, NAMESPACE) is None
