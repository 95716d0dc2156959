"""The KAITO check can fail: each state that would mislead KAITO is planted once and must be a violation."""

import asyncio

import pytest

from controllers.model.conditions import ConditionUpdate
from controllers.model.steps import ReleaseFinalizer
from controllers.node.termination import termination
from controllers.nodeclaim.lifecycle import initialization, registration
from controllers.planner import status
from provisioner.simulator.invariants import InvariantError
from tests.world.claims import CLAIMS, ready
from tests.world.harness import node_claim, simulate, simulated


def caught(story):
    """The violations that end this story."""
    with pytest.raises((InvariantError, BaseExceptionGroup)) as failure:
        simulate(story)
    return "\n".join([str(failure.value), *getattr(failure.value, "__notes__", [])])


async def one_life(sim) -> None:
    """A claim becomes Ready and is removed."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    await sim.delete_claim("gpu1")
    await sim.until(lambda: not sim.claim("gpu1"), 1200, "the claim is gone")


def test_a_node_name_before_readiness_is_seen(monkeypatch) -> None:
    """A nodeName before any Ready condition is a violation: KAITO would use the Node."""
    report = status.report

    def mutant(f, claim, updates):
        step = report(f, claim, updates)
        if step is None or not step.fields:
            return step
        return type(step)(claim=claim, conditions=(), fields=step.fields)

    monkeypatch.setattr(status, "report", mutant)
    assert "gpu1 names Node aks-gpu1-47249735-vmss000000 and has no Ready condition" in caught(one_life)


def test_a_node_without_its_pool_is_seen(monkeypatch) -> None:
    """A Node without the node pool's label is a violation: KAITO would count it besides its claim."""
    monkeypatch.setattr(registration, "is_copied", lambda key: key != "karpenter.sh/nodepool")

    async def story(sim) -> None:
        def strip(event, kind, node, _) -> None:
            if kind == "nodes" and event == "ADDED" and "kaito.sh/workspace" in node["metadata"]["labels"]:
                sim.store.patch(
                    "nodes", node["metadata"]["name"], {"metadata": {"labels": {"karpenter.sh/nodepool": None}}}
                )

        sim.store.subscribe(strip)
        await one_life(sim)

    assert "gpu1 and its Node, which has no node pool, count as two" in caught(story)


def test_two_claims_of_one_node_are_seen() -> None:
    """Two claims that name one Node are a violation: KAITO would count two machines."""

    async def story(sim) -> None:
        conditions = [
            {"type": "Ready", "status": "Unknown", "reason": "R", "lastTransitionTime": "2026-03-01T12:00:00Z"}
        ]
        for name in ("gpu1", "gpu2"):
            sim.store.create(CLAIMS, node_claim(name))
            status = {"status": {"nodeName": "n", "conditions": conditions}}
            sim.store.patch(CLAIMS, name, status, subresource="status")

    assert "Node n is counted for gpu1 and gpu2" in caught(story)


def test_a_claim_that_stays_initialized_without_its_node_is_seen(monkeypatch) -> None:
    """Initialized without a Ready Node is a violation: five seconds later the RAGEngine would create another."""
    kept = ConditionUpdate(status="True", reason="Initialized")
    monkeypatch.setattr(initialization, "_usable", lambda *_: kept)

    async def story(sim) -> None:
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        sim.nodes.set_ready("aks-gpu1-47249735-vmss000000", False)
        await asyncio.sleep(60)

    assert "gpu1 has been Initialized without a Ready Node for " in caught(story)


def test_a_claim_that_goes_before_its_machine_is_seen(monkeypatch) -> None:
    """A claim removed while its Node serves is a violation: KAITO would replace it at once."""
    monkeypatch.setattr(termination, "step", lambda f, claim: ReleaseFinalizer(target=claim, why="mutant"))
    assert "gpu1 is gone and its Node aks-gpu1-47249735-vmss000000 serves: one more" in caught(one_life)


@simulated()
async def test_what_no_controller_could_say_is_not_held_against_it(sim) -> None:
    """Conditions are not checked while no controller runs; a new leader has five seconds."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    sim.crash()
    sim.nodes.set_ready("aks-gpu1-47249735-vmss000000", None)
    await asyncio.sleep(600)
    await sim.start_controller("ctl1", elect=False)
    await sim.until(lambda: sim.condition("gpu1", "Initialized") == "False", 5, "NotReady is reported")
