"""How a verb is declared: `@verb("name")` on a coroutine function of the run and the event."""

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.swarm.plan import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.simulator.world import After, Before
    from tests.swarm.run import Run

Verb = Callable[["Run", Event], Awaitable[None]]
VERBS: dict[str, Verb] = {}
T = TypeVar("T")


def verb(name: str) -> Callable[[Verb], Verb]:
    """Declare the verb of this name. Raises KeyError if there is one already."""

    def declare(function: Verb) -> Verb:
        if name in VERBS:
            raise KeyError(f"two verbs are named {name}")
        VERBS[name] = function
        return function

    return declare


def one_of(event: Event, values: tuple[T, ...]) -> T:
    """The value that the event has picked."""
    return values[int(event.pick * len(values))]


def by_controller(run: "Run", call: Call, system: str = "kube") -> bool:
    return call.system == system and call.who in run.sim.controllers


@contextmanager
def hooked(run: "Run", *, before: "Before | None" = None, after: "After | None" = None) -> "Iterator[None]":
    """Apply these hooks of the world's servers inside the block."""
    world = run.sim.world
    if before is not None:
        world.before.append(before)
    if after is not None:
        world.after.append(after)
    try:
        yield
    finally:
        if before is not None:
            world.before.remove(before)
        if after is not None:
            world.after.remove(after)


def disconnect(request: web.Request) -> None:
    """Close the connection of this request, whose client gets no response."""
    if request.transport is not None:
        request.transport.close()
