"""Each invariant of disruption is violated by one deliberate change, and not by permitted ones."""

import asyncio

import pytest

from provisioner.api import labels
from provisioner.simulator.disruption_invariants import allowed, model
from tests.stories import run_by

from .histories import (
    A100,
    EPOCH,
    NODE_POOLS,
    ONE,
    T4,
    breaks,
    claim,
    conditions,
    delete,
    machine,
    node_pool,
    play,
    use,
)


@run_by(breaks, given=3, match=r"I15 violated.*claim b is disrupted \(Drifted\) while 1 others of NodePool gpu")
async def test_i15_a_second_machine_is_marked(world, controller, person) -> None:
    """A budget of 1 is used by a machine that has the condition DisruptionReason."""
    pool = await node_pool(person, ONE)
    for name in ("a", "b"):
        await machine(world, controller, person, pool, name)
        await conditions(world, controller, name, DisruptionReason="Drifted")


@run_by(breaks, given=3, match=r"I15 violated.*claim b is disrupted \(Empty\)")
async def test_i15_a_second_machine_is_deleted(world, controller, person) -> None:
    """An empty machine is deleted while another one is on its way out."""
    pool = await node_pool(person, ONE)
    for name in ("a", "b"):
        await machine(world, controller, person, pool, name)
    for name in ("a", "b"):
        await delete(controller, name)


@run_by(breaks, given=3, match=r"I15 violated.*budgets allow 0 of 1")
async def test_i15_outside_the_hours_of_the_budget(world, controller, person) -> None:
    """From 9 to 17 nothing may be disrupted: it is noon."""
    pool = await node_pool(person, {"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"})
    await machine(world, controller, person, pool, "a")
    await delete(controller, "a")


@run_by(play, given=3)
async def test_i15_is_kept_by_permitted_changes(world, controller, person) -> None:
    """Within the budget; by a person; after the first one is gone from it; for another reason."""
    pool = await node_pool(person, {"nodes": "1", "reasons": ["Drifted"]})
    for name in ("a", "b", "c", "d"):
        await machine(world, controller, person, pool, name)
    await conditions(world, controller, "a", DisruptionReason="Drifted")
    await conditions(world, controller, "a", DisruptionReason="False")
    await conditions(world, controller, "b", DisruptionReason="Drifted")
    await delete(person, "a")
    await delete(controller, "c")
    await delete(controller, "d")
    world.check()


@run_by(breaks, given=3, match=r"I14 violated.*pod q ran on T4 and was moved to A100")
async def test_i14_a_replacement_with_another_model(world, controller, person) -> None:
    """The pod's successor is bound to the replacement, which has another model."""
    pool = await node_pool(person, ONE)
    old, node = await machine(world, controller, person, pool, "a")
    use(world, node)
    await conditions(world, controller, "a", DisruptionReason="Drifted")
    _, new = await machine(world, controller, person, pool, "b", size=A100, replaces=old)
    use(world, new, "q")


@run_by(breaks, given=3, match=r"I14 violated.*claim a was deleted with pods that use T4, which no other Node has")
async def test_i14_a_deletion_without_another_machine_of_the_model(world, controller, person) -> None:
    """A machine in use is deleted, and only another model is left."""
    pool = await node_pool(person, ONE)
    _, node = await machine(world, controller, person, pool, "a")
    await machine(world, controller, person, pool, "b", size=A100)
    use(world, node)
    await conditions(world, controller, "a", Consolidatable="Consolidatable")
    await delete(controller, "a")


def test_i14_a_pod_may_list_several_models() -> None:
    """Its own affinity permits both."""
    term = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4, A100]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        old, node = await machine(world, controller, person, pool, "a")
        use(world, node, affinity={"nodeAffinity": terms})
        await conditions(world, controller, "a", DisruptionReason="Drifted")
        _, new = await machine(world, controller, person, pool, "b", size=A100, replaces=old)
        use(world, new, "q", affinity={"nodeAffinity": terms})
        world.check()

    play(story)


@run_by(breaks, given=3, match=r"I16 violated.*claim a was deleted while its replacement b was not Ready")
async def test_i16_a_replacement_that_is_not_ready(world, controller, person) -> None:
    """The old machine of a static NodePool is deleted though its replacement was lost a minute ago."""
    pool = await node_pool(person, ONE, replicas=1)
    old, _ = await machine(world, controller, person, pool, "a")
    await conditions(world, controller, "a", DisruptionReason="Drifted")
    await machine(world, controller, person, pool, "b", replaces=old)
    await conditions(world, controller, "b", Ready="False")
    await asyncio.sleep(60)
    await delete(controller, "a")


@run_by(breaks, given=3, match=r"I16 violated.*claim a was deleted before its replacement b was Initialized")
async def test_i16_a_machine_that_expires_while_its_replacement_starts(world, controller, person) -> None:
    """It may be deleted as late as its expireAfter, but the replacement is minutes away."""
    pool = await node_pool(person, ONE)
    old, node = await machine(world, controller, person, pool, "a", expireAfter="1m")
    use(world, node)
    await conditions(world, controller, "a", DisruptionReason="Drifted")
    await machine(world, controller, person, pool, "b", replaces=old)
    await conditions(world, controller, "b", Initialized="False")
    await delete(controller, "a")


