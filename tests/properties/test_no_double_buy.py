"""No pod pays twice (I13): pending pods get exactly one machine each, whatever happens to the provisioner.

It is killed before or after each write of a batch, its caches of NodeClaims, Nodes and pods show an earlier state,
watch events are lost, or two replicas without a lease decide at the same time. Each pod needs a machine of its own, so
the number of NodeClaims ever created is the number of pods.
"""

from collections.abc import Callable

import pytest

from tests.world.demand import claims_of, pending, pod
from tests.world.harness import CrashPoint, Sim, simulate
from tests.world.transcript import CLAIMS

from .double_buy import AFTERWARDS_SECONDS, Created, prepared, stale_from
from .stale import QUICK, chosen

WAVES = (("a0", "a1", "a2", "a3"), ("b0", "b1"))
PODS = [name for wave in WAVES for name in wave]
KINDS = ((CLAIMS,), ("nodes",), ("pods",), (CLAIMS, "nodes", "pods"))


async def two_waves(sim: Sim, created: Created) -> None:
    """Two groups of pods become pending, one after the other; each pod gets one machine."""
    for wave in WAVES:
        expected = len(created.revisions) + len(wave)
        await pending(sim, *(pod(name) for name in wave))
        await created.reach(sim, expected)
    end = sim.now + AFTERWARDS_SECONDS
    await sim.until(lambda: sim.now >= end, AFTERWARDS_SECONDS + 60.0, "more passes")
    assert len(created.revisions) == len(PODS), sorted(created.names)
    assert len(claims_of(sim)) == len(PODS)


async def undisturbed(sim: Sim) -> None:
    await two_waves(sim, await prepared(sim, "ctl0"))


def writes_of_batches() -> int:
    """The number of writes until the last NodeClaim exists."""
    counted: list[int] = []

    async def story(sim: Sim) -> None:
        created = await prepared(sim, "ctl0")
        created.at[len(PODS)] = lambda: counted.append(sim.writes)
        await two_waves(sim, created)

    simulate(story, **QUICK)
    return counted[0]


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_killed_at_every_write(phase: str, reset: bool, record_property: Callable[[str, object], None]) -> None:
    """A successor buys for the pods that have no machine yet, and for no others."""
    writes = writes_of_batches()
    assert writes >= len(PODS)
    numbers = chosen(range(1, writes + 1), 8)
    for number in numbers:
        point = CrashPoint(number, "before" if phase == "before" else "after", reset)
        try:
            simulate(undisturbed, crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise
    record_property("points", f"{len(numbers)} of {writes}")


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_stale_caches(kinds: tuple[str, ...], restart: bool) -> None:
    """A cache that shows what was before a NodeClaim was created leads to no second one."""
    for number in chosen(range(1, len(PODS) + 1), 3):

        async def story(sim: Sim, number: int = number) -> None:
            created = await prepared(sim, "ctl0", elect=False)
            stale_from(sim, created, kinds, number, restart=restart, lost=False)
            await two_waves(sim, created)

        simulate(story, **QUICK)


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("number", range(1, len(PODS) + 1))
def test_lost_events(number: int) -> None:
    """A watch that never delivers a NodeClaim delays the next decision, which a LIST then corrects."""

    async def story(sim: Sim) -> None:
        created = await prepared(sim, "ctl0", elect=False)
        stale_from(sim, created, (CLAIMS,), number, restart=False, lost=True)
        await two_waves(sim, created)

    simulate(story, **QUICK)


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("seed", range(1, 9))
def test_two_replicas_without_a_lease(seed: int) -> None:
    """Two replicas that decide at the same time request the same names, and the API server accepts each once."""

    async def story(sim: Sim) -> None:
        await two_waves(sim, await prepared(sim, "ctl0", "ctl1", elect=False))

    simulate(story, seed=seed, latency_seconds=(0.0005, 1.0), **QUICK)
