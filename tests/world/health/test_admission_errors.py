"""Pods that the kubelet rejects after devices vanished: users see why, and nothing is repaired."""

import pytest

from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pod, watches_pods
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.metric_samples import Numbers, start

pytestmark = pytest.mark.matrix(quick=1)

FAMILY = "gpu_provisioner_gpu_admission_errors_total"
UNREGISTERED = "Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"
TOO_LARGE = "Allocate failed due to request for 'nvidia.com/gpu: 2' too large: maximum request size is 1"


def reject(sim: Sim, name: str, message: str = UNREGISTERED) -> None:
    """What the kubelet writes when it cannot allocate the devices of a pod."""
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    sim.store.patch("pods", name, {"status": status}, "default", subresource="status")


def rejected_pod(sim: Sim, name: str, node: str, message: str = UNREGISTERED) -> None:
    sim.store.create("pods", pod(name, nodeName=node), "default")
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
