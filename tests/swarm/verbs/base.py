"""How a verb is declared: `@verb("name")` on a coroutine function of the run and the event."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.swarm.plan import Event

if TYPE_CHECKING:
    from tests.swarm.run import Run

Verb = Callable[["Run", Event], Awaitable[None]]
VERBS: dict[str, Verb] = {}


def verb(name: str) -> Callable[[Verb], Verb]:
    """Declare the verb of this name. Raises KeyError if there is one already."""

    def declare(function: Verb) -> Verb:
        if name in VERBS:
            raise KeyError(f"two verbs are named {name}")
        VERBS[name] = function
        return function

    return declare
