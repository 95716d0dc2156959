"""NodeClaims of NodePools are replaced when they expire; others never expire."""

from provisioner.api import labels
from provisioner.simulator.azure import faults
from tests.world.claims import ready
from tests.world.demand import claims_of, node_class, node_pool, pending, pod, workload
from tests.world.harness import Sim, node_claim, simulated

from .common import CLAIMS, SIZES, drift, live, passes, phase, running, tainted
from .common import ready as ready_claims


@simulated()
async def test_an_expired_machine_is_removed(sim: Sim) -> None:
    """An hour after its creation, with its pod; a claim of KAITO with the same field stays."""
    body = node_pool(disruption={"consolidateAfter": "Never"})
    body["spec"]["template"]["spec"]["expireAfter"] = "1h"
    await sim.apply(node_class())
    await sim.apply(body)
    await sim.start_controller()
    await sim.apply(node_claim("ws1", expireAfter="1h"))
    await ready(sim, "ws1")
    began = sim.now
    await pending(sim, pod("p", nodeSelector={"team": "ml"}))
    await sim.until(lambda: phase(sim, "p") == "Running", 1800.0, "the pod runs")
    (claim,) = claims_of(sim)
    await sim.until(
        lambda: any("deletionTimestamp" in one["metadata"] for one in claims_of(sim)), 3700.0, "it is deleted"
    )
    assert 3600.0 <= sim.now - began <= 3606.0
    await sim.until(lambda: not claims_of(sim), 1800.0, "the machine is gone")
    assert sim.audit_log.deletion_order(claim["metadata"]["uid"]) == ["pool", "node", "claim"]
    await passes(sim, 3600.0)
    assert sim.condition("ws1", "Ready") == "True"


async def drifted_before_it_expires(sim: Sim) -> None:
    """A machine drifts a minute before it is an hour old, and its replacement is created."""
    await sim.apply(node_class())
    body = node_pool(requirements=SIZES, disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    body["spec"]["template"]["spec"]["expireAfter"] = "1h"
    await sim.apply(body)
    await sim.start_controller()
    workload(sim, "ReplicaSet", "serving")
    await sim.until(lambda: claims_of(sim), 60.0, "the NodeClaim")
    born = sim.now
    await sim.until(lambda: running(sim) == 1 and ready_claims(sim), 1800.0, "the machine")
    await passes(sim, born + 3540.0 - sim.now)
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2 and tainted(sim), 30.0, "its replacement is created")


@simulated()
async def test_a_machine_that_is_replaced_waits_for_its_replacement(sim: Sim) -> None:
    """It is older than an hour when the replacement is Initialized."""
    await drifted_before_it_expires(sim)
    await sim.until(lambda: live(sim) == ["gpu-2"], 1800.0, "it is deleted")
    assert sim.condition("gpu-2", "Initialized") == "True"


@simulated()
async def test_a_machine_expires_when_its_replacement_failed(sim: Sim) -> None:
    """Nothing can be bought; no budget and no shortage delays an expiration."""
    sim.cloud.faults.append(fault := faults.capacity())
    fault.skip = 1
    await drifted_before_it_expires(sim)
    await sim.until(lambda: "gpu-1" not in live(sim), 900.0, "it is deleted")


@simulated()
async def test_a_machine_that_left_its_nodepool_for_a_while(sim: Sim) -> None:
    """Its label names another NodePool when it expires: it is deleted once the label names its own one again."""
    await sim.apply(node_class())
    body = node_pool(requirements=SIZES, disruption={"consolidateAfter": "Never"})
    body["spec"]["template"]["spec"]["expireAfter"] = "1h"
    await sim.apply(body)
    await sim.start_controller()
    workload(sim, "ReplicaSet", "serving")
    await sim.until(lambda: ready_claims(sim) == ["gpu-1"], 1800.0, "the machine")
    sim.store.patch(CLAIMS, "gpu-1", {"metadata": {"labels": {labels.NODEPOOL: "other"}}})
    await passes(sim, 4000.0)
    assert "deletionTimestamp" not in sim.claim("gpu-1")["metadata"]
    sim.store.patch(CLAIMS, "gpu-1", {"metadata": {"labels": {labels.NODEPOOL: "gpu"}}})
    await sim.until(lambda: "gpu-1" not in live(sim), 60.0, "it is deleted")
