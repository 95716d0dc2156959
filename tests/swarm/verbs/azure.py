"""Faults of Azure: refused and lost requests, failed operations, shortages, evictions."""

from typing import TYPE_CHECKING

from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import Failure, Fault
from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run

VERBS = ("PUT", "DELETE", "GET", "LIST")


def _verb(event: Event) -> str:
    return VERBS[int(event.pick * len(VERBS))]


async def _during(run: "Run", event: Event, fault: Fault) -> None:
    run.sim.cloud.faults.append(fault)
    await run.lasts(event)
    run.sim.cloud.faults.remove(fault)
    if fault.seen:
        run.struck(event)


@verb("arm-unavailable")
async def arm_unavailable(run: "Run", event: Event) -> None:
    """All requests of one verb are answered with 503 while it lasts."""
    await _during(run, event, Fault(verb=_verb(event), times=faults.ALWAYS, answer=errors.html(503)))


@verb("arm-lost")
async def arm_lost(run: "Run", event: Event) -> None:
    """The next answer of one verb is lost after the request took effect."""
    await _during(run, event, Fault(verb=_verb(event), drop="after"))


@verb("create-fails")
async def create_fails(run: "Run", event: Event) -> None:
    """The next accepted creation fails for want of capacity."""
    code = ("AllocationFailed", "ZonalAllocationFailed")[int(event.pick * 2)]
    error = faults.wrapped(faults.no_capacity(code), how=("details", "message")[int(event.pick * 4) % 2])
    await _during(run, event, Fault(verb="PUT", failure=Failure(error=error, after_seconds=30.0)))


@verb("evict")
async def evict(run: "Run", event: Event) -> None:
    """Azure evicts the machine of a spot pool; it is refilled, or its count stays 0."""
    found = [pool.name for pool in run.sim.cloud.pools.values() if pool.priority == "Spot" and pool.machines]
    name = run.chosen(event.pick, found)
    if name is not None:
        run.struck(event)
        run.sim.cloud.evict(name, refill_after_seconds=120.0 if event.pick < 0.5 else None)
