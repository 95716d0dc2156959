"""Two replicas without leader election, with latencies so high that each acts on what the other has written.

Each seed draws other latencies, up to a second for each chunk, so the two overlap differently. There is never a second
pool for a claim (I3), no healthy or foreign object is touched (I4, I7), removals keep their order (I2), and both
replicas stop writing with nothing left (I1, I5).
"""

from collections.abc import Awaitable, Callable

import pytest

from tests.world.harness import Sim, node_claim, simulate
from tests.world.kaito.common import claim_deleted, pool_deleted
from tests.world.transcript import strip

from .stale import QUICK, QUIET_SECONDS, WITHIN_SECONDS

NAMES = ("gpu0", "gpu1", "gpu2")
GOING = NAMES[:2]
SEEDS = range(1, 7)


async def by_node(sim: Sim, name: str) -> None:
    (node,) = sim.nodes_of(name)
    await sim.delete_node(node["metadata"]["name"])


async def stripped(sim: Sim, name: str) -> None:
    strip(sim, name)


REMOVALS = [claim_deleted, by_node, pool_deleted, stripped]


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("remove", REMOVALS, ids=lambda remove: remove.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_two_replicas_without_a_lease(seed: int, remove: Callable[[Sim, str], Awaitable[None]]) -> None:
    """Of three claims two are deleted by either replica, and the third stays Ready."""

    async def story(sim: Sim) -> None:
        for who in ("ctl0", "ctl1"):
            await sim.start_controller(who, elect=False)
        uids = {name: (await sim.apply(node_claim(name)))["metadata"]["uid"] for name in NAMES}
        ready = [(name, "Ready") for name in NAMES]
        await sim.until(
            lambda: all(sim.condition(*one) == "True" for one in ready), WITHIN_SECONDS, "all three are Ready"
        )
        for name in GOING:
            await remove(sim, name)
        await sim.until(
            lambda: not any(sim.claim(name) or sim.nodes_of(name) or name in sim.cloud.pools for name in GOING),
            WITHIN_SECONDS,
            "two are gone",
        )
        for name in GOING:
            order = ["claim", "pool", "node"] if remove is stripped else ["pool", "node", "claim"]
            assert sim.audit_log.deletion_order(uids[name]) == order, sim.describe()
        for uid in uids.values():
            states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
            assert states.count("Creating") == 1, states
        await sim.settled(QUIET_SECONDS)
        assert sim.condition(NAMES[2], "Ready") == "True"
        assert not sim.audit_log.deletion_order(uids[NAMES[2]])
        assert {call.who for call in sim.audit_log.writes()} >= {"ctl0", "ctl1"}

    simulate(story, seed=seed, latency_seconds=(0.0005, 1.0), **QUICK)
