"""Machines of a NodePool that no pod uses any longer are removed, within the budgets."""

from typing import Any

from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Sim, simulated

CLAIMS = "nodeclaims.karpenter.sh"


def disruption(after: str, *budgets: dict[str, Any]) -> dict[str, Any]:
    return {"consolidateAfter": after, "budgets": [*budgets] or [{"nodes": "100%"}]}


async def fleet(sim: Sim, count: int, *, after: str = "30s", budget: dict[str, Any] | None = None) -> None:
    """So many pods run, each on a machine of its own."""
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption=disruption(after, *([budget] if budget else []))))
    await sim.start_controller()
    await pending(sim, *(pod(name) for name in names(count)))
    await sim.until(lambda: all(phase(sim, name) == "Running" for name in names(count)), 1800.0, "the pods run")


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


def phase(sim: Sim, name: str) -> str:
    found = sim.store.get("pods", name, "default")
    return found["status"]["phase"] if found is not None else ""


def leaving(sim: Sim) -> list[str]:
    return [claim["metadata"]["name"] for claim in claims_of(sim) if "deletionTimestamp" in claim["metadata"]]


def events(sim: Sim, kind: str, reason: str) -> set[str]:
    found = sim.store.list("events", fields=f"involvedObject.kind={kind},reason={reason}")
    return {event["message"] for event in found}


async def passes(sim: Sim, seconds: float) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some time")


@simulated()
async def test_an_empty_machine_is_removed(sim: Sim) -> None:
    """45 s after its last pod, in the ordinary order; the machine beside it, which is used, stays."""
    await fleet(sim, 2)
    sim.store.delete("pods", "p0", "default")
    await sim.until(lambda: not phase(sim, "p0"), 120.0, "the pod is gone")
    began = sim.now
    (name,) = await sim.until(lambda: leaving(sim), 120.0, "a NodeClaim is deleted")
    assert 45.0 <= sim.now - began <= 48.0
    uid = next(claim["metadata"]["uid"] for claim in claims_of(sim) if claim["metadata"]["name"] == name)
    await sim.until(lambda: len(claims_of(sim)) == 1, 1200.0, "one machine is left")
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert events(sim, "NodeClaim", "DisruptionTerminating") == {"Disrupting NodeClaim: Empty"}
    await passes(sim, 300.0)
    assert (len(claims_of(sim)), phase(sim, "p1")) == (1, "Running")


@simulated()
async def test_a_pod_in_time_keeps_the_machine(sim: Sim) -> None:
    """A machine that is used again before its time is over stays, and its time begins anew afterwards."""
    await fleet(sim, 1, after="2m")
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 60.0)
    await pending(sim, pod("next"))
    await sim.until(lambda: phase(sim, "next") == "Running", 60.0, "the next pod runs on the same machine")
    await passes(sim, 600.0)
    assert len(claims_of(sim)) == 1
    assert not leaving(sim)


@simulated()
async def test_never_and_do_not_disrupt(sim: Sim) -> None:
    await fleet(sim, 1, after="Never")
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 900.0)
    assert not leaving(sim)
    (claim,) = claims_of(sim)
    sim.store.patch("nodes", claim["status"]["nodeName"], {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})  # fmt: skip  # noqa: E501
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"disruption": {"consolidateAfter": "0s"}}})
    await passes(sim, 900.0)
    assert not leaving(sim)


@simulated()
async def test_never_more_than_the_budget_at_once(sim: Sim) -> None:
    """Three empty machines go one after the other; what is held is an Event of the NodePool (I15)."""
    most = 0

    def changed(*_: object) -> None:
        nonlocal most
        most = max(most, len(leaving(sim)))

    sim.store.subscribe(changed)
    await fleet(sim, 3, after="0s", budget={"nodes": "1"})
    for name in names(3):
        sim.store.delete("pods", name, "default")
    await sim.until(lambda: not claims_of(sim), 3600.0, "all are gone")
    assert most == 1
    blocked = "No allowed disruptions for disruption reason Empty due to blocking budget"
    assert events(sim, "NodePool", "DisruptionBlocked") == {blocked}


@simulated()
async def test_a_budget_that_never_fires_removes_nothing(sim: Sim) -> None:
    """The NodePool names the field; nothing is removed because of a mistake."""
    await fleet(sim, 1, after="0s", budget={"nodes": "5", "schedule": "0 0 30 2 *", "duration": "1h"})
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 900.0)
    assert not leaving(sim)
    pool = sim.store.get("nodepools.karpenter.sh", "gpu")
    found = {one["type"]: one["message"] for one in pool["status"]["conditions"]}
    assert "spec.disruption.budgets[0].schedule: 0 0 30 2 *" in found["ValidationSucceeded"]


@simulated()
async def test_a_restart_begins_the_time_anew(sim: Sim) -> None:
    """A successor does not know when the last pod ended, and does not remove the machine too early."""
    await fleet(sim, 1, after="5m")
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 240.0)
    restarted = sim.now
    sim.replace_controller()
    await sim.until(lambda: leaving(sim), 900.0, "the machine is removed")
    assert sim.now - restarted >= 315.0
