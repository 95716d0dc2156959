"""Each invariant is violated by one deliberate change, and not by permitted ones."""

import asyncio
from datetime import datetime, timedelta

import aiohttp
import pytest

from provisioner.api import labels
from provisioner.simulator.invariants import InvariantError
from tests.stories import run_by

from .histories import CLAIMS, PODS, SPOT, Caller, breaks, conditions, node_of, play

RELEASED = {"metadata": {"finalizers": None}}


async def machine(world, controller, name="gpu1"):
    """A claim, its pool, and its Node with our finalizer and label; returns the claim's UID and the Node's name."""
    meta = await controller.claim(name)
    await controller.pool(meta["uid"], name)
    await asyncio.sleep(130)
    node = node_of(world, name)
    mark = {"metadata": {"finalizers": [labels.FINALIZER], "labels": {labels.INITIALIZED: "true"}}}
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", mark)
    return meta["uid"], node


@run_by(breaks, given=3, match=r"I1 violated at 7.*pool gpu1 has had no claim for 6", gc_bound_seconds=600)
async def test_i1_a_pool_without_a_claim_may_not_stay(world, controller, person) -> None:
    """A marked pool without a claim is a leak once the bound has passed, and not before."""
    await machine(world, controller)
    await person.kube("PATCH", f"{CLAIMS}/gpu1", RELEASED)
    await person.kube("DELETE", f"{CLAIMS}/gpu1")
    await asyncio.sleep(590)
    world.check()
    await asyncio.sleep(20)
    world.check()


@run_by(play, given=3, gc_bound_seconds=600)
async def test_i1_the_bound_counts_from_the_end_of_the_clusters_operation(world, controller, person) -> None:
    """During an operation on the cluster nothing is removed by inference, and the bound does not elapse."""
    await machine(world, controller)
    await person.kube("PATCH", f"{CLAIMS}/gpu1", RELEASED)
    await person.kube("DELETE", f"{CLAIMS}/gpu1")
    world.cloud.cluster_operation("Upgrading")
    for _ in range(20):
        await asyncio.sleep(60)
        world.check()
    world.cloud.cluster_operation("Succeeded")
    await asyncio.sleep(300)


@run_by(breaks, given=3, match="I1 violated.*after convergence, pool gpu1")
async def test_i1_a_quiescent_world_has_no_orphan(world, controller, person) -> None:
    """Even a recent orphan is a violation then."""
    await controller.pool("00000000-0000-0000-0000-00000000dead")
    world.invariants.check_quiescent()


@run_by(breaks, given=3, match=r"I2 violated.*Node aks-gpu1-\S+ was released while its pool gpu1 \(Succeeded\) exists")
async def test_i2_the_node_waits_for_the_pool(world, controller, person) -> None:
    """Removing our finalizer from a Node while its pool exists violates the order."""
    _, node = await machine(world, controller)
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", RELEASED)


@run_by(breaks, given=3, match="I2 violated.*claim gpu1 was released while its Node")
async def test_i2_the_claim_waits_for_the_node(world, controller, person) -> None:
    """Removing our finalizer from a claim while its Node exists violates the order, although the pool is gone."""
    await machine(world, controller)
    await person.kube("DELETE", f"{CLAIMS}/gpu1")
    await controller.arm("DELETE", "gpu1")
    await asyncio.sleep(200)
    await controller.kube("PATCH", f"{CLAIMS}/gpu1", RELEASED)


@run_by(play, given=3)
async def test_i2_a_node_of_a_live_claim_is_released_during_an_operation_on_its_pool(world, controller, person) -> None:
    """During an upgrade of its pool a Node that others delete may be released, and the pool is kept."""
    _, node = await machine(world, controller)
    world.cloud.cluster_operation("Upgrading")
    await person.kube("DELETE", f"/api/v1/nodes/{node}")
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", RELEASED)


