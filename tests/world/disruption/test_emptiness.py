"""Machines of a NodePool that no pod uses any longer are removed, within the budgets."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.disruption.emptiness import decide
from provisioner.simulator.azure import faults
from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Sim, simulated

from .common import disruption, events, leaving, names, one_pod_each, passes, phase

A100 = "Standard_NC24ads_A100_v4"
CLAIMS = "nodeclaims.karpenter.sh"


@simulated()
async def test_an_empty_machine_is_removed(sim: Sim) -> None:
    """45 s after its last pod, in the ordinary order; the machine beside it, which is used, stays."""
    await one_pod_each(sim, 2)
    sim.store.delete("pods", "p0", "default")
    await sim.until(lambda: not phase(sim, "p0"), 120.0, "the pod is gone")
    began = sim.now
    (name,) = await sim.until(lambda: leaving(sim), 120.0, "a NodeClaim is deleted")
    assert 45.0 <= sim.now - began <= 48.0
    uid = next(claim["metadata"]["uid"] for claim in claims_of(sim) if claim["metadata"]["name"] == name)
    await sim.until(lambda: len(claims_of(sim)) == 1, 1200.0, "one machine is left")
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert events(sim, "NodeClaim", "DisruptionTerminating") == {
        "Disrupting NodeClaim: Empty (0.658 USD an hour); gate: confirmed by a fresh read; machine works; pods with"
        " GPUs: unknown; place: Ready"
    }
    await passes(sim, 300.0)
    assert (len(claims_of(sim)), phase(sim, "p1")) == (1, "Running")


@simulated()
async def test_a_pod_in_time_keeps_the_machine(sim: Sim) -> None:
    """A machine that is used again before its time is over stays, and its time begins anew afterwards."""
    await one_pod_each(sim, 1, after="2m")
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 60.0)
    await pending(sim, pod("next"))
    await sim.until(lambda: phase(sim, "next") == "Running", 60.0, "the next pod runs on the same machine")
    await passes(sim, 600.0)
    assert len(claims_of(sim)) == 1
    assert not leaving(sim)


@simulated()
async def test_a_pod_during_the_validation_keeps_only_its_machine(sim: Sim) -> None:
    """Both machines were empty for consolidateAfter, and are observed for some seconds more when the pod comes."""
    await one_pod_each(sim, 2)
    for name in names(2):
        sim.store.delete("pods", name, "default")
    await sim.until(lambda: not any(phase(sim, name) for name in names(2)), 120.0, "the pods are gone")
    await passes(sim, 33.0)
    assert not leaving(sim)
    await pending(sim, pod("next"))
    await sim.until(lambda: len(claims_of(sim)) == 1, 1200.0, "the other one is removed")
    await passes(sim, 600.0)
    assert (len(claims_of(sim)), phase(sim, "next")) == (1, "Running")


@simulated()
async def test_an_idle_machine_goes_while_a_nodeclaim_waits_for_capacity(sim: Sim) -> None:
    """The budget is the default, 10 %; there is one machine, and no capacity for the size of another pod."""
    await one_pod_each(sim, 1, after="1m", budget={"nodes": "10%"})
    sim.cloud.faults.append(faults.capacity(size=A100))
    await pending(sim, pod("waits", nodeSelector={"node.kubernetes.io/instance-type": A100}))
    await sim.until(lambda: len(claims_of(sim)) == 2, 120.0, "a NodeClaim that waits for capacity")
    sim.store.delete("pods", "p0", "default")
    await sim.until(lambda: leaving(sim) == ["gpu-1"], 600.0, "the idle machine is deleted")


@simulated()
async def test_a_machine_on_which_kube_scheduler_preempts_is_kept(sim: Sim) -> None:
    """The victim takes long to end, and was scaled down. Without the nomination the machine is empty."""
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption=disruption("0s")))
    await sim.start_controller()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    body = pod("victim", terminationGracePeriodSeconds=120)
    meta = {**body["metadata"], "ownerReferences": [owner], "finalizers": ["example.com/slow"]}
    sim.store.create("pods", {**body, "metadata": meta}, "default")
    await sim.until(lambda: phase(sim, "victim") == "Running", 1800.0, "the machine")
    await passes(sim, 60.0)
    (claim,) = claims_of(sim)
    sim.store.create("pods", pod("important", priority=1000), "default")
    nominated = {"status": {"nominatedNodeName": claim["status"]["nodeName"]}}
    sim.store.patch("pods", "important", nominated, "default", subresource="status")
    sim.store.delete("pods", "victim", "default")
    await passes(sim, 600.0)
    assert not leaving(sim)
    sim.store.delete("pods", "important", "default")
    await sim.until(lambda: leaving(sim), 120.0, "nobody waits for it")


@simulated()
async def test_never_and_do_not_disrupt(sim: Sim) -> None:
    await one_pod_each(sim, 1, after="Never")
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
    """Three empty machines are drained one after the other; what is held is an Event of the NodePool (I15)."""
    most = 0

    def changed(*_: object) -> None:
        nonlocal most
        found = [one for one in claims_of(sim) if condition(one, "InstanceTerminating").get("status") != "True"]
        most = max(most, sum("deletionTimestamp" in one["metadata"] for one in found))

    sim.store.subscribe(changed)
    await one_pod_each(sim, 3, after="0s", budget={"nodes": "1"})
    for name in names(3):
        sim.store.delete("pods", name, "default")
    await sim.until(lambda: not claims_of(sim), 3600.0, "all are gone")
    assert most == 1
    blocked = "No allowed disruptions for disruption reason Empty due to blocking budget"
    assert events(sim, "NodePool", "DisruptionBlocked") == {blocked}


@simulated()
async def test_a_budget_that_never_fires_removes_nothing(sim: Sim) -> None:
    """The NodePool names the field; nothing is removed because of a mistake."""
    await one_pod_each(sim, 1, after="0s")
    wrong = {"nodes": "5", "schedule": "0 0 30 2 *", "duration": "1h"}
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"disruption": {"budgets": [wrong]}}})
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 900.0)
    assert not leaving(sim)
    pool = sim.store.get("nodepools.karpenter.sh", "gpu")
    found = {one["type"]: one["message"] for one in pool["status"]["conditions"]}
    assert "spec.disruption.budgets[0].schedule: 0 0 30 2 *" in found["ValidationSucceeded"]


@simulated()
async def test_a_restart_begins_the_time_anew(sim: Sim) -> None:
    """A successor does not know when the last pod ended, and does not remove the machine too early."""
    await one_pod_each(sim, 1, after="5m")
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 240.0)
    restarted = sim.now
    sim.replace_controller()
    await sim.until(lambda: leaving(sim), 900.0, "the machine is removed")
    assert sim.now - restarted >= 315.0


@simulated()
async def test_an_error_that_a_nodepool_causes_is_its_own(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has an Event with the cause; the empty machine of another NodePool is removed."""

    def fail(pool: Any, *others: Any) -> Any:
        if pool.name == "bad":
            raise OverflowError("odd value")
        return decide(pool, *others)

    monkeypatch.setattr("controllers.disruption.emptiness.decide", fail)
    await sim.apply(node_pool("bad", limits={"nodes": "0"}, disruption=disruption("30s")))
    await one_pod_each(sim, 1)
    sim.store.delete("pods", "p0", "default")
    await sim.until(lambda: leaving(sim), 300.0, "the machine of the other NodePool is removed")
    (message,) = events(sim, "NodePool", "DisruptionBlocked")
    assert message.startswith("left out of the removal of empty machines: OverflowError: odd value; correct")


@simulated()
async def test_a_clock_that_is_set_makes_no_machine_empty_longer(sim: Sim) -> None:
    """Two hours forward, a minute after the pod has gone: the hour of `consolidateAfter` still has to pass."""
    await one_pod_each(sim, 1, after="1h")
    await passes(sim, 600.0)
    sim.store.delete("pods", "p0", "default")
    await passes(sim, 60.0)
    sim.controllers["ctl0"].clock.offset = timedelta(hours=2)
    await passes(sim, 3300.0)
    assert not leaving(sim)
    await sim.until(lambda: leaving(sim), 600.0, "it is removed")
