"""Our own last write on a key, and whether the cache shows it yet (docs/references/rules.md#one-write-per-pass).

While it does not, no plan is made on that key; a cache that stays behind for 10 s is settled by the API server
itself, and listed again if that knows more: an event was lost and would not come any more. A Node that shows our write
also dates what is known of the Nodes of its key.
"""

from collections.abc import Callable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.planner.plan import OWN_WRITE_SECONDS
from controllers.state.indexes import Indexes
from controllers.state.memory import Memory

log = structlog.get_logger("reconciler")


async def settle(memory: Memory, indexes: Indexes, actuator: Actuator, *, now: Callable[[], float]) -> None:
    """An own write that the cache does not show after 10 s: ask the API server itself. Raises KubeError."""
    expectation = memory.expectation
    if expectation is None or indexes.shows(expectation) or now() - expectation.at < OWN_WRITE_SECONDS:
        return
    newest = await actuator.current_version(expectation.kind, expectation.name, expectation.uid)
    if newest == indexes.version_of(expectation):
        memory.expectation = None
    else:
        log.warning("the cache is behind our own write", kind=expectation.kind, name=expectation.name)
        indexes.invalidate(expectation)
        expectation.at = now()


def passed(memory: Memory) -> None:
    """The cache shows our write: of a Node, this also dates what it knows of the Nodes of this key."""
    expectation = memory.expectation
    if expectation is not None and expectation.kind == "node" and expectation.resource_version:
        memory.nodes_known_at = max(memory.nodes_known_at or 0.0, expectation.at)
    memory.expectation = None


def until_shown(memory: Memory, indexes: Indexes) -> float:
    """Seconds until the next pass: the cache's event of our write wakes the key; one before it would decide nothing."""
    expectation = memory.expectation
    return 0.0 if expectation is None or indexes.shows(expectation) else OWN_WRITE_SECONDS
