"""A machine whose GPUs are in ResourceSlices, on the real API server: bought for a pod that claims one, and Ready."""

from typing import Any

from controllers.actuator.devices import READ_ONE_BY_ONE
from provisioner.api import labels
from tests.world.claims import CLAIMS, condition, ready
from tests.world.demand import node_class, node_pool
from tests.world.demand import pod as pending_pod

from .stories import CLASSES, POOLS, WHOLE, Scene, failed_scheduling, is_ready

Json = dict[str, Any]
DEVICE_CLASSES, TEMPLATES = "deviceclasses.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
WHOLE_GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


async def claimed_devices(scene: Scene) -> None:
    """The claim waits for the slices of the driver, and is Ready with them; too many devices are refused."""
    stage, pod = scene.stage, f"{scene.name}-pod"
    await stage.apply({**node_class(scene.name), "spec": {"gpu": {"mode": "DRA"}}})
    wanted = node_pool(scene.name)
    template = wanted["spec"]["template"]
    template["metadata"]["labels"] = {"gpu": "dra"}
    template["spec"]["nodeClassRef"]["name"] = scene.name
    await stage.apply(wanted)
    await stage.until(lambda: is_ready(stage, POOLS, scene.name), 60, "the NodePool is Ready")
    spec = {"selectors": [{"cel": {"expression": WHOLE_GPU}}]}
    stage.store.create(DEVICE_CLASSES, {"metadata": {"name": scene.name}, "spec": spec})
    names = [claim_template(scene, number) for number in range(READ_ONE_BY_ONE + 1)]
    claiming_pod(scene, pod, names[:1])
    selector = f"{labels.NODEPOOL}={scene.name}"
    await stage.until(lambda: stage.store.list(CLAIMS, labels=selector), 60, "a claim for the pod")
    (claim,) = stage.store.list(CLAIMS, labels=selector)
    made = Scene(stage, claim["metadata"]["name"], scene.a_while_seconds)
    uid = await ready(stage, made.name)
    node = stage.claim(made.name)["status"]["nodeName"]
    (published,) = stage.store.list(SLICES, fields=f"spec.nodeName={node}")
    assert [device["name"] for device in published["spec"]["devices"]] == ["gpu-0"]
    assert "nvidia.com/gpu" not in stage.store.get("nodes", node)["status"]["allocatable"]
    assert condition(stage.claim(made.name), "Initialized")["reason"] == "Initialized"

    # Its templates are too many to be read one by one, and no machine has as many GPUs.
    large = f"{pod}-large"
    claiming_pod(scene, large, names)
    await stage.until(lambda: failed_scheduling(stage, large), 60, "an Event on the pod that fits nowhere")
    assert "has enough resources" in failed_scheduling(stage, large)

    for one in (pod, large):
        stage.store.delete("pods", one, "default")
    for one in names:
        stage.store.delete(TEMPLATES, one, "default")
    stage.store.delete(DEVICE_CLASSES, scene.name)
    await stage.request("DELETE", f"/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/{scene.name}")
    await stage.request("DELETE", f"/apis/karpenter.sh/v1/nodepools/{scene.name}")
    await made.went(uid, WHOLE)
    await stage.until(lambda: stage.store.get(CLASSES, scene.name) is None, 60, "the node class is gone")


def claim_template(scene: Scene, number: int) -> str:
    """A template for one GPU."""
    request = {"name": "gpu", "exactly": {"deviceClassName": scene.name}}
    body = {"metadata": {"name": f"{scene.name}-{number}"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    scene.stage.store.create(TEMPLATES, body, "default")
    return f"{scene.name}-{number}"


def claiming_pod(scene: Scene, name: str, templates: list[str]) -> None:
    """A pod that kube-scheduler could not place; no scheduler runs on the real server."""
    store = scene.stage.store
    claims = [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    body = pending_pod(name, gpus=0, nodeSelector={labels.NODEPOOL: scene.name}, resourceClaims=claims)
    store.create("pods", body, "default")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no Node fits"}
    status = {"phase": "Pending", "conditions": [unschedulable]}
    store.patch("pods", name, {"status": status}, "default", subresource="status")
