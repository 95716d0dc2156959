"""Valid odd objects of tenants."""

from random import Random
from typing import TYPE_CHECKING

from tests.fuzz.objects import draw
from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run


@verb("odd-object")
async def odd_object(run: "Run", event: Event) -> None:
    """A tenant creates objects at the limits of the API server, and deletes them when the fault ends."""
    _, objects = draw(Random(event.pick), f"x{int(event.pick * 1e9)}")
    made = []
    for one in objects:
        try:
            made.append(await run.sim.apply(one))
        except AssertionError as error:
            # Refused by the API server, as most of what a tenant gets wrong is.
            if ": 4" not in str(error)[:400]:
                raise
    if made:
        run.struck(event)
    await run.lasts(event)
    for one in made:
        meta = one["metadata"]
        kind = next(kind for kind in run.sim.store.resources if kind.kind == one["kind"])
        namespace = meta.get("namespace", "")
        if run.sim.store.get(kind.key, meta["name"], namespace) is not None:
            run.sim.store.delete(kind.key, meta["name"], namespace, grace=0)
