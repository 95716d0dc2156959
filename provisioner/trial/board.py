"""Follows a world and keeps the table's rows: anew after each change, and while time passes.

A phase's beginning is the moment of the change that began it. Only looks; nothing in the world waits for it.
"""

import asyncio
from collections.abc import Callable, Sequence

from provisioner.runtime.clock import Clock
from provisioner.simulator.world import World

from .claims import Json
from .printing import Line
from .rows import UNTOLD, Moment, Row, Told, rows
from .story import CLAIMS

TICK_SECONDS = 0.25

Shown = Callable[[Sequence[Row], float], None]


class Board:
    """The rows of one world; `show` gets them with the seconds since the beginning."""

    def __init__(self, world: World, time: Callable[[], float], clock: Clock, show: Shown) -> None:
        self._world = world
        self._time = time
        self._began = time()
        self._clock = clock
        self._show = show
        self._told: dict[str, Told] = {}
        self._rows: tuple[Row, ...] = ()
        world.store.subscribe(self._object_changed)
        world.cloud.subscribe(lambda *_: self._look())

    def line(self, line: Line) -> None:
        """Something was told of a claim, or of nobody in particular."""
        if line.claim:
            text, before = f"{line.who} {line.text}", self._told.get(line.claim, UNTOLD)
            self._told[line.claim] = Told(last=text, own=text if line.who == "NodeClaim" else before.own)
            self._look()

    async def ticking(self) -> None:
        """Show the rows again and again, for their times; until cancelled."""
        while True:
            self._show(self._rows, self._time() - self._began)
            await asyncio.sleep(TICK_SECONDS)

    def _object_changed(self, _event: str, resource: str, _obj: Json, _old: Json | None) -> None:
        if resource in (CLAIMS, "nodes"):
            self._look()

    def _look(self) -> None:
        store = self._world.store
        now = Moment(at=self._time() - self._began, time=self._clock.now())
        pools = self._world.cloud.pools.values()
        self._rows = rows(self._rows, store.each(CLAIMS), store.each("nodes"), pools, told=self._told, now=now)
        self._show(self._rows, now.at)
