"""Pods that the kubelet rejects after devices vanished: users see why, and nothing is repaired."""

import asyncio
from typing import Any

import pytest

from controllers.actuator.kubernetes import KubernetesActuator
from controllers.model.policy import Policy
from controllers.model.results import Evicted, Wrote
from controllers.model.steps import KubeWrite, PatchNode
from provisioner.runtime.fence import LeaseExpires
from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pod, watches_pods
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.metric_samples import Numbers, start
from tests.world.provisioning.common import phase
from tests.world.transcript import MINUTE, claim_condition

from .common import annotate, plugin

pytestmark = pytest.mark.matrix(quick=1)

FAMILY = "gpu_provisioner_gpu_admission_errors_total"
UNREGISTERED = "Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"
OTHER = "Allocate failed due to rpc error: code = Unknown desc = no such MIG configuration, which is unexpected"
TOO_LARGE = "Allocate failed due to request for 'nvidia.com/gpu: 2' too large: maximum request size is 1"


def reject(sim: Sim, name: str, message: str = UNREGISTERED) -> None:
    """What the kubelet writes when it cannot allocate the devices of a pod."""
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    sim.store.patch("pods", name, {"status": status}, "default", subresource="status")


def rejected_pod(sim: Sim, name: str, node: str, message: str = UNREGISTERED, *, job: str = "") -> None:
    """`job`: the UID of the PyTorchJob that has created it, if any."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": job, "controller": True}
    body = pod(name, nodeName=node)
    body["metadata"]["ownerReferences"] = [owner] if job else []
    sim.store.create("pods", body, "default")
    reject(sim, name, message)


def events(sim: Sim) -> list[Json]:
    return sim.store.list("events", fields="reason=UnexpectedAdmissionError")


def lists(sim: Sim) -> int:
    return len(sim.audit_log.calls(who="ctl0", verb="LIST", kind="pods"))


def counted(numbers: Numbers, reason: str) -> float:
    return numbers.total(FAMILY, reason=reason)


@simulated()
async def test_with_a_nodepool_rejected_pods_are_read_at_once(sim: Sim) -> None:
    """A storm of three pods is one LIST; later ones are counted on top, and earlier ones not again."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    numbers = await start(sim)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    await sim.apply(pod("first"))
    await sim.until(
        lambda: any(condition(one, "Ready").get("status") == "True" for one in claims_of(sim)), 1800.0, "a machine"
    )
    await sim.until(
        lambda: sim.store.get("pods", "first", "default")["status"].get("phase") == "Running", 1800.0, "the pod runs"
    )
    node = claims_of(sim)[0]["status"]["nodeName"]
    before = {one["metadata"]["uid"] for one in claims_of(sim)}
    read = lists(sim)
    for number in range(3):
        rejected_pod(sim, f"r{number}", node)
    await sim.until(lambda: counted(numbers, "unregistered") == 3, 60.0, "they are counted")
    assert lists(sim) == read + 1
    rejected_pod(sim, "r3", node, TOO_LARGE)
    await sim.until(lambda: counted(numbers, "too_large") == 1, 60.0, "the next one is counted")
    assert counted(numbers, "unregistered") == 3
    kinds = {one["involvedObject"]["kind"] for one in events(sim)}
    assert kinds == {"NodeClaim", "Node"}
    assert {one["metadata"]["uid"] for one in claims_of(sim)} == before, "nothing is repaired"


@simulated()
async def test_without_a_nodepool_they_are_read_with_the_cause_of_missing_gpus(sim: Sim) -> None:
    """The pods of the Node are listed then anyway."""
    numbers = await start(sim)
    await sim.apply(node_claim("w1"))
    await sim.until(lambda: sim.condition("w1", "Ready") == "True", 1800.0, "w1 is Ready")
    node = sim.claim("w1")["status"]["nodeName"]
    sim.nodes.stop_plugin(node)
    rejected_pod(sim, "r", node)
    await sim.until(lambda: counted(numbers, "unregistered") == 1, 600.0, "it is counted")
    await sim.until(lambda: len(events(sim)) == 2, 600.0, "NodeClaim and Node show it")
    assert all("default/r" in one["message"] for one in events(sim))
    sim.nodes.start_plugin(node)
    end = sim.now + 900
    await sim.until(lambda: sim.now > end, 1000.0, "some time")
    assert counted(numbers, "unregistered") == 1
    assert sim.condition("w1", "Ready") == "True"


async def running(sim: Sim, **options: Any) -> tuple[str, str]:
    """A machine on which a pod ran: its NodeClaim and its Node."""
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption={"consolidateAfter": "Never"}))
    plugin(sim)
    await sim.start_controller(**options)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    await sim.apply(pod("first"))
    await sim.until(lambda: phase(sim, "first") == "Running", 1800.0, "it runs")
    await sim.request("DELETE", "/api/v1/namespaces/default/pods/first")
    await asyncio.sleep(5)
    (claim,) = claims_of(sim)
    return claim["metadata"]["name"], claim["status"]["nodeName"]


def cordoned(sim: Sim, node: str) -> bool:
    return bool(sim.store.get("nodes", node)["spec"].get("unschedulable"))


