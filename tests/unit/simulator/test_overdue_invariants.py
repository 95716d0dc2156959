"""I23 and I27 are violated by one deliberate history, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from tests.stories import run_by

from .histories import CLAIMS, NODE_POOLS, Caller, breaks, claim, delete, machine, node_pool, play, use

READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
HALF_AN_HOUR = 1800


async def leads(controller: Any, seconds: float) -> None:
    """A controller lists the agent pools each minute, and does nothing else."""
    for _ in range(int(seconds // 60)):
        await controller.arm("GET", "")
        await asyncio.sleep(60)


async def accepted(controller: Any, person: Any, *budgets: Any, after: str = "0s", **spec: Any) -> str:
    """A NodePool with the condition Ready; its UID."""
    disruption = {"consolidateAfter": after, "budgets": [*budgets]}
    uid = await node_pool(person, **({} if "replicas" in spec else {"disruption": disruption}), **spec)
    status = {"conditions": [{**READY, "lastTransitionTime": "2026-03-01T12:00:00Z"}]}
    await controller.kube("PATCH", f"{NODE_POOLS}/gpu/status", {"status": status})
    return str(uid)


@run_by(breaks, given=3, match=r"I23 violated.*no pod uses the machine of claim a, which is kept")
async def test_i23_an_unused_machine_is_kept(world, controller, person) -> None:
    """For twenty minutes longer than its NodePool states."""
    pool = await accepted(controller, person, after="5m")
    await machine(world, controller, person, pool, "a")
    await leads(controller, HALF_AN_HOUR)


@pytest.mark.parametrize("why", ["a pod", "Never", "a budget", "an annotation", "a cordon", "nobody leads"])
def test_i23_an_unused_machine_may_be_kept(why: str) -> None:
    """A pod uses it; users keep it; nobody leads."""

    async def story(world, controller, person) -> None:
        budgets = [{"nodes": "0"}] if why == "a budget" else []
        pool = await accepted(controller, person, *budgets, after="Never" if why == "Never" else "0s")
        _, node = await machine(world, controller, person, pool, "a")
        if why == "a pod":
            use(world, node)
        elif why == "an annotation":
            kept = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
            await person.kube("PATCH", f"{CLAIMS}/a", kept)
        elif why == "a cordon":
            await person.kube("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        if why == "nobody leads":
            await asyncio.sleep(2 * HALF_AN_HOUR)
        else:
            await leads(controller, HALF_AN_HOUR)

    play(story)


@run_by(breaks, given=3, match=r"I23 violated.*NodePool gpu has more NodeClaims than replicas")
async def test_i23_more_claims_than_replicas_are_kept(world, controller, person) -> None:
    """A user has lowered the number."""
    pool = await accepted(controller, person, replicas=2)
    for name in ("a", "b"):
        await machine(world, controller, person, pool, name)
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", {"spec": {"replicas": 1}})
    await leads(controller, HALF_AN_HOUR)


@run_by(breaks, given=3, match=r"I27 violated.*claim gpu1 is deleted, and its machine is kept")
async def test_i27_the_machine_of_a_deleted_claim_is_kept(world, controller, person) -> None:
    """No pod runs there."""
    await deleted(controller, person)
    await leads(controller, HALF_AN_HOUR)


async def deleted(controller: Caller, person: Caller) -> None:
    """A NodeClaim with an agent pool, which a person deletes."""
    meta = await person.claim()
    await controller.pool(meta["uid"])
    await asyncio.sleep(130)
    await delete(person, "gpu1")


@pytest.mark.parametrize("why", ["a pod", "it goes", "its CRD"])
def test_i27_the_machine_of_a_deleted_claim_may_be_kept(why: str) -> None:
    """A pod runs there; Azure deletes it; the claim was deleted with its CRD."""

    async def story(world, controller, person) -> None:
        if why == "its CRD":
            meta = await person.claim()
            await controller.pool(meta["uid"])
            await asyncio.sleep(130)
            world.store.delete("customresourcedefinitions.apiextensions.k8s.io", "nodeclaims.karpenter.sh")
        else:
            await deleted(controller, person)
        if why == "a pod":
            use(world, next(iter(world.nodes.machines.values())).name)
            for one in world.nodes.machines:
                use(world, one, f"on-{one}")
        elif why == "it goes":
            await controller.arm("DELETE", "gpu1")
        await leads(controller, HALF_AN_HOUR)

    play(story)


@run_by(breaks, given=3, match=r"I27 violated.*claim a has no agent pool, and nothing states why")
async def test_i27_nothing_is_requested_for_a_claim(world, controller, person) -> None:
    """Nor does its condition state a cause."""
    await claim(person, await accepted(controller, person), "a")
    await leads(controller, HALF_AN_HOUR)
