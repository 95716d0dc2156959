"""Dropped events: a range of changes that no watch delivers, or that no LIST of pools shows in time.

Every range (i to k) of the changes of a claim's lifecycle: watches of that kind skip these events; some minutes after
the first one the watch expires (410) and a list follows. For pools, LISTs fail from the i-th change to the k-th. The
invariants hold after every write (I1 to I4, I7) and the lifecycle completes (I5).

EVERY_PAIR=1 runs all ranges, in some minutes; `make test` runs a fixed sample (see `stale.chosen`).
"""

from collections.abc import Callable

import pytest

from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.harness import Sim
from tests.world.transcript import CLAIMS

from .stale import BOTH, STALE_SECONDS, Points, PoolPoints, Watches, chosen, ends_well, later, life, run_story
from .travel import changes, pool_changes

Range = tuple[int, int]


def ranges(last: int) -> list[Range]:
    """All (i, k), both included, up to that point."""
    return [(i, k) for i in range(1, last + 1) for k in range(i, last + 1)]


def drop(kinds: tuple[str, ...], lost: Range, *, check: Callable[[Sim], None] = lambda sim: None) -> None:
    """Run the scenario with one range of dropped events; `check` runs at its end."""
    first, last = lost
    dropped: list[int] = []

    async def story(sim: Sim) -> None:
        watches = Watches(sim, kinds)

        def lose() -> None:
            if not dropped:
                later(STALE_SECONDS, heal)
            dropped.append(points.revisions[-1])
            sim.api.lose_event(points.revisions[-1])

        def heal() -> None:
            points.at.clear()
            watches.cut()

        points = Points.count(sim, kinds, dict.fromkeys(range(first, last + 1), lose))
        await sim.start_controller(elect=False)
        await ends_well(sim, await life(sim))
        check(sim)

    run_story(story, f"{kinds}, changes {first} to {last} lost")
    assert dropped


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize(
    ("kinds", "at_most"), [((CLAIMS,), 55), (("nodes",), 20), (BOTH, 20)], ids=["claims", "nodes", "both"]
)
def test_dropped_events(kinds: tuple[str, ...], at_most: int, record_property: Callable[[str, object], None]) -> None:
    """Nothing is duplicated, lost or leaked when events are dropped; the lifecycle continues after the relist."""
    every = ranges(changes(kinds))
    tried = chosen(every, at_most)
    for lost in tried:
        drop(kinds, lost)
    record_property("ranges", f"{len(tried)} of {len(every)}")
    print(f"{len(tried)} of {len(every)} ranges")


def no_write_is_refused(sim: Sim) -> None:
    """No write was based on an object that is older than the controller's own last write to it."""
    refused = [call for call in sim.audit_log.writes() if call.status == 409]
    assert not refused, refused


@pytest.mark.matrix(quick=0)
def test_a_dropped_event_of_a_claim_leads_to_no_refused_write() -> None:
    """The answer of an own write enters the cache, whatever the watch delivers."""
    for point in range(1, changes((CLAIMS,)) + 1):
        drop((CLAIMS,), (point, point), check=no_write_is_refused)


def drop_lists(lost: Range) -> None:
    """Run the scenario with failing LISTs of pools during one range of the pool's changes."""
    first, last = lost
    fault = Fault(verb="LIST", times=ALWAYS, answer=errors.html(503))
    begun: list[Range] = []

    async def story(sim: Sim) -> None:
        def heal() -> None:
            if fault in sim.cloud.faults:
                sim.cloud.faults.remove(fault)

        def begin() -> None:
            begun.append(lost)
            sim.cloud.faults.append(fault)
            later(STALE_SECONDS, heal)

        acts: dict[int, Callable[[], object]] = {first: begin, last + 1: heal}
        PoolPoints.count(sim, acts)
        await sim.start_controller(elect=False)
        await ends_well(sim, await life(sim))

    run_story(story, f"LISTs of pools fail from change {first} to {last}")
    assert begun == [lost]


@pytest.mark.matrix(quick=0)
def test_failing_lists_of_pools(record_property: Callable[[str, object], None]) -> None:
    """While LISTs of pools fail, the Node proves that the machine exists, and a GET proves that it is gone."""
    every = ranges(pool_changes())
    for lost in every:
        drop_lists(lost)
    record_property("ranges", f"{len(every)} of {len(every)}")
    print(f"{len(every)} of {len(every)} ranges")
