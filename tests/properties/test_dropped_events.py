"""Lost news: a range of changes that no watch ever tells of, or that no LIST of pools shows in time.

Every range (i to k) of the changes of a claim's life: the watches of that kind pass over them and look well; some
minutes after the first the thread is lost (410), a list follows, and with it the truth. Of pools, LISTs fail from the
i-th change to the k-th. The invariants hold after every write (I1 to I4, I7) and the life ends as ever (I5).

EVERY_PAIR=1 tries all ranges, in some minutes; `make test` tries a fixed choice of them (see `stale.chosen`).
"""

from collections.abc import Callable

import pytest

from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.harness import Sim
from tests.world.transcript import CLAIMS

from .stale import BOTH, STALE_SECONDS, Points, PoolPoints, Watches, chosen, ends_well, later, life, told
from .test_time_travel import changes, pool_changes

Range = tuple[int, int]


def ranges(last: int) -> list[Range]:
    """All (i, k), both included, up to that point."""
    return [(i, k) for i in range(1, last + 1) for k in range(i, last + 1)]


def drop(kinds: tuple[str, ...], lost: Range) -> None:
    """One range of events."""
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

    told(story, f"{kinds}, changes {first} to {last} lost")
    assert dropped


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize(
    ("kinds", "at_most"), [((CLAIMS,), 55), (("nodes",), 20), (BOTH, 20)], ids=["claims", "nodes", "both"]
)
def test_events_that_never_come(
    kinds: tuple[str, ...], at_most: int, record_property: Callable[[str, object], None]
) -> None:
    """Whatever is not told of, nothing is doubled, lost or leaked; once it is listed, the life goes on."""
    every = ranges(changes(kinds))
    tried = chosen(every, at_most)
    for lost in tried:
        drop(kinds, lost)
    record_property("ranges", f"{len(tried)} of {len(every)}")
    print(f"{len(tried)} of {len(every)} ranges")


def drop_lists(lost: Range) -> None:
    """No LIST of pools is answered during one range of the pool's changes."""
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

    told(story, f"LISTs of pools fail from change {first} to {last}")
    assert begun == [lost]


@pytest.mark.matrix(quick=0)
def test_changes_of_a_pool_that_no_list_shows_in_time(record_property: Callable[[str, object], None]) -> None:
    """A list that fails is no news: the Node proves the machine, and a GET its end."""
    every = ranges(pool_changes())
    for lost in every:
        drop_lists(lost)
    record_property("ranges", f"{len(every)} of {len(every)}")
    print(f"{len(every)} of {len(every)} ranges")
