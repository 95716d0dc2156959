"""A controller that starts on a state of the past."""

from tests.world.harness import Sim, simulate

from .stale import QUICK, STALE_SECONDS, Points, PoolPoints, Watches, ends_well, later, life, run_story

Pair = tuple[int, int]


def changes(kinds: tuple[str, ...]) -> int:
    """The number of changes of these kinds in an undisturbed lifecycle."""
    counted: list[Points] = []

    async def story(sim: Sim) -> None:
        counted.append(Points.count(sim, kinds))
        await sim.start_controller(elect=False)
        await life(sim)

    simulate(story, **QUICK)
    return len(counted[0].revisions) - 1


def travel(kinds: tuple[str, ...], pair: Pair, *, restart: bool) -> None:
    """Run the scenario with one pair."""
    i, j = pair
    trips: list[Pair] = []

    async def story(sim: Sim) -> None:
        watches = Watches(sim, kinds)

        def depart() -> None:
            trips.append(pair)
            sim.api.freeze_view(points.revisions[j], consistent_selections=True, kinds=kinds)
            watches.cut()
            if restart:
                sim.replace_controller("ctl0")
            later(STALE_SECONDS, sim.api.thaw)

        points = Points.count(sim, kinds, {i: depart})
        await sim.start_controller(elect=False)
        await ends_well(sim, await life(sim))

    run_story(story, f"{kinds}, point {i} shown as {j}, {'restarted' if restart else 'same process'}")
    assert trips == [pair]


def pool_changes() -> int:
    """The number of changes of the pool in an undisturbed lifecycle."""
    counted: list[PoolPoints] = []

    async def story(sim: Sim) -> None:
        counted.append(PoolPoints.count(sim))
        await sim.start_controller(elect=False)
        await life(sim)

    simulate(story, **QUICK)
    return len(counted[0].pasts) - 1
