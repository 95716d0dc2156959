"""The examples for pods, from a pending pod to a machine and back, with kube-scheduler and kubelets.

Every manifest of `examples/pods` is applied unchanged.
"""

from typing import Any

import yaml

from provisioner.api import labels
from tests.world.claims import EXAMPLES
from tests.world.demand import T4, TAINT, claims_of, pod_events
from tests.world.harness import Json, Sim, simulated

UNTOLERATED = "NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)"


def manifests(stem: str) -> list[Json]:
    return list(yaml.safe_load_all((EXAMPLES / "pods" / f"{stem}.yaml").read_text(encoding="utf-8")))


async def applied(sim: Sim, *stems: str) -> None:
    for stem in stems:
        for manifest in manifests(stem):
            await sim.apply(manifest)


def pod(sim: Sim, name: str) -> dict[str, Any]:
    return sim.store.get("pods", name, "default") or {}


@simulated()
async def test_a_pod_becomes_a_machine_and_the_machine_goes_with_its_nodepool(sim: Sim) -> None:
    """The pod runs on a machine of its own in its zone, bought once; the intruder stays Pending with its reason."""
    await sim.start_controller()
    await applied(sim, "node-pool", "trainer", "intruder")
    await sim.until(lambda: pod(sim, "trainer")["status"]["phase"] == "Running", 1200, "the pod runs")
    (claim,) = claims_of(sim)
    node = sim.store.get("nodes", pod(sim, "trainer")["spec"]["nodeName"])
    assert node is not None
    found = node["metadata"]["labels"]
    assert found[labels.INSTANCE_TYPE] == T4
    assert found[labels.ZONE] == "westeurope-1"
    assert found["karpenter.sh/nodepool"] == "gpu"
    assert node["spec"]["taints"] == [TAINT]
    assert sim.cloud.pools[found[labels.AGENTPOOL]].properties["osDiskSizeGB"] == 128
    first, *later = pod_events(sim, "trainer")
    assert first == ("Nominated", f"Pod should schedule on: nodeclaim/{claim['metadata']['name']}")
    assert {reason for reason, _ in later} <= {"Nominated"}
    assert set(pod_events(sim, "intruder")) == {("FailedScheduling", f"Failed to schedule pod, {UNTOLERATED}")}
    assert pod(sim, "intruder")["status"]["phase"] == "Pending"

    sim.store.delete("pods", "trainer", "default")
    await sim.until(lambda: not pod(sim, "trainer"), 60, "the pod is gone")
    sim.store.delete("nodepools.karpenter.sh", "gpu")
    await sim.until(lambda: not claims_of(sim), 1200, "the claim is gone")
    assert sim.audit_log.deletion_order(claim["metadata"]["uid"]) == ["pool", "node", "claim"]
    await sim.settled()
    assert sorted(sim.cloud.pools) == ["system", "theirs"]
    assert pod(sim, "intruder")["status"]["phase"] == "Pending"
