"""Machines that were created for one NodeClaim, and caches that are stale from one write on."""

from collections.abc import Callable

from tests.world.demand import node_class, node_pool
from tests.world.harness import Sim
from tests.world.transcript import CLAIMS

from .stale import STALE_SECONDS, Watches, later

WITHIN_SECONDS = STALE_SECONDS + 200.0
# Several passes while the machines start, and after their Nodes are Ready.
AFTERWARDS_SECONDS = 120.0


class Created:
    """Counts the NodeClaims that were ever created; the name of one that is gone is given again."""

    def __init__(self, sim: Sim) -> None:
        self.names: set[str] = set()
        self.revisions: list[int] = []
        self.at: dict[int, Callable[[], object]] = {}
        sim.store.subscribe(self._changed)

    async def reach(self, sim: Sim, number: int) -> None:
        await sim.until(lambda: len(self.revisions) >= number, WITHIN_SECONDS, f"{number} NodeClaims")

    def _changed(self, event: str, resource: str, obj: dict[str, dict[str, str]], _: object) -> None:
        if resource == CLAIMS and event == "ADDED":
            self.names.add(obj["metadata"]["name"])
            self.revisions.append(int(obj["metadata"]["resourceVersion"]))
            if act := self.at.get(len(self.revisions)):
                act()


def stale_from(sim: Sim, created: Created, kinds: tuple[str, ...], number: int, *, restart: bool, lost: bool) -> None:
    """From the `number`-th NodeClaim on, lists and watches of these kinds show what was before it, or lose it."""
    watches = Watches(sim, kinds)

    def act() -> None:
        revision = created.revisions[-1]
        if lost:
            sim.api.lose_event(revision)
            later(STALE_SECONDS, watches.cut)
            return
        sim.api.freeze_view(revision - 1, consistent_selections=True, kinds=kinds)
        watches.cut()
        if restart:
            sim.replace_controller("ctl0")
        later(STALE_SECONDS, sim.api.thaw)

    created.at[number] = act


async def prepared(sim: Sim, *controllers: str, elect: bool = True) -> Created:
    created = Created(sim)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    for name in controllers:
        await sim.start_controller(name, elect=elect)
    return created
