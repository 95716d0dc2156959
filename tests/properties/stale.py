"""Shared by the tests of stale and missing data: the scenario, its points, and the ways in which data is stale.

Points are counted, not timed: the n-th change of the scenario's claim, Node or pool in the same run. A run that a fault
has changed can reach other points afterwards. Every fault lasts `STALE_SECONDS`, which is longer than any inference
takes; then the servers are correct again.

EVERY_PAIR=1 in the environment runs all pairs; without it a fixed sample runs.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.harness import Sim, Story, node_claim, simulate
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS

T = TypeVar("T")

EVERY_PAIR = os.environ.get("EVERY_PAIR", "") == "1"
STALE_SECONDS = 150.0
# The fault, one minute until a 404 is trusted, one minute before garbage is removed, and twice the lifecycle itself.
WITHIN_SECONDS = STALE_SECONDS + 300.0
QUIET_SECONDS = 70.0
# A lifecycle has 16 writes; writes based on stale data are refused (409) and retried with backoff (I10).
WRITES_AT_MOST = 60
QUICK: dict[str, Any] = {
    "azure": AzureSettings(create_seconds=(15.0, 20.0), delete_seconds=(10.0, 15.0)),
    "nodes": NodeSettings(ready_seconds=(2.0, 4.0), gpu_seconds=(2.0, 4.0)),
}
BOTH = (CLAIMS, "nodes")


def chosen(points: Sequence[T], at_most: int) -> list[T]:
    """All points with EVERY_PAIR=1, otherwise a fixed sample of at most that size."""
    if EVERY_PAIR or len(points) <= at_most:
        return list(points)
    return sorted(Random("points").sample(list(points), at_most), key=points.index)


async def life(sim: Sim) -> str:
    """Create a claim, wait until it is Ready, delete it, and wait until it is gone; returns its UID."""
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", WITHIN_SECONDS, "the claim is Ready")
    await sim.delete_claim(NAME)
    await sim.until(lambda: sim.claim(NAME) is None, WITHIN_SECONDS, "the claim is gone")
    return uid


async def ends_well(sim: Sim, uid: str) -> None:
    """Check that one pool existed and was deleted first, that nothing is left, and that the number of writes is
    bounded.
    """
    changes = "\n".join(str(change) for change in sim.audit_log.changes(uid=uid))
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"], changes
    states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
    assert states.count("Creating") == 1, states
    assert len(sim.audit_log.writes()) <= WRITES_AT_MOST, sim.describe()
    await sim.settled(QUIET_SECONDS)


@dataclass
class Points:
    """Counts the changes of the scenario's objects of these kinds, with the cluster's revision at each change.

    `revisions[n]` is the revision of the n-th change, `revisions[0]` the one before the first. `at[n]` is called at the
    n-th.
    """

    revisions: list[int]
    at: dict[int, Callable[[], object]]

    @classmethod
    def count(cls, sim: Sim, kinds: Iterable[str], at: dict[int, Callable[[], object]] | None = None) -> "Points":
        points, watched = cls([sim.store.revision], at or {}), tuple(kinds)

        def on_change(_: str, resource: str, obj: dict[str, Any], _before: object) -> None:
            name = obj["metadata"]["name"]
            if resource in watched and (name == NAME or name.startswith(f"aks-{NAME}-")):
                points.note(int(obj["metadata"]["resourceVersion"]))

        sim.store.subscribe(on_change)
        return points

    def note(self, revision: int) -> None:
        self.revisions.append(revision)
        if act := self.at.get(len(self.revisions) - 1):
            act()


class Watches:
    """Tracks the open watches of these kinds, so that a test can close them and force a relist."""

    def __init__(self, sim: Sim, kinds: Iterable[str]) -> None:
        self._plurals = [kind.partition(".")[0] for kind in kinds]
        self._open: list[web.Request] = []
        self._expired: list[str] = []
        sim.world.before.append(self._before)

    def cut(self) -> None:
        """Close all these watches; resuming them fails with 410."""
        for request in self._open:
            if request.transport is not None:
                request.transport.close()
        self._open.clear()
        self._expired[:] = self._plurals

    async def _before(self, call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.verb != "WATCH" or call.target.kind not in self._plurals:
            return None
        if call.target.kind in self._expired:
            self._expired.remove(call.target.kind)
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
            return web.json_response({**body, "message": "too old resource version"}, status=410)
        self._open.append(request)
        return None


@dataclass
class PoolPoints:
    """The same for the scenario's pool: `pasts[n]` are all pools after its n-th change, `pasts[0]` before the first."""

    pasts: list[dict[str, Pool]]
    at: dict[int, Callable[[], object]]

    @classmethod
    def count(cls, sim: Sim, at: dict[int, Callable[[], object]] | None = None) -> "PoolPoints":
        points = cls([dict(sim.cloud.pools)], at or {})

        def on_change(_: str, pool: Pool) -> None:
            if pool.name == NAME:
                points.pasts.append(dict(sim.cloud.pools))
                if act := points.at.get(len(points.pasts) - 1):
                    act()

        sim.cloud.subscribe(on_change)
        return points


def later(seconds: float, act: Callable[[], object]) -> None:
    """Call `act` after that many seconds, even if the scenario has ended by then."""
    asyncio.get_running_loop().call_later(seconds, act)


def run_story(story: Story, what: object) -> None:
    """Run a scenario; an error carries a note with the point."""
    try:
        simulate(story, **QUICK)
    except Exception as error:
        error.add_note(f"at {what}")
        raise
