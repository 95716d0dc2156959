"""Several releases in one cluster, and versions that keep the Lease in different places: one of them leads."""

import asyncio

import structlog.testing

from tests.world.harness import Sim, node_claim, simulated
from tests.world.transcript import FAST, MINUTE

FIRST, SECOND = "gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "gpu-provisioner-5d8f7c9b6-x2x7k.test_2"


def writers(sim: Sim, since: float = -1.0) -> set[str]:
    """Who wrote to NodeClaims, Nodes and agent pools since that time."""
    verbs, kinds = {"POST", "PUT", "PATCH", "DELETE"}, {"nodeclaims", "nodes", "pools"}
    calls = sim.audit_log.calls()
    return {c.who for c in calls if c.at > since and c.verb in verbs and c.target.kind in kinds} - {"person"}


@simulated(azure=FAST)
async def test_a_second_release_waits_and_says_so(sim: Sim) -> None:
    """Its log names the Pod and the namespace that lead; it takes over when the first release is uninstalled."""
    with structlog.testing.capture_logs() as lines:
        await sim.start_controller("ctl0", identity=FIRST)
        await asyncio.sleep(20)
        await sim.start_controller("ctl1", identity=SECOND)
        await sim.apply(node_claim("ws1"))
        await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 20 * MINUTE, "the claim is Ready")
    assert writers(sim) == {"ctl0"}
    (reported,) = (one for one in lines if "another release leads" in one["event"])
    assert (reported["pod"], reported["namespace"]) == ("gpu-provisioner-5d8f7c9b6-x2x7k", "gpus")
    await sim.stop_controller("ctl0")
    since = sim.now
    await sim.delete_claim("ws1")
    await sim.until(lambda: sim.claim("ws1") is None, 20 * MINUTE, "the claim is gone")
    assert writers(sim, since) == {"ctl1"}


@simulated(azure=FAST)
async def test_an_upgrade_waits_for_the_lease_of_the_earlier_version(sim: Sim) -> None:
    """A version that keeps the Lease in the release's namespace leads until it ends, and does not lead after that."""
    await sim.start_controller("ctl0", lease_namespace="default")
    await asyncio.sleep(20)
    await sim.start_controller("ctl1", former_lease_namespace="default")
    await sim.apply(node_claim("ws1"))
    await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 20 * MINUTE, "the claim is Ready")
    assert writers(sim) == {"ctl0"}
    sim.crash("ctl0")
    crashed = sim.now
    await sim.delete_claim("ws1")
    await asyncio.sleep(20)
    assert not writers(sim, crashed), "the Lease of the crashed leader has not expired"
    await sim.start_controller("ctl2", lease_namespace="default")
    await sim.until(lambda: sim.claim("ws1") is None, 20 * MINUTE, "the claim is gone")
    await asyncio.sleep(5 * MINUTE)
    assert len(writers(sim, crashed)) == 1, "either version, never both"


@simulated(azure=FAST)
async def test_a_new_installation_has_one_lease(sim: Sim) -> None:
    """Without a Lease of an earlier version, none is created in its place."""
    await sim.start_controller("ctl0", former_lease_namespace="default")
    await asyncio.sleep(MINUTE)
    leases = sim.store.list("leases.coordination.k8s.io")
    assert [one["metadata"]["namespace"] for one in leases if one["metadata"]["name"] == "gpu-provisioner"] == [
        "kube-system"
    ]
