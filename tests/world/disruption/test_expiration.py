"""NodeClaims of NodePools are replaced when they expire; others never expire."""

from tests.world.claims import ready
from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Sim, node_claim, simulated

from .test_emptiness import passes, phase


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
