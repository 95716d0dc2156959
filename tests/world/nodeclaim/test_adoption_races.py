"""Races between Kubernetes' garbage collector and adoption: a Node of a restored claim keeps its machine.

The collector and the controller do not coordinate their writes. In any order the Node is either owned again, or kept
while it is deleting; it never counts as deleted by a user.
"""

import asyncio
import contextvars

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from tests.world.commands import command
from tests.world.garbagecollection.common import NO_BOUND, adopt, deletes, fleet, restore, uids
from tests.world.harness import Sim, simulated
from tests.world.main_job import NAME, ready
from tests.world.transcript import FAST, MINUTE, claim_condition, deleting, finalizers, node_name, node_of, pool_calls

COUNT = 4
STEP_SECONDS = 0.02
# The collector of the simulator acts so long after the change that calls for it.
COLLECTED_SECONDS = 0.5


def moments(before: float, after: float, step: float) -> list[float]:
    """Seconds from the collector's deletion on, from `before` it to `after` it."""
    return [round(-before + step * number, 3) for number in range(round((before + after) / step) + 1)]


# Every 20 ms where writes can meet; from there to a second on either side, now and then. The claim is there for half
# a second before the deletion; what is requested earlier stands on it from its creation.
NEAR = moments(0.2, 0.2, STEP_SECONDS)
FAR = [moment for moment in moments(0.5, 1.0, 0.1) if abs(moment) > 0.2]
ALL = sorted([*NEAR, *FAR])
WORLDS = [ALL[start :: -(-len(ALL) // COUNT)] for start in range(-(-len(ALL) // COUNT))]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("when", WORLDS, ids=[" ".join(f"{moment:+.2f}" for moment in world) for world in WORLDS])
@simulated(azure=FAST, **NO_BOUND)
async def test_restored_claims_adopt_at_every_moment_around_the_deletion(sim: Sim, when: list[float]) -> None:
    """Before, during and after it: the claims stay, no DELETE of a pool is sent, and `gc` has nothing to remove."""
    names = await fleet(sim, len(when))
    old = [restore(sim, name) for name in names]
    before, collected_at = uids(sim, names), sim.now + COLLECTED_SECONDS
    for name, uid, moment in zip(names, old, when, strict=True):
        await asyncio.sleep(max(0.0, collected_at + moment - sim.now))
        adopt(sim, name, uid)
    await asyncio.sleep(5 * MINUTE)
    assert uids(sim, names) == before
    assert not any(deleting(sim.claim(name)) for name in names)
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT", None)) == len(names)
    assert all(finalizers(node_of(sim, name)) == [labels.FINALIZER] for name in names), "their pods work on"
    assert (await command(sim, "gc")).out.startswith(f"nothing to remove: {len(names)} managed agent pools; ")


def by_nobody(sim: Sim, node: str) -> None:
    """Delete the Node outside the context of the current request."""
    contextvars.Context().run(sim.store.delete, "nodes", node)


def collect_around_the_hand_over(sim: Sim, phase: str) -> list[Call]:
    """The collector, which has read the old owners, deletes the Node just before or after they are patched."""
    taken: list[Call] = []

    def hits(call: Call) -> bool:
        node = sim.store.get("nodes", call.target.name) if call.target.kind == "nodes" else None
        return call.is_write and call.who.startswith("ctl") and node is not None and not deleting(node)

    async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
        if phase == "before" and not taken and hits(call):
            taken.append(call)
            by_nobody(sim, call.target.name)
        return None

    async def after(call: Call, _: web.StreamResponse) -> None:
        if phase == "after" and not taken and hits(call):
            taken.append(call)
            by_nobody(sim, call.target.name)

    sim.world.before.append(before)
    sim.world.after.append(after)
    return taken


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("phase", ["before", "after"])
@simulated(azure=FAST, **NO_BOUND)
async def test_the_deletion_meets_the_hand_over(sim: Sim, phase: str, restarted: bool) -> None:
    """A Node deleted during the change of its owner is kept, reported, and removed with its claim."""
    await sim.start_controller()
    old = await ready(sim)
    sim.api.collector.stop()
    taken = collect_around_the_hand_over(sim, phase)
    restore(sim, NAME, adopt=old)
    await sim.until(lambda: deleting(node_of(sim)), MINUTE, "the Node is deleted")
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1")
    await asyncio.sleep(10 * MINUTE)
    assert [call.verb for call in taken] == ["PATCH"]
    assert not deletes(sim), "no DELETE was sent"
    assert not deleting(sim.claim(NAME))
    (owner,) = node_of(sim)["metadata"]["ownerReferences"]
    assert owner["uid"] == uids(sim, [NAME])[0] != old
    spoken = [claim_condition(sim, kind) for kind in ("Registered", "Initialized")]
    assert any("as Kubernetes does when a Node's claim is gone" in words for _, _, words in spoken), spoken
    await sim.delete_claim(NAME)
    await sim.until(lambda: sim.claim(NAME) is None, 10 * MINUTE, "deleted, it goes")
    assert deletes(sim) == [NAME]
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_a_person_deletes_the_node_of_an_adopted_claim(sim: Sim) -> None:
    """Minutes after the adoption, deletion of the Node removes claim and pool as usual."""
    await sim.start_controller()
    old = await ready(sim)
    sim.api.collector.stop()
    restore(sim, NAME, adopt=old)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", MINUTE, "it is Ready at once")
    sim.api.collector.start()
    await asyncio.sleep(5 * MINUTE)
    await sim.delete_node(node_name(sim))
    await sim.until(lambda: sim.claim(NAME) is None, 10 * MINUTE, "its claim goes too")
    assert deletes(sim) == [NAME]
    await sim.settled(quiet_seconds=70)
