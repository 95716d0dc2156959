"""A decision that takes seconds: what changes meanwhile is neither lost nor bought twice."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from provisioner.api import labels
from tests.world.demand import claims_of, node_class, node_pool, pending, pod, watches_pods
from tests.world.harness import Json, Sim, node_claim, simulated

T = TypeVar("T")
SECONDS = 8.0
OTHER_CLASS = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


async def slow(function: Callable[[], T]) -> T:
    """The result of a decision is known after some time; it reads only what was known before."""
    result = function()
    await asyncio.sleep(SECONDS)
    return result


async def deciding(sim: Sim) -> None:
    """A controller that has begun a decision for the pod `first`."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller(compute=slow)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    await pending(sim, pod("first"))
    await asyncio.sleep(3.0)
    assert not claims_of(sim)


async def later(sim: Sim) -> None:
    await asyncio.sleep(3 * SECONDS)


@simulated()
async def test_a_pod_that_arrives_meanwhile_is_decided_next(sim: Sim) -> None:
    """It opens the next batch, which is decided at once after the first one and counts its NodeClaim."""
    await deciding(sim)
    await pending(sim, pod("second"))
    await sim.until(lambda: len(claims_of(sim)) == 1, SECONDS, "the NodeClaim of the first pod")
    await sim.until(lambda: len(claims_of(sim)) == 2, SECONDS + 1.5, "the NodeClaim of the second pod")
    await later(sim)
    assert len(claims_of(sim)) == 2


@pytest.mark.parametrize("gone", ["pod", "nodepool"])
def test_what_goes_meanwhile_gets_no_machine(gone: str) -> None:
    """Nothing is bought for a pod that was deleted during the decision, or from a NodePool that was."""

    @simulated()
    async def story(sim: Sim) -> None:
        await deciding(sim)
        if gone == "pod":
            sim.store.delete("pods", "first", "default")
        else:
            sim.store.delete("nodepools.karpenter.sh", "gpu")
        await later(sim)
        assert not claims_of(sim)

    story()


@simulated()
async def test_a_nodepool_that_is_edited_meanwhile_is_decided_again(sim: Sim) -> None:
    """No NodeClaim has the hash and the taints of one version of a NodePool, and the requirements of another."""
    await deciding(sim)
    zone = {"key": labels.ZONE, "operator": "In", "values": ["westeurope-2"]}
    edited = node_pool(requirements=[zone])["spec"]["template"]
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"template": edited}})
    await sim.until(lambda: bool(claims_of(sim)), 60.0, "the NodeClaim")
    (claim,) = claims_of(sim)
    assert zone in claim["spec"]["requirements"]


@pytest.mark.parametrize("owner", ["another controller", "static NodePool"])
def test_nodeclaims_that_others_create_steadily(owner: str) -> None:
    """They delay no decision: each takes longer than the time between two of them."""

    @simulated()
    async def story(sim: Sim) -> None:
        await deciding(sim)
        others = node_pool("others", **({"replicas": 1} if owner == "static NodePool" else {}))
        if owner != "static NodePool":
            others["spec"]["template"]["spec"]["nodeClassRef"] = OTHER_CLASS
        await sim.apply(others)
        uid = (sim.store.get("nodepools.karpenter.sh", "others") or {})["metadata"]["uid"]
        number = 0
        while not claims_of_pool(sim, "gpu"):
            number += 1
            assert number < 60, "no machine was bought for a minute"
            if owner == "static NodePool":
                sim.store.patch("nodepools.karpenter.sh", "others", {"spec": {"replicas": number}})
            else:
                owned = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "others", "uid": uid}
                body = node_claim(f"others-{number}")
                body["metadata"] |= {"ownerReferences": [owned], "labels": {labels.NODEPOOL: "others"}}
                body["spec"]["nodeClassRef"] = OTHER_CLASS
                await sim.apply(body)
            await asyncio.sleep(1.0)

    story()


def claims_of_pool(sim: Sim, pool: str) -> list[Json]:
    return [one for one in claims_of(sim) if one["metadata"]["labels"].get(labels.NODEPOOL) == pool]
