"""What one event, and a pass after it, costs does not depend on how many machines there are.

Work is counted, so the numbers are the same in each run. Controllers of NodePools collect the events of a second; an
event that does not concern them must not start a pass.
"""

import asyncio
import functools
from collections.abc import Callable

import msgspec
import pytest

from cloudprovider.observations import Tally
from controllers.nodepool.counter import Usage
from provisioner.api.node import NodeCondition
from provisioner.api.nodeclaim import NodeClaimStatus
from provisioner.runtime import resources
from provisioner.runtime.watch import EventType
from tests.world.at_scale import Fleet, Work, at_scale, counted

FEW, MANY = 50, 5_000
EMPTINESS, DISRUPTION = "emptiness", "disruption"
COLLECTED_SECONDS = 3.0


def claim_changed(on: Fleet, number: int) -> None:
    claim = on.machine(number)[0]
    meta = msgspec.structs.replace(claim.metadata, annotations={**claim.metadata.annotations, "example.com/note": "x"})
    on.api.send(resources.NODECLAIMS, msgspec.structs.replace(claim, metadata=meta))


def claim_created(on: Fleet, number: int) -> None:
    """Its agent pool is requested at once."""
    claim = on.machine(number)[0]
    meta = msgspec.structs.replace(claim.metadata, name=f"new-{number}", uid=f"new-{number}")
    status = NodeClaimStatus()
    on.api.send(resources.NODECLAIMS, msgspec.structs.replace(claim, metadata=meta, status=status), EventType.ADDED)


def heartbeat(on: Fleet, number: int) -> None:
    on.api.send(resources.NODES, on.machine(number)[1])


def node_not_ready(on: Fleet, number: int) -> None:
    """Long enough that it counts as unhealthy."""
    node = on.machine(number)[1]
    ready = NodeCondition(type="Ready", status="False", last_transition_time=node.metadata.creation_timestamp)
    status = msgspec.structs.replace(node.status, conditions=(ready,))
    on.api.send(resources.NODES, msgspec.structs.replace(node, status=status))


def pod_bound(on: Fleet, number: int) -> None:
    used = on.machine(number)[2]
    meta = msgspec.structs.replace(used.metadata, name=f"other-{number}", uid=f"other-{number}")
    on.api.send(resources.PODS, msgspec.structs.replace(used, metadata=meta), EventType.ADDED)


def pod_deleted(on: Fleet, number: int) -> None:
    on.api.send(resources.PODS, on.machine(number)[2], EventType.DELETED)


def last_pod_deleted(on: Fleet, number: int) -> None:
    last = on.api.objects[resources.PODS.plural][f"default/other-{number}"]
    on.api.send(resources.PODS, last, EventType.DELETED)


def pool_listed(on: Fleet, number: int) -> None:
    pool = on.machine(number)[3]
    on.operator._inventory.record_get(msgspec.structs.replace(pool, etag="another"))


EVENTS: tuple[Callable[[Fleet, int], None], ...] = (
    heartbeat,
    node_not_ready,
    claim_changed,
    claim_created,
    pod_bound,
    pod_deleted,
    pool_listed,
)


def recount(on: Fleet) -> None:
    """What is kept as objects change is what counting everything gives."""
    inventory, caches = on.operator._inventory, on.operator._caches
    tally = Tally()
    for pool in inventory.items():
        tally.replace(pool.name, None, pool)
    assert inventory.tally == tally
    machines = ((claim, caches.nodes.get(claim.status.node_name)) for claim in caches.claims.items())
    usage = on.operator._controllers.reconciler._another_machine._usage.of("gpu")
    assert usage.resources() == Usage(machines).resources()


@functools.cache
def work_of_events(machines: int) -> dict[str, Work]:
    """The work of each event at once, and in the seconds after; what is computed once is left out."""

    async def story(on: Fleet) -> dict[str, Work]:
        for number, event in enumerate(EVENTS):
            event(on, number)
        await asyncio.sleep(COLLECTED_SECONDS)
        found = dict[str, Work]()
        for number, event in enumerate(EVENTS, start=len(EVENTS)):
            with counted() as work:
                event(on, number)
                await asyncio.sleep(0.01)
            found[event.__name__] = work
        with counted() as work:
            await asyncio.sleep(COLLECTED_SECONDS)
        recount(on)
        return found | {"after all": work}

    return at_scale(machines, story)


@pytest.mark.parametrize("what", [*(event.__name__ for event in EVENTS), "after all"])
def test_work_does_not_grow_with_the_machines(what: str) -> None:
    few, many = work_of_events(FEW)[what], work_of_events(MANY)[what]
    assert few.total() > 0
    grown = {where: (few[where], work) for where, work in many.items() if work > 1.1 * few[where] + 10}
    # A LIST of the agent pools, which follows a request for one, reads all of them.
    assert not {where for where in grown if where[0] != "inventory" or what != "after all"}, grown


@functools.cache
def work_of_passes(machines: int) -> dict[str, int]:
    """The work of a pass of the controllers of disruption, by controller and what happened before.

    Each machine is Consolidatable, and its NodePool lets machines go only when they are empty.
    """

    async def story(on: Fleet) -> dict[str, int]:
        found = dict[str, int]()
        for event in (claim_changed, pod_bound, pod_deleted, last_pod_deleted):
            with counted() as work:
                event(on, 0)
                await asyncio.sleep(COLLECTED_SECONDS)
            by_task = {task: sum(n for (of, _), n in work.items() if of == task) for task in (EMPTINESS, DISRUPTION)}
            found |= {f"{task} after {event.__name__}": number for task, number in by_task.items() if number}
        return found

    return at_scale(machines, story, consolidate_after="0s")


def test_passes_do_not_grow_with_the_machines() -> None:
    few, many = work_of_passes(FEW), work_of_passes(MANY)
    passes = (f"{EMPTINESS} after claim_changed", f"{DISRUPTION} after claim_changed")
    assert few.keys() == many.keys() >= {*passes, f"{EMPTINESS} after last_pod_deleted"}
    assert not {what: (few[what], work) for what, work in many.items() if work > 1.1 * few[what] + 10}


def test_what_leaves_a_machine_used_starts_no_pass() -> None:
    """A kubelet sends a heartbeat every 5 minutes: 17 a second of 5,000 Nodes."""

    async def story(on: Fleet) -> list[bool]:
        found = []
        for event in (heartbeat, pod_bound, pod_deleted, last_pod_deleted):
            with counted() as work:
                event(on, 0)
                await asyncio.sleep(COLLECTED_SECONDS)
            found.append(EMPTINESS in {task for task, _ in work})
        return found

    assert at_scale(FEW, story, consolidate_after="0s") == [False, False, False, True]