@run_by(play, given=3)
async def test_the_correct_order_is_no_violation(world, controller, person) -> None:
    """Pool, Node, claim: the audit log shows it."""
    uid, node = await machine(world, controller)
    await person.kube("DELETE", f"{CLAIMS}/gpu1")
    await controller.kube("DELETE", f"/api/v1/nodes/{node}")
    await controller.arm("DELETE", "gpu1")
    await asyncio.sleep(200)
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", RELEASED)
    await controller.kube("PATCH", f"{CLAIMS}/gpu1", RELEASED)
    assert world.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    world.invariants.check_quiescent()


@pytest.mark.parametrize("released", [True, False])
def test_i2_a_registered_node_has_the_finalizer(released: bool) -> None:
    """Else a user who deletes the Node removes it before its machine."""

    async def story(world, controller, person) -> None:
        _, node = await machine(world, controller)
        if released:
            await person.kube("PATCH", f"/api/v1/nodes/{node}", RELEASED)
        await conditions(world, controller, "gpu1", Registered="True")

    if released:
        breaks(story, r"I2 violated.*claim gpu1 is Registered, and Node aks-gpu1-\S+ has no finalizer")
    else:
        play(story)


@pytest.mark.parametrize(("times", "violated"), [(6, False), (7, True)])
def test_i10_a_deletion_is_not_repeated(times: int, violated: bool) -> None:
    """The first of them begins it."""

    async def story(world, controller, person) -> None:
        await machine(world, controller)
        await person.kube("DELETE", f"{CLAIMS}/gpu1")
        assert {await controller.attempt("DELETE", "gpu1") for _ in range(times)} == {202, 409}

    if violated:
        breaks(story, "I10 violated.*ctl deleted pool gpu1 again, which is being deleted")
    else:
        play(story)


@pytest.mark.parametrize(("seconds", "violated"), [(1.0, True), (2.5, False)])
def test_i10_a_retry_comes_after_a_delay(seconds: float, violated: bool) -> None:
    """Of whatever write."""

    async def story(world, controller, person) -> None:
        for _ in range(31):
            await controller.attempt("PUT", "gpu1")
            await asyncio.sleep(seconds)

    if violated:
        breaks(story, "I10 violated.*ctl sent 30 times PUT for pool gpu1 within a minute")
    else:
        play(story)


@run_by(breaks, given=3, match="I3 violated.*has 2 pools: gpu1, other")
async def test_i3_one_claim_one_pool(world, controller, person) -> None:
    """Two pools for one claim's UID are a violation, whatever their names."""
    meta = await controller.claim()
    await controller.pool(meta["uid"], "gpu1")
    await controller.pool(meta["uid"], "other")


@run_by(breaks, given=3, match="I4 violated.*ctl changed pool theirs, which is not ours")
async def test_i4_foreign_pools_are_not_touched(world, controller, person) -> None:
    """An accepted DELETE of a foreign pool is a violation; a rejected one is not."""
    with pytest.raises(AssertionError, match="at least one system"):
        await controller.arm("DELETE", "system")
    world.check()
    await controller.arm("DELETE", "theirs")


@run_by(breaks, given=3, match="I4 violated.*changed the owner of pool gpu1, claim")
async def test_i4_a_pool_of_another_claim_is_not_taken_over(world, controller, person) -> None:
    """A PUT that puts one claim's mark over another's is a violation."""
    meta = await controller.claim()
    await controller.pool(meta["uid"])
    await asyncio.sleep(70)
    await controller.pool("00000000-0000-0000-0000-00000000beef", over=True)


