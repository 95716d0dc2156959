"""Our own last write on a key, and whether the cache shows it yet (docs/references/rules.md#one-write-per-pass).

While it does not, no plan is made on that key; a cache that stays behind for 10 s is settled by the API server
itself, and listed again if that knows more: an event was lost and would not come any more. A Node that shows our write
also dates what is known of the Nodes of its key.
"""

from collections.abc import Callable

import structlog

from controllers.actuator.actuator import Door
from controllers.planner.plan import OWN_WRITE_SECONDS
from controllers.state.indexes import Views
from controllers.state.memory import Memory

log = structlog.get_logger("reconciler")


async def settle(memory: Memory, views: Views, door: Door, *, now: Callable[[], float]) -> None:
    """An own write that the cache does not show after 10 s: ask the API server itself. Raises KubeError."""
    barrier = memory.barrier
    if barrier is None or views.shows(barrier) or now() - barrier.at < OWN_WRITE_SECONDS:
        return
    newest = await door.current_version(barrier.kind, barrier.name, barrier.uid)
    if newest == views.version_of(barrier):
        memory.barrier = None
    else:
        log.warning("the cache is behind our own write", kind=barrier.kind, name=barrier.name)
        views.distrust(barrier)
        barrier.at = now()


def passed(memory: Memory) -> None:
    """The cache shows our write: of a Node, this also dates what it knows of the Nodes of this key."""
    barrier = memory.barrier
    if barrier is not None and barrier.kind == "node" and barrier.resource_version:
        memory.nodes_known_at = max(memory.nodes_known_at or 0.0, barrier.at)
    memory.barrier = None


def until_shown(memory: Memory, views: Views) -> float:
    """Seconds until the next pass: the cache's event of our write wakes the key; one before it would decide nothing."""
    barrier = memory.barrier
    return 0.0 if barrier is None or views.shows(barrier) else OWN_WRITE_SECONDS