@run_by(breaks, given=3, match=r"I13 violated.*claim b is number 2 bought for 1 waiting pods")
async def test_i13_two_machines_for_one_pod(world, controller, person) -> None:
    """Nothing changed between the purchases."""
    pool = await node_pool(person, ONE)
    use(world, "", "p")
    await claim(controller, pool, "a")
    await claim(controller, pool, "b")


@run_by(play, given=3)
async def test_i13_a_machine_after_another_failed(world, controller, person) -> None:
    """The first one was deleted."""
    pool = await node_pool(person, ONE)
    use(world, "", "p")
    await claim(controller, pool, "a")
    await delete(controller, "a")
    await claim(controller, pool, "b")
    world.check()


async def in_vain(controller, world, pool, *names, bought_for=""):
    """Machines that become Ready, take no pod and are removed."""
    for name in names:
        await claim(controller, pool, name, bought_for=bought_for)
        await conditions(world, controller, name, Initialized="True")
        await delete(controller, name)


@pytest.mark.parametrize("stated", [False, True])
def test_i17_a_third_machine_for_one_pod(stated) -> None:
    """Two machines became Ready and took no pod, whether or not NodeClaims state what they were bought for."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        use(world, "", "p")
        uid = world.store.get("pods", "p", "default")["metadata"]["uid"] if stated else ""
        await in_vain(controller, world, pool, "a", "b", "c", bought_for=uid)

    one = r"I17 violated.*claim c was bought for pod \S+ after a and b, which became Ready and which no pod uses"
    breaks(story, one if stated else r"I17 violated.*claim c was bought after 2 machines that no pod uses, for 1 pods")


@run_by(play, given=3)
async def test_i17_a_machine_after_the_nodepool_was_annotated(world, controller, person) -> None:
    """A user states with the annotation that the cause is gone."""
    pool = await node_pool(person, ONE)
    use(world, "", "p")
    uid = world.store.get("pods", "p", "default")["metadata"]["uid"]
    await in_vain(controller, world, pool, "a", "b", bought_for=uid)
    again = {"metadata": {"annotations": {labels.RETRY: "1"}}}
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", again)
    await in_vain(controller, world, pool, "c", bought_for=uid)
    world.check()


@run_by(play, given=3)
async def test_i17_counts_each_pod(world, controller, person) -> None:
    """Two machines in vain for one pod do not concern another one."""
    pool = await node_pool(person, ONE)
    use(world, "", "p")
    use(world, "", "q")
    uids = [world.store.get("pods", name, "default")["metadata"]["uid"] for name in ("p", "q")]
    await in_vain(controller, world, pool, "a", "b", bought_for=uids[0])
    await in_vain(controller, world, pool, "c", "d", bought_for=uids[1])
    world.check()


# EPOCH is a Sunday at noon.
@pytest.mark.parametrize(
    ("budgets", "reason", "machines", "most"),
    [
        ([], "Empty", 5, float("inf")),
        ([{"nodes": "10%"}], "Empty", 1, 1),
        ([{"nodes": "10%"}], "Empty", 11, 2),
        ([{"nodes": "3"}, {"nodes": "20%"}], "Empty", 5, 1),
        ([{"nodes": "0", "reasons": ["Drifted"]}], "Empty", 5, float("inf")),
        ([{"nodes": "0", "reasons": ["Drifted"]}], "Drifted", 5, 0),
        ([{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}], "Empty", 5, float("inf")),
        ([{"nodes": "0", "schedule": "0 9 * * 0", "duration": "3h"}], "Empty", 5, 0),
        ([{"nodes": "0", "schedule": "0 9 * * 0", "duration": "2h59m"}], "Empty", 5, float("inf")),
        ([{"nodes": "0", "schedule": "0 9 */2 * 1-5", "duration": "3h"}], "Empty", 5, 0),
        ([{"nodes": "0", "schedule": "0 9 2 * 1-5", "duration": "8h"}], "Empty", 5, float("inf")),
        ([{"nodes": "0", "schedule": "@daily", "duration": "24h"}], "Empty", 5, 0),
        ([{"nodes": "0", "schedule": "0 0 30 2 *", "duration": "1h"}], "Empty", 5, 0),
        ([{"nodes": "1"}, {"nodes": "5", "schedule": "often", "duration": "1h"}], "Empty", 5, 0),
    ],
)
def test_budgets(budgets, reason, machines, most) -> None:
    """They are read as Karpenter does."""
    assert allowed({"spec": {"disruption": {"budgets": budgets}}}, reason, machines, EPOCH) == most


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (T4, "T4"),
        (A100, "A100"),
        ("Standard_ND96asr_v4", "Standard_ND96asr_v4"),
        ("Standard_NV36ads_A10_v5", "A10"),
        ("", ""),
    ],
)
def test_models(size, found) -> None:
    """The model is in the name of most sizes."""
    assert model({"metadata": {"labels": {labels.INSTANCE_TYPE: size}}}) == found


@run_by(breaks, given=3, match=r"I15 violated.*budgets allow 0 of 1")
async def test_i15_a_budget_of_a_minute_ago_is_none(world, controller, person) -> None:
    """Nothing else of the NodePool has changed since."""
    pool = await node_pool(person, ONE)
    await machine(world, controller, person, pool, "a")
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})
    await asyncio.sleep(60)
    await delete(controller, "a")