def test_i4_foreign_nodes_are_not_touched() -> None:
    """Neither a label on a foreign Node, nor the eviction of a Pod that runs there."""

    async def label(world, controller, person) -> None:
        await asyncio.sleep(60)
        await controller.kube(
            "PATCH", f"/api/v1/nodes/{node_of(world, 'theirs')}", {"metadata": {"labels": {"a": "b"}}}
        )

    async def evict(world, controller, person) -> None:
        await asyncio.sleep(60)
        meta = {"name": "web", "namespace": "default"}
        spec = {"nodeName": node_of(world, "theirs"), "containers": [{"name": "c", "image": "i"}]}
        await person.kube("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await controller.evict("web")

    breaks(label, "I4 violated.*changed Node aks-theirs")
    breaks(evict, "I4 violated.*evicted Pod web from Node aks-theirs")


def test_i5_writes_must_end() -> None:
    """A controller that keeps writing does not settle; once it stops, it has."""

    async def story(world, controller, person) -> None:
        await controller.claim()

        async def chatter(times) -> None:
            for n in range(times):
                await asyncio.sleep(50)
                await controller.kube("PATCH", f"{CLAIMS}/gpu1", {"metadata": {"annotations": {"n": str(n)}}})

        async with asyncio.TaskGroup() as group:
            group.create_task(chatter(4))
            await world.settled(quiet_seconds=60, within_seconds=300)
            assert world.audit_log.calls()[-1].at == pytest.approx(200, abs=2)
            group.create_task(chatter(30))
            await asyncio.sleep(60)
            await world.settled(quiet_seconds=60, within_seconds=300)

    with pytest.raises(ExceptionGroup) as caught:
        play(story)
    assert caught.group_contains(InvariantError, match="I5 violated: still writing 3")


def test_i6_only_the_leader_writes() -> None:
    """Once a lease exists, a write without it is a violation: while another process holds it, or after it expired."""

    async def other(world, controller, person) -> None:
        async with aiohttp.ClientSession(connector=world.connector("ctl2", controller=True)) as session:
            await Caller(session).lease("two")
            await controller.claim()

    async def lapsed(world, controller, person) -> None:
        await controller.lease("one", seconds=15)
        await controller.claim("first")
        await asyncio.sleep(16)
        await controller.claim("second")

    async def released(world, controller, person) -> None:
        await controller.lease("one")
        await controller.lease("")
        await controller.claim()

    breaks(other, "I6 violated.*ctl wrote while ctl2 held the lease")
    breaks(lapsed, r"I6 violated.*ctl wrote 1\.\d+ s after its lease had expired.*POST nodeclaims")
    breaks(released, "I6 violated.*ctl wrote while no process held the lease")


@run_by(play, given=3)
async def test_i6_reading_and_bookkeeping_need_no_lease(world, controller, person) -> None:
    """A follower may read, and try to acquire the lease."""
    async with aiohttp.ClientSession(connector=world.connector("ctl2", controller=True)) as session:
        await Caller(session).lease("two")
    await controller.kube("GET", CLAIMS)
    await controller.lease("one")
    await controller.claim()


DEEDS = {
    "pool": (lambda controller, node: controller.arm("DELETE", "gpu1"), "deleted pool gpu1"),
    "node": (lambda controller, node: controller.kube("DELETE", f"/api/v1/nodes/{node}"), "deleted Node aks-gpu1"),
    "claim": (lambda controller, node: controller.kube("DELETE", f"{CLAIMS}/gpu1"), "deleted claim gpu1"),
}


@pytest.mark.parametrize("what", DEEDS)
def test_i7_what_is_healthy_is_not_deleted(what) -> None:
    """Neither the pool, nor the Node, nor the claim of a healthy machine is deleted by the controller."""
    deed, words = DEEDS[what]

    async def story(world, controller, person) -> None:
        _, node = await machine(world, controller)
        await deed(controller, node)

    breaks(story, f"I7 violated.*ctl {words}")


@pytest.mark.parametrize("what", DEEDS)
@run_by(play, given=3)
async def test_i7_a_person_may_delete_what_is_healthy(world, controller, person, what) -> None:
    """A person may delete all of them."""
    deed, _ = DEEDS[what]
    _, node = await machine(world, controller)
    await deed(person, node)


@pytest.mark.parametrize("what", DEEDS)
@run_by(play, given=3)
async def test_i7_a_machine_that_is_no_longer_ready_may_be_deleted(world, controller, person, what) -> None:
    """A machine that was up and is no longer Ready is not healthy."""
    deed, _ = DEEDS[what]
    _, node = await machine(world, controller)
    world.nodes.set_ready(node, None)
    await deed(controller, node)


@run_by(breaks, given=3, match="I7 violated.*deleted pool gpu1 of a healthy claim")
async def test_i7_a_machine_that_is_being_created_is_healthy(world, controller, person) -> None:
    """A pool that is being created is protected like one that runs."""
    meta = await controller.claim()
    await controller.pool(meta["uid"])
    world.cloud.configure(delete_preempts=True)
    await controller.arm("DELETE", "gpu1")


@run_by(play, given=3)
async def test_i7_an_evicted_machine_that_was_starting_may_be_deleted(world, controller, person) -> None:
    """Azure has set the count of its pool to 0: it gets no machine again. Its Node remains for a while."""
    meta = await controller.claim("gpu1", SPOT)
    await controller.pool(meta["uid"], scaleSetPriority="Spot")
    await asyncio.sleep(130)
    world.cloud.evict("gpu1")
    await controller.kube("DELETE", f"{CLAIMS}/gpu1")


@run_by(breaks, given=3, match="I7 violated.*deleted claim gpu1, which is healthy")
async def test_i7_an_evicted_machine_that_azure_restores_is_healthy(world, controller, person) -> None:
    """The count of the pool stays, and another machine is on its way."""
    meta = await controller.claim("gpu1", SPOT)
    await controller.pool(meta["uid"], scaleSetPriority="Spot")
    await asyncio.sleep(130)
    world.cloud.evict("gpu1", refill_after_seconds=60.0)
    await controller.kube("DELETE", f"{CLAIMS}/gpu1")


@run_by(play, given=3)
async def test_i7_a_failed_pool_may_be_deleted(world, controller, person) -> None:
    """A pool that AKS failed to create is removed, although its claim lives."""
    world.cloud.fail_next_create("AllocationFailed", "no capacity", after_seconds=20)
    meta = await controller.claim()
    await controller.pool(meta["uid"])
    await asyncio.sleep(30)
    await controller.arm("DELETE", "gpu1")


@run_by(breaks, given=3, match="I11 violated.*Launched of claim gpu1 states its deadline repeatedly")
async def test_i11_a_deadline_is_stated_once(world, controller, person) -> None:
    """A condition that takes its last message as its cause would repeat the end of it."""
    await controller.claim()
    message = "it waits; overdue: over 5 min; overdue: over 5 min"
    launched = {"type": "Launched", "status": "Unknown", "reason": "Creating", "message": message}
    body = {"status": {"conditions": [{**launched, "lastTransitionTime": "2026-03-01T12:00:00Z"}]}}
    await controller.kube("PATCH", f"{CLAIMS}/gpu1/status", body)


def test_legacy_pools_are_ours_by_their_creation_label() -> None:
    """A pool of the predecessor belongs to the claim whose creation time its label has, and is protected."""

    async def story(world, controller, person) -> None:
        meta = await controller.claim()
        created = datetime.fromisoformat(meta["creationTimestamp"])
        stamp = {labels.KAITO_CREATION_TIMESTAMP: created.strftime("%Y-%m-%dT%H-%M-%SZ")}
        world.cloud.seed_pool("gpu1", nodeLabels=stamp)
        await controller.arm("DELETE", "gpu1")

    async def other_claim(world, controller, person) -> None:
        meta = await controller.claim()
        created = datetime.fromisoformat(meta["creationTimestamp"]) - timedelta(days=1)
        stamp = {labels.KAITO_CREATION_TIMESTAMP: created.strftime("%Y-%m-%dT%H-%M-%SZ")}
        world.cloud.seed_pool("gpu1", nodeLabels=stamp)
        await controller.arm("DELETE", "gpu1")

    breaks(story, "I7 violated")
    play(other_claim)


@run_by(play, given=3)
async def test_deletions_by_the_garbage_collector_are_not_the_controllers(world, controller, person) -> None:
    """The garbage collector deletes the Node of a deleted claim."""
    uid, node = await machine(world, controller)
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "gpu1", "uid": uid}
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"ownerReferences": [owner]}})
    world.nodes.set_ready(node, None)
    await person.kube("DELETE", f"{CLAIMS}/gpu1")
    await person.kube("PATCH", f"{CLAIMS}/gpu1", RELEASED)
    await asyncio.sleep(5)
    deleting = [change for change in world.audit_log.changes(kind="node", uid=uid) if change.what == "deleting"]
    assert [change.call for change in deleting] == [None]
