"""Time travel: a relist is served by a stale server and shows an earlier state.

Every pair of points (i, j < i) of a claim's lifecycle: at its i-th change the watches end, and lists and new watches
show the state of its j-th change for some minutes; then the server catches up. This happens to claims, to Nodes, to
both (one stale server), within one process or to a new one; and to LISTs and GETs of pools. Whatever is shown, the
invariants hold after every write (I1 to I4, I7) and the lifecycle completes (I5).

Only lists and watches of reflectors are stale. Fresh reads that a plan requests, of one object or of the Nodes of one
pool, are current: the API server answers them from etcd, and the rules rely on it.

EVERY_PAIR=1 runs all pairs, in some minutes; `make test` runs a fixed sample (see `stale.chosen`).
"""

from collections.abc import Callable

import pytest

from tests.world.harness import Sim
from tests.world.transcript import CLAIMS

from .stale import BOTH, STALE_SECONDS, PoolPoints, chosen, ends_well, later, life, run_story
from .travel import Pair, changes, pool_changes, travel

# Reads of a single pool lag a little (docs/references/agent-pools.md#not-found); lists may for much longer.
GET_STALE_SECONDS = 30.0


def pairs(last: int) -> list[Pair]:
    """All (i, j < i) up to that point."""
    return [(i, j) for i in range(1, last + 1) for j in range(i)]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize(
    ("kinds", "at_most"), [(("nodes",), 12), (BOTH, 12), ((CLAIMS,), 55)], ids=["nodes", "both", "claims"]
)
def test_relists_by_a_stale_server(
    kinds: tuple[str, ...], at_most: int, restart: bool, record_property: Callable[[str, object], None]
) -> None:
    """Nothing is duplicated, lost or leaked, whatever earlier point a list shows."""
    every = pairs(changes(kinds))
    tried = chosen(every, at_most)
    for pair in tried:
        travel(kinds, pair, restart=restart)
    record_property("pairs", f"{len(tried)} of {len(every)}")
    print(f"{len(tried)} of {len(every)} pairs")


def travel_of_pools(verb: str, pair: Pair, *, restart: bool) -> None:
    """Run the scenario with one pair for ARM's LIST or GET."""
    i, j = pair
    trips: list[Pair] = []

    async def story(sim: Sim) -> None:
        def depart() -> None:
            trips.append(pair)
            sim.cloud.past[verb] = points.pasts[j]
            if restart:
                sim.replace_controller("ctl0")
            seconds = GET_STALE_SECONDS if verb == "GET" else STALE_SECONDS
            later(seconds, lambda: sim.cloud.past.pop(verb))

        points = PoolPoints.count(sim, {i: depart})
        await sim.start_controller(elect=False)
        await ends_well(sim, await life(sim))

    run_story(story, f"{verb}, point {i} shown as {j}, {'restarted' if restart else 'same process'}")
    assert trips == [pair]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("verb", ["LIST", "GET"])
def test_stale_reads_of_pools(verb: str, restart: bool, record_property: Callable[[str, object], None]) -> None:
    """With a LIST minutes old or a GET half a minute old there is no second pool, and no Node or claim goes before its
    pool.
    """
    every = pairs(pool_changes())
    for pair in every:
        travel_of_pools(verb, pair, restart=restart)
    record_property("pairs", f"{len(every)} of {len(every)}")
    print(f"{len(every)} of {len(every)} pairs")
