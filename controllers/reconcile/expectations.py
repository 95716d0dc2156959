"""The last own write on a key, and whether the cache shows it (docs/references/rules.md#one-write-per-pass).

No plan is made while the cache does not show it. After 10 s the API server is read: the cache is listed again if it is
stale, since a watch event was lost. A Node that shows an own write also dates what is known of the Nodes of its key.
"""

from collections.abc import Callable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.planner.plan import OWN_WRITE_SECONDS
from controllers.state.indexes import Indexes
from controllers.state.memory import Memory

log = structlog.get_logger("reconciler")


async def verify(memory: Memory, indexes: Indexes, actuator: Actuator, *, now: Callable[[], float]) -> None:
    """Read an object whose own write the cache does not show after 10 s. Raises KubeError."""
    expectation = memory.expectation
    if expectation is None or indexes.shows(expectation) or now() - expectation.at < OWN_WRITE_SECONDS:
        return
    newest = await actuator.current_version(expectation.kind, expectation.name, expectation.uid)
    if newest == indexes.version_of(expectation):
        memory.expectation = None
    else:
        log.warning("the cache is behind an own write", kind=expectation.kind, name=expectation.name)
        indexes.invalidate(expectation)
        expectation.at = now()


def update(memory: Memory, indexes: Indexes) -> None:
    """Drop the own write once the cache shows it; if it was to a Node, it dates what is known of the Nodes of the key.

    A Node that is gone from the cache after our last finalizer was removed dates it as well: its deletion is later.
    """
    expectation = memory.expectation
    if expectation is None or not indexes.shows(expectation):
        return
    if expectation.kind == "node" and expectation.resource_version:
        memory.nodes_known_at = max(memory.nodes_known_at or 0.0, expectation.at)
    memory.expectation = None


def seconds_until_observed(memory: Memory, indexes: Indexes) -> float:
    """Seconds until the next pass: the watch event of the own write adds the key earlier; any other pass is useless."""
    expectation = memory.expectation
    return 0.0 if expectation is None or indexes.shows(expectation) else OWN_WRITE_SECONDS
