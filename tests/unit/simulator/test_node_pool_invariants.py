"""I24 to I26 are violated by one deliberate change, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.snapshot import duration_seconds
from tests.stories import run_by

from .histories import (
    A100,
    CLAIMS,
    NODE_POOLS,
    ONE,
    SPOT,
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

KEPT = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}


def consolidation(after, policy="WhenEmptyOrUnderutilized"):
    return {"disruption": {"consolidateAfter": after, "consolidationPolicy": policy, "budgets": [ONE]}}


async def edited(person, **spec):
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", {"spec": spec})
    await asyncio.sleep(20)


@run_by(breaks, given=3, match=r"I24 violated.*claim a is disrupted \(Empty\), which pods left \d+ s ago")
async def test_i24_an_empty_machine_is_deleted_before_its_time(world, controller, person) -> None:
    """Users keep unused machines for an hour."""
    pool = await node_pool(person, **consolidation("1h"))
    await machine(world, controller, person, pool, "a")
    await delete(controller, "a")


@run_by(breaks, given=3, match=r"I24 violated.*claim a is disrupted \(Empty\), which pods left 60 s ago")
async def test_i24_the_time_begins_when_the_last_pod_has_left(world, controller, person) -> None:
    """A pod ends two minutes after the machine was initialized."""
    pool = await node_pool(person, **consolidation("100s"))
    _, node = await machine(world, controller, person, pool, "a")
    use(world, node)
    await asyncio.sleep(120)
    world.store.delete("pods", "p", "default", grace=0)
    await asyncio.sleep(60)
    await delete(controller, "a")


@pytest.mark.parametrize("reason", ["Empty", "Underutilized"])
def test_i24_never(reason: str) -> None:
    """Whatever the reason, and however long ago."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, **consolidation("Never"))
        _, node = await machine(world, controller, person, pool, "a")
        if reason == "Underutilized":
            use(world, node)
        await asyncio.sleep(3600)
        await conditions(world, controller, "a", DisruptionReason=reason)

    breaks(story, rf"I24 violated.*claim a is disrupted \({reason}\)")


@run_by(breaks, given=3, match=r"I24 violated.*claim a is disrupted \(Underutilized\)")
async def test_i24_only_empty_machines(world, controller, person) -> None:
    """A machine that a pod uses is consolidated, which its NodePool does not state."""
    pool = await node_pool(person, **consolidation("0s", "WhenEmpty"))
    _, node = await machine(world, controller, person, pool, "a")
    use(world, node)
    await asyncio.sleep(60)
    await conditions(world, controller, "a", DisruptionReason="Underutilized")


@run_by(breaks, given=3, match=r"I24 violated.*claim a is disrupted \(Drifted\), and is not to be disrupted")
async def test_i24_a_protected_machine(world, controller, person) -> None:
    """A user has annotated the NodeClaim."""
    pool = await node_pool(person, **consolidation("0s"))
    await machine(world, controller, person, pool, "a")
    await person.kube("PATCH", f"{CLAIMS}/a", KEPT)
    await asyncio.sleep(60)
    await conditions(world, controller, "a", DisruptionReason="Drifted")


@run_by(play, given=3)
async def test_i24_is_kept_by_permitted_changes(world, controller, person) -> None:
    """After its time; by a person; what had drifted; what the NodePool permitted seconds ago."""
    pool = await node_pool(person, disruption={**consolidation("10m")["disruption"], "budgets": []})
    for name in ("a", "b", "c", "d"):
        await machine(world, controller, person, pool, name)
    await conditions(world, controller, "b", Drifted="True")
    await delete(controller, "b")
    await delete(person, "c")
    await asyncio.sleep(600)
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", {"spec": consolidation("Never")})
    await delete(controller, "a")


@pytest.mark.parametrize(
    ("limits", "over"), [({"nodes": "1"}, "nodes"), ({"nvidia.com/gpu": "1"}, "nvidia.com/gpu"), ({"cpu": "7"}, "cpu")]
)
def test_i25_more_is_bought_than_the_limit(limits: dict[str, str], over: str) -> None:
    """The second of two machines with a GPU and four vCPUs each."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE, limits=limits)
        await claim(controller, pool, "a")
        await asyncio.sleep(60)
        await claim(controller, pool, "b")

    breaks(story, rf"I25 violated.*claim b is number 2 of NodePool gpu, above its limit on {over}")


@run_by(play, given=3)
async def test_i24_is_kept_by_a_clock_that_is_ahead(world, controller, person) -> None:
    """The condition states tomorrow; the machine has been Initialized and unused for its time."""
    pool = await node_pool(person, **consolidation("10m"))
    await machine(world, controller, person, pool, "a")
    found = world.store.get("nodeclaims.karpenter.sh", "a")["status"]["conditions"]
    ahead = [{**one, "lastTransitionTime": "2031-01-01T00:00:00Z"} for one in found]
    await controller.kube("PATCH", f"{CLAIMS}/a/status", {"status": {"conditions": ahead}})
    await asyncio.sleep(600)
    await delete(controller, "a")


@run_by(play, given=3)
async def test_i25_is_kept_by_permitted_changes(world, controller, person) -> None:
    """After a deletion; one that a person creates; before the controller can know a lower limit."""
    pool = await node_pool(person, ONE, limits={"nodes": "2"})
    for number in range(9):
        use(world, "", f"p{number}")
    for name in ("a", "b"):
        await claim(controller, pool, name)
    await asyncio.sleep(60)
    await delete(person, "a")
    await claim(controller, pool, "c")
    await claim(person, pool, "d")
    await delete(person, "d")
    await delete(person, "c")
    await person.kube("PATCH", f"{NODE_POOLS}/gpu", {"spec": {"limits": {"nodes": "1"}}})
    await claim(controller, pool, "e")


@pytest.mark.parametrize("what", [{"vmSize": A100}, {"scaleSetPriority": "Spot"}])
def test_i26_another_machine_than_the_claim_states(what: dict[str, str]) -> None:
    """Of another size, or one that Azure evicts."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        uid = await claim(controller, pool, "a")
        await controller.pool(uid, "a", **{"vmSize": T4, **what})

    breaks(story, r"I26 violated.*agent pool a of claim a was created with")


@run_by(breaks, given=3, match=r"I26 violated.*claim a has .*instance-type \['Standard_NC24ads_A100_v4'\], which NodeP")
async def test_i26_another_size_than_the_node_pool_allows(world, controller, person) -> None:
    """The NodePool lists one size."""
    await allowed(world, controller, person, A100)


async def allowed(world: Any, controller: Any, person: Any, size: str) -> None:
    """A NodePool with the size T4 and spot machines, and a NodeClaim of this size with its agent pool."""
    required = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4.lower()]}, SPOT]
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": required}}
    pool = await node_pool(person, ONE, template=template)
    stated = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [size]}, SPOT]
    use(world, "")
    uid = await claim(controller, pool, "a", requirements=stated)
    await controller.pool(uid, "a", vmSize=size.upper(), scaleSetPriority="Spot")


@run_by(play, given=3)
async def test_i26_is_kept_by_what_both_state(world, controller, person) -> None:
    """A size is the same in whatever case."""
    await allowed(world, controller, person, T4)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0.0), ("1h30m", 5400.0), ("1.5m", 90.0), ("Never", None), ("", None), ("5", None)]
)
def test_a_duration(text: str, seconds: float | None) -> None:
    """As the CRDs admit it."""
    assert duration_seconds(text) == seconds