@pytest.mark.parametrize("case", ["undisturbed", "the controller restarts", "AKS manages the plugin"])
@simulated()
async def test_a_node_that_rejects_every_pod_is_cordoned(sim: Sim, case: str) -> None:
    """It shows its GPUs: after five minutes it gets no more pods, and the claim says so, until its plugin restarts."""
    name, node = await running(sim)
    managed = case == "AKS manages the plugin"
    if managed:
        sim.store.delete("daemonsets.apps", "nvidia-device-plugin-daemonset", "kube-system")
        sim.store.patch("nodes", node, {"metadata": {"labels": {"kubernetes.azure.com/dcgm-exporter": "enabled"}}})
    for number in range(4):
        assert not cordoned(sim, node)
        rejected_pod(sim, f"job-{number}", node)
        await asyncio.sleep(2 * MINUTE)
    await sim.until(lambda: cordoned(sim, node), 60.0, "it is cordoned")
    await sim.until(lambda: claim_condition(sim, "NodeHealthy", name)[0] == "False", 30.0, "the claim says so")
    assert "rejects each pod" in claim_condition(sim, "NodeHealthy", name)[2]
    assert managed is ("delete the plugin's pod" not in claim_condition(sim, "NodeHealthy", name)[2])
    assert any("cordoned Node" in one["message"] for one in events(sim))
    if case == "the controller restarts":
        sim.crash()
        await sim.start_controller("ctl1")
    await asyncio.sleep(30 * MINUTE)
    assert cordoned(sim, node)
    if managed:
        sim.nodes.stop_plugin(node)
        await asyncio.sleep(20)
        sim.nodes.start_plugin(node)
    for one in sim.store.list("pods", fields=f"spec.nodeName={node}"):
        if "plugin" in one["metadata"]["name"]:
            path = f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}"
            await sim.request("DELETE", path)
    await sim.until(lambda: not cordoned(sim, node), 10 * MINUTE, "it is released")
    await sim.until(lambda: claim_condition(sim, "NodeHealthy", name)[0] == "True", 30.0, "the claim says so")
    await asyncio.sleep(10 * MINUTE)
    assert not cordoned(sim, node), "older pods do not count again"


@pytest.mark.parametrize("jobs", [1, 4])
@simulated()
async def test_the_pods_of_one_job_can_be_wrong_themselves(sim: Sim, jobs: int) -> None:
    """A cause that is none of the device manager's, while pods run elsewhere: pods of several owners are a sign."""
    _, node = await running(sim)
    for name in ("second", "elsewhere"):
        await sim.apply(pod(name))
    await sim.until(lambda: {phase(sim, "second"), phase(sim, "elsewhere")} == {"Running"}, 1800.0, "both run")
    here = next(one["metadata"]["name"] for one in sim.store.list("pods", "default", fields=f"spec.nodeName={node}"))
    await sim.request("DELETE", f"/api/v1/namespaces/default/pods/{here}")
    await asyncio.sleep(5)
    for number in range(4):
        rejected_pod(sim, f"job-{number}", node, OTHER, job=f"job {number % jobs}")
        await asyncio.sleep(2 * MINUTE)
    await asyncio.sleep(10 * MINUTE)
    assert events(sim)
    assert cordoned(sim, node) is (jobs > 1)


@pytest.mark.parametrize("policy", [Policy(repair_dry_run=True), Policy(node_repair=False)], ids=["dry run", "off"])
@simulated()
async def test_without_repair_no_node_is_cordoned(sim: Sim, policy: Policy) -> None:
    """The Event of the rejected pods is all."""
    _, node = await running(sim, policy=policy)
    for number in range(4):
        rejected_pod(sim, f"job-{number}", node)
        await asyncio.sleep(2 * MINUTE)
    await asyncio.sleep(10 * MINUTE)
    assert events(sim)
    assert not cordoned(sim, node)


@simulated()
async def test_a_claim_whose_repair_is_disabled_is_released(sim: Sim) -> None:
    """A user wants the machine as it is."""
    name, node = await running(sim)
    for number in range(4):
        rejected_pod(sim, f"job-{number}", node)
        await asyncio.sleep(2 * MINUTE)
    await sim.until(lambda: cordoned(sim, node), 60.0, "it is cordoned")
    await annotate(sim, name, repair="disabled")
    await sim.until(lambda: not cordoned(sim, node), 10 * MINUTE, "it is released")


@simulated()
async def test_a_release_that_the_lease_does_not_permit_is_repeated(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lease is renewed again shortly afterwards."""
    name, node = await running(sim)
    for number in range(4):
        rejected_pod(sim, f"job-{number}", node)
        await asyncio.sleep(2 * MINUTE)
    await sim.until(lambda: cordoned(sim, node), 60.0, "it is cordoned")
    original, refused = KubernetesActuator.write, list[KubeWrite]()

    async def write(self: KubernetesActuator, step: KubeWrite) -> Wrote | Evicted:
        if isinstance(step, PatchNode) and not refused:
            refused.append(step)
            raise LeaseExpires("patch Node")
        return await original(self, step)

    monkeypatch.setattr(KubernetesActuator, "write", write)
    await annotate(sim, name, repair="disabled")
    await sim.until(lambda: bool(refused) and not cordoned(sim, node), 10 * MINUTE, "it is released")


@simulated()
async def test_rejected_pods_at_one_moment_cordon_nothing(sim: Sim) -> None:
    """A kubelet that restarted; nor does a pod that ran in between, or a user's cordon change."""
    _, node = await running(sim)
    for number in range(5):
        rejected_pod(sim, f"job-{number}", node)
    await asyncio.sleep(10 * MINUTE)
    assert not cordoned(sim, node)
    await sim.apply(pod("second"))
    await sim.until(lambda: phase(sim, "second") == "Running", 600.0, "it runs")
    rejected_pod(sim, "late", node)
    await asyncio.sleep(MINUTE)
    assert not cordoned(sim, node)
