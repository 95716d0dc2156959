"""Machines that cannot be replaced keep no others from being replaced."""

from typing import Any

from controllers.model.policy import Policy
from provisioner.simulator.azure import faults
from tests.world.demand import T4, node_class, node_pool, workload
from tests.world.harness import Sim, simulated

from .common import SIZES, budget, drift, live, passes, ready, running, tainted

A100 = "Standard_NC24ads_A100_v4"
T4_8, T4_16, T4_64 = (f"Standard_NC{cpus}as_T4_v3" for cpus in (8, 16, 64))
SIZE, MODEL = "node.kubernetes.io/instance-type", "karpenter.azure.com/sku-gpu-name"


def sizes(*names: str) -> list[dict[str, Any]]:
    return [{"key": SIZE, "operator": "In", "values": [*names]}]


@simulated()
async def test_a_sold_out_size_delays_its_own_machines_only(sim: Sim) -> None:
    """Three machines drift; the one that comes first, because it is the oldest, is of a size without capacity."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    await sim.apply(node_pool(requirements=sizes(A100, T4), disruption=disruption))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "large", nodeSelector={SIZE: A100})
    await sim.until(lambda: running(sim) == 1, 1800.0, "the first machine")
    for name in ("b", "c"):
        workload(sim, "ReplicaSet", name, nodeSelector={SIZE: T4})
    await sim.until(lambda: running(sim) == 3 and len(ready(sim)) == 3, 1800.0, "the machines")
    sim.cloud.faults.append(faults.capacity(size=A100))
    drift(sim, "gpu-1", "gpu-2", "gpu-3")
    await sim.until(lambda: not {"gpu-2", "gpu-3"} & {*live(sim)}, 3 * 3600.0, "the others are replaced")
    assert "gpu-1" in live(sim)


@simulated()
async def test_drift_does_not_wait_for_savings(sim: Sim) -> None:
    """The cheap size is sold out for hours; then the machine of a size that can be had drifts."""
    await sim.apply(node_class())
    disruption = {
        "consolidateAfter": "30s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "100%"}],
    }
    await sim.apply(node_pool(requirements=sizes(T4_64, A100), disruption=disruption))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "web", nodeSelector={MODEL: "T4"})
    await sim.until(lambda: running(sim) == 1 and ready(sim), 1800.0, "the first machine")
    workload(sim, "ReplicaSet", "large", nodeSelector={SIZE: A100})
    await sim.until(lambda: running(sim) == 2 and len(ready(sim)) == 2, 1800.0, "the second machine")
    sim.cloud.faults.append(faults.capacity(size=T4))
    template = node_pool(requirements=sizes(T4_64, A100, T4))["spec"]["template"]
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"template": template}})
    for _ in range(2):
        await sim.until(lambda: tainted(sim), 4 * 3600.0, "an attempt begins")
        await sim.until(lambda: not tainted(sim), 7200.0, "it is undone")
    drift(sim, "gpu-2")
    await sim.until(lambda: "gpu-2" not in live(sim), 3600.0, "it is replaced")


@simulated()
async def test_a_static_machine_without_room_for_its_replacement_takes_pods(sim: Sim) -> None:
    """The limit on agent pools allows one: the machine has drifted, is not tainted, and an Event states the limit."""
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=1, requirements=SIZES, disruption=budget("1")))
    await sim.start_controller(policy=Policy(max_agent_pools=1))
    await sim.until(lambda: ready(sim), 1800.0, "the machine")
    drift(sim, "gpu-1")
    await passes(sim, 1800.0)
    assert (live(sim), tainted(sim)) == (["gpu-1"], [])
    events = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=DisruptionBlocked")
    assert {one["message"].split(" (")[0] for one in events} == {"The limit on agent pools allows no replacement"}


@simulated()
async def test_a_replacement_tries_every_size(sim: Sim) -> None:
    """The two cheapest of three sizes are sold out, which Azure reports after five minutes each: one attempt does."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}
    await sim.apply(node_pool(replicas=1, requirements=sizes(T4, T4_8, T4_16), disruption=disruption))
    await sim.start_controller()
    await sim.until(lambda: ready(sim), 1800.0, "the machine")
    for size in (T4, T4_8):
        sim.cloud.faults.append(faults.capacity(size=size, after_seconds=300.0))
    drift(sim, "gpu-1")
    await sim.until(lambda: live(sim) == ["gpu-2"], 3600.0, "it is replaced")
    assert [str(put.properties["vmSize"]) for put in sim.cloud.put_log][1:] == [T4, T4_8, T4_16]
