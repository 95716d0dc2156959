"""Scenarios that run unchanged in the simulator on virtual time and on a real API server.

Each uses only what both environments have (`realworld.RealWorld`) and its own claim and pool, so that several can run
at once with one controller.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure.faults import Fault
from tests.world.claims import CLAIMS, condition, events, ready, removed, versions, wait_for_condition, word
from tests.world.demand import T4, node_class, node_pool
from tests.world.demand import pod as pending_pod
from tests.world.harness import SIZE, Sim, node_claim
from tests.world.transcript import BUDGETS, claim_condition, deleting, finalizers, run_pod

from .realworld import RealWorld

Json = dict[str, Any]
Stage = Sim | RealWorld

POOLS, CLASSES = "nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh"
OVERLAYS = "nodeoverlays.karpenter.sh"
WHOLE = ["pool", "node", "claim"]
LONG = 900.0
SLOW_SECONDS = 1800.0
# More objects than this are read in one LIST.
ONE_BY_ONE = 10
OF_T4 = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}


@dataclass(frozen=True)
class Scene:
    """`a_while_seconds`: how long to check that nothing happens."""

    stage: Stage
    name: str
    a_while_seconds: float

    async def up(self) -> str:
        """Create a claim and wait until it is Ready; returns its UID."""
        await self.stage.apply(node_claim(self.name))
        return await ready(self.stage, self.name)

    async def went(self, uid: str, order: list[str], *, within_seconds: float = LONG) -> None:
        """Check that it is deleted in this order, and that nothing of it is left."""
        await self.stage.until(
            lambda: len(self.stage.audit_log.deletion_order(uid)) == len(order),
            within_seconds,
            f"{self.name} and its machine go",
        )
        found = self.stage.audit_log.deletion_order(uid)
        assert found == order, f"{self.name}: {found}\n{self.stage.describe(about=self.name)}"
        assert self.stage.claim(self.name) is None
        assert not self.stage.nodes_of(self.name)
        assert not self.stage.pools_of(uid)

    def node(self) -> Json:
        """The one Node of its pool."""
        (node,) = self.stage.nodes_of(self.name)
        return node

    def deleted_once(self) -> None:
        """Check that one DELETE was accepted; a pool that changed since the last LIST refuses an older ETag first."""
        assert [status for status in self.calls("DELETE") if status != 412] == [202]

    def calls(self, verb: str) -> list[int]:
        """The responses to this verb for its pool, in order."""
        return [call.status for call in self.stage.cloud.requests if (call.method, call.pool) == (verb, self.name)]


Story = Callable[[Scene], Awaitable[None]]


def health_taints(node: Json) -> list[Json]:
    """The taints that the node controller sets on an unhealthy Node."""
    unwell = (labels.NOT_READY_TAINT, labels.UNREACHABLE_TAINT)
    return [taint for taint in node["spec"].get("taints") or () if taint["key"] in unwell]


async def create_and_delete(scene: Scene) -> None:
    """A claim becomes a Ready GPU Node with the labels that Karpenter defines, and is removed in order."""
    uid = await scene.up()
    claim, node = scene.stage.claim(scene.name), scene.node()
    assert claim is not None
    meta, status = node["metadata"], claim["status"]
    assert (status["nodeName"], status["providerID"]) == (meta["name"], node["spec"]["providerID"])
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert [found["status"] for found in status["conditions"]] == ["True"] * 4
    assert meta["labels"][labels.CLAIM_UID] == uid
    assert (meta["labels"][labels.REGISTERED], meta["labels"][labels.INITIALIZED]) == ("true", "true")
    assert meta["labels"][labels.INSTANCE_TYPE] == SIZE == claim["metadata"]["labels"][labels.INSTANCE_TYPE]
    assert [owner["uid"] for owner in meta["ownerReferences"]] == [uid]
    assert finalizers(node) == finalizers(claim) == [labels.FINALIZER]
    await scene.stage.delete_claim(scene.name)
    await scene.went(uid, WHOLE)
    assert scene.calls("PUT") == [201]
    scene.deleted_once()


async def node_deleted(scene: Scene) -> None:
    """Deleting a Node removes its claim and pool, with an Event that states the cause."""
    uid = await scene.up()
    await scene.stage.delete_node(scene.node()["metadata"]["name"])
    await scene.stage.until(lambda: deleting(scene.stage.claim(scene.name)), 30, "the claim is deleted")
    await scene.went(uid, WHOLE)
    assert [event["type"] for event in events(scene.stage, scene.name, "NodeDeleted")] == ["Warning"]


async def pool_deleted_in_the_portal(scene: Scene) -> None:
    """When a user deletes the pool in the portal, its Node and claim are removed, and no second DELETE is sent."""
    uid = await scene.up()
    scene.stage.cloud.delete_pool_by_hand(scene.name)
    await scene.went(uid, WHOLE)
    assert not scene.calls("DELETE")


async def foreign_pool(scene: Scene) -> None:
    """A claim with the name of a foreign pool reports it, the pool is not written to, and the claim can be deleted."""
    pool = scene.stage.cloud.pools["theirs"]
    scene = Scene(scene.stage, "theirs", scene.a_while_seconds)
    await scene.stage.apply(node_claim(scene.name))
    await wait_for_condition(scene.stage, scene.name, "Launched", "False", "PoolNameTaken", within_seconds=30)
    await asyncio.sleep(scene.a_while_seconds)
    assert [event["count"] for event in events(scene.stage, scene.name, "PoolNameTaken")] == [1]
    await removed(scene.stage, scene.name, within_seconds=90)
    assert scene.calls("PUT") == scene.calls("DELETE") == []
    assert scene.stage.cloud.pools["theirs"] == pool
    assert scene.stage.nodes_of("theirs")


async def orphan_pool(scene: Scene) -> None:
    """When a claim is deleted without its finalizers, pool and Node are collected."""
    uid = await scene.up()
    # The claim is gone before its pool, however late the second request is.
    scene.stage.cloud.faults.append(Fault(verb="DELETE", pool=scene.name, operation_seconds=SLOW_SECONDS))
    await scene.stage.delete_claim(scene.name)
    body, merge = {"metadata": {"finalizers": None}}, "application/merge-patch+json"
    await scene.stage.request("PATCH", f"/apis/karpenter.sh/v1/nodeclaims/{scene.name}", body, content_type=merge)
    await scene.went(uid, ["claim", "pool", "node"], within_seconds=SLOW_SECONDS + LONG)
    scene.deleted_once()


async def unmanaged_claim(scene: Scene) -> None:
    """A claim of another class without a KAITO label gets no finalizer, no status and no ARM call."""
    foreign = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    claim = node_claim(scene.name, nodeClassRef=foreign)
    del claim["metadata"]["labels"]
    before = await scene.stage.apply(claim)
    await asyncio.sleep(scene.a_while_seconds)
    assert scene.stage.claim(scene.name) == before
    assert not [call for call in scene.stage.cloud.requests if call.pool == scene.name]
    await scene.stage.delete_claim(scene.name)
    assert scene.stage.claim(scene.name) is None


async def node_not_ready(scene: Scene) -> None:
    """A Node that is NotReady or unreachable sets Initialized and Ready to False in one write, and both recover."""
    seen = versions(scene.stage, scene.name)
    uid = await scene.up()
    node = scene.node()["metadata"]["name"]
    for state in (False, None):
        scene.stage.nodes.set_ready(node, state)
        await wait_for_condition(scene.stage, scene.name, "Initialized", "False", "NodeNotReady", within_seconds=30)
        assert scene.stage.condition(scene.name, "Ready") == "False"
        scene.stage.nodes.set_ready(node, True)
        await ready(scene.stage, scene.name, within_seconds=60)
        # The real node controller may still set a taint after the Node has recovered.
        await scene.stage.until(lambda: not health_taints(scene.node()), 30, "the node controller's taints are off")
    stored = [one.obj for one in seen if one.obj is not None and condition(one.obj, "Ready")]
    assert all((word(obj, "Ready")[0] == "True") == (word(obj, "Initialized")[0] == "True") for obj in stored)
    await scene.stage.delete_claim(scene.name)
    await scene.went(uid, WHOLE)


async def drained_node(scene: Scene) -> None:
    """A PodDisruptionBudget blocks the removal and is named; without it the pod is evicted and the removal
    completes.
    """
    uid = await scene.up()
    run_pod(scene.stage, scene.name, scene.node()["metadata"]["name"])
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": scene.name}}}
    scene.stage.store.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": spec}, "default")
    await scene.stage.delete_claim(scene.name)
    await scene.stage.until(
        lambda: (
            "disruption budget guard needs 1 healthy pods" in claim_condition(scene.stage, "Drained", scene.name)[2]
        ),
        LONG,  # the disruption controller counts its pods with a delay of its own
        "Drained names the budget",
    )
    assert claim_condition(scene.stage, "Drained", scene.name)[:2] == ("Unknown", "Draining")
    await asyncio.sleep(scene.a_while_seconds)
    assert not scene.calls("DELETE")
    assert scene.stage.store.get("pods", scene.name, "default") is not None
    scene.stage.store.delete(BUDGETS, "guard", "default")
    await scene.went(uid, WHOLE)
    assert scene.stage.store.get("pods", scene.name, "default") is None


async def crash_and_restart(scene: Scene) -> None:
    """With a controller killed while the pool is created, and again while it is deleted, there is one pool and nothing
    is left.
    """
    stage = scene.stage
    await stage.start_controller("ctl0")
    uid = (await stage.apply(node_claim(scene.name)))["metadata"]["uid"]
    await stage.until(lambda: stage.pools_of(uid), 30, "the pool is being created")
    stage.crash("ctl0")
    await stage.start_controller("ctl1")
    await ready(stage, scene.name)
    # Longer than the Lease of a dead leader.
    stage.cloud.configure(delete_seconds=(45 * 60.0, 45 * 60.0))
    await stage.delete_claim(scene.name)
    await stage.until(lambda: stage.cloud.pools[scene.name].state == "Deleting", 60, "the pool is being deleted")
    stage.crash("ctl1")
    await stage.start_controller("ctl2")
    await stage.until(lambda: stage.claim(scene.name) is None, 3600, "the claim is gone")
    await scene.went(uid, WHOLE)
    assert scene.calls("PUT") == [201]
    scene.deleted_once()


async def node_pool_lifecycle(scene: Scene) -> None:
    """A pending pod gets a machine of a NodePool; the deletion of the NodePool removes it, by the garbage collector."""
    stage, pod = scene.stage, f"{scene.name}-pod"
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": scene.name}
    await stage.apply({**node_class(scene.name), "spec": {"tags": {"story": scene.name}}})
    wanted = node_pool(scene.name)
    wanted["spec"]["template"]["spec"]["nodeClassRef"] = reference
    await stage.apply(wanted)
    await stage.until(lambda: is_ready(stage, POOLS, scene.name), 60, "the NodePool is Ready")
    await stage.apply(half_price(scene.name))
    await stage.until(lambda: is_ready(stage, OVERLAYS, scene.name), 60, "the NodeOverlay is Ready")
    bound = [disk_claim(scene, number, bound=True) for number in range(ONE_BY_ONE + 1)]
    unplaced_pod(scene, pod, bound[:1])
    selector = f"{labels.NODEPOOL}={scene.name}"
    await stage.until(lambda: stage.store.list(CLAIMS, labels=selector), 60, "a claim for the pod")
    (claim,) = stage.store.list(CLAIMS, labels=selector)
    made = Scene(stage, claim["metadata"]["name"], scene.a_while_seconds)
    uid = await ready(stage, made.name)
    (pool,) = stage.pools_of(uid)
    assert pool.tags["story"] == scene.name
    await stage.until(lambda: stage.store.get(POOLS, scene.name)["status"].get("nodes") == 1, 60, "it is counted")
    assert stage.store.get(CLASSES, scene.name)["metadata"]["finalizers"] == ["gpu-provisioner.sh/termination"]

    # Its volumes are too many to be read one by one, and no machine has as many GPUs.
    large = f"{pod}-large"
    unplaced_pod(scene, large, [*bound, disk_claim(scene, len(bound), bound=False)], gpus=99)
    await stage.until(lambda: failed_scheduling(stage, large), 60, "an Event on the pod that fits nowhere")
    assert "has enough resources" in failed_scheduling(stage, large)

    stage.store.delete("pods", pod, "default")
    stage.store.delete("pods", large, "default")
    await stage.request("DELETE", f"/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/{scene.name}")
    await stage.request("DELETE", f"/apis/karpenter.sh/v1/nodepools/{scene.name}")
    await stage.request("DELETE", f"/apis/karpenter.sh/v1alpha1/nodeoverlays/{scene.name}")
    await made.went(uid, WHOLE)
    await stage.until(lambda: stage.store.get(CLASSES, scene.name) is None, 60, "the node class is gone")


async def cost_limit(scene: Scene) -> None:
    """The API server takes a limit in money, which one of two machines keeps within; of static NodePools only an
    annotation.
    """
    stage, pods = scene.stage, [f"{scene.name}-{number}" for number in range(2)]
    await stage.apply(node_class(scene.name))
    of_class = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": scene.name}

    def wanted(name: str = scene.name, amount: object = "0.9", **spec: Any) -> Json:
        body = node_pool(name, limits={labels.COST_PER_HOUR: amount}, requirements=[OF_T4], **spec)
        body["spec"]["template"]["spec"]["nodeClassRef"] = of_class
        return body

    for refused in (wanted("static", replicas=1), wanted("fraction", 12.5), wanted("words", "a lot")):
        with pytest.raises(AssertionError, match=r"422|limits"):
            await stage.apply(refused)
    await stage.apply(of_price(scene.name, "0.5"))
    await stage.apply(wanted())
    await stage.until(lambda: is_ready(stage, POOLS, scene.name), 60, "the NodePool is Ready")
    await stage.until(lambda: is_ready(stage, OVERLAYS, scene.name), 60, "the NodeOverlay is Ready")
    for name in pods:
        unplaced_pod(scene, name, [])
    selector = f"{labels.NODEPOOL}={scene.name}"
    await stage.until(lambda: stage.store.list(CLAIMS, labels=selector), 60, "a claim for one of the pods")
    (claim,) = stage.store.list(CLAIMS, labels=selector)
    await stage.until(lambda: any(failed_scheduling(stage, name) for name in pods), 60, "an Event on the other one")
    (why,) = filter(None, (failed_scheduling(stage, name) for name in pods))
    assert labels.COST_PER_HOUR in why
    made = Scene(stage, claim["metadata"]["name"], scene.a_while_seconds)
    uid = await ready(stage, made.name)

    def cost() -> object:
        return (stage.store.get(POOLS, scene.name)["status"].get("resources") or {}).get(labels.COST_PER_HOUR)

    await stage.until(lambda: cost() == "500m" or cost() == "0.5", 120, "the NodePool states what its machine costs")
    assert len(stage.store.list(CLAIMS, labels=selector)) == 1
    for name in pods:
        stage.store.delete("pods", name, "default")
    await stage.request("DELETE", f"/apis/karpenter.sh/v1/nodepools/{scene.name}")
    await stage.request("DELETE", f"/apis/karpenter.sh/v1alpha1/nodeoverlays/{scene.name}")
    await made.went(uid, WHOLE)
    await stage.request("DELETE", f"/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/{scene.name}")
    await stage.until(lambda: stage.store.get(CLASSES, scene.name) is None, 60, "the node class is gone")


def of_price(name: str, price: str) -> Json:
    """A NodeOverlay: machines of the NodePool of this name have this price."""
    found = half_price(name)
    return {**found, "spec": {"requirements": found["spec"]["requirements"], "price": price}}


def half_price(name: str) -> Json:
    """A NodeOverlay: machines of the NodePool of this name cost half of their price."""
    of_pool = {"key": labels.NODEPOOL, "operator": "In", "values": [name]}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": [of_pool], "priceAdjustment": "-50%"},
    }


def disk_claim(scene: Scene, number: int, *, bound: bool) -> str:
    """A PersistentVolumeClaim with a disk, or with a StorageClass that provisions one for the first pod."""
    store, name = scene.stage.store, f"{scene.name}-{number}"
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if bound:
        source = {"driver": "disk.csi.azure.com", "volumeHandle": name}
        disk = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": source}
        store.create("persistentvolumes", {"metadata": {"name": name}, "spec": disk})
        spec |= {"storageClassName": "", "volumeName": name}
    else:
        of_class = {"provisioner": "disk.csi.azure.com", "volumeBindingMode": "WaitForFirstConsumer"}
        store.create("storageclasses.storage.k8s.io", {"metadata": {"name": name}, **of_class})
        spec |= {"storageClassName": name}
    # No controller of volumes runs on the real server.
    complete = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    body = {"metadata": {"name": name, "annotations": complete}, "spec": spec}
    store.create("persistentvolumeclaims", body, "default")
    return name


def unplaced_pod(scene: Scene, name: str, claims: list[str], *, gpus: int = 1) -> None:
    """A pod that kube-scheduler could not place; no scheduler runs on the real server.

    It selects the NodePool of the scene: machines of other scenes would take it.
    """
    stage, body = scene.stage, pending_pod(name, gpus=gpus, nodeSelector={labels.NODEPOOL: scene.name})
    body["spec"]["volumes"] = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    stage.store.create("pods", body, "default")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no Node fits"}
    status = {"phase": "Pending", "conditions": [condition]}
    stage.store.patch("pods", name, {"status": status}, "default", subresource="status")


def failed_scheduling(stage: Stage, name: str) -> str:
    """The message of the controller's Event on a pod that it cannot place."""
    fields = f"involvedObject.kind=Pod,involvedObject.name={name},reason=FailedScheduling"
    found = stage.store.list("events", "default", fields=fields)
    return next((one["message"] for one in found if one["message"].startswith("Failed to schedule pod")), "")


def is_ready(stage: Stage, kind: str, name: str) -> bool:
    """Whether the object is Ready."""
    return condition(stage.store.get(kind, name), "Ready").get("status") == "True"


# Scenarios that run at once with one controller, with the names of their claims and pools.
STORIES: dict[str, Story] = {
    "create": create_and_delete,
    "nodedeleted": node_deleted,
    "portal": pool_deleted_in_the_portal,
    "foreign": foreign_pool,
    "orphan": orphan_pool,
    "nodepool": node_pool_lifecycle,
    "costlimit": cost_limit,
    "unmanaged": unmanaged_claim,
    "notready": node_not_ready,
    "drained": drained_node,
}
