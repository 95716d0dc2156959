"""Records the Events that belong to no write, without repetition.

An Event with the same message about the same object is recorded once, one with another message and the same reason at
most every two minutes. An Event that the recorder dropped is recorded later.
"""

import math
from collections.abc import Callable, Mapping

import structlog

from controllers.actuator.actuator import Actuator
from controllers.garbagecollection import garbage
from controllers.model.facts import Candidate, Facts
from controllers.model.steps import Event
from controllers.planner.events import notices
from controllers.state.memory import Memory
from provisioner.api import reasons

# The message about a drain changes with its pods.
REPEAT_SECONDS = 120.0

log = structlog.get_logger("reconciler")


def record_events(actuator: Actuator, memory: Memory, facts: Facts, *, now: float) -> None:
    """Record the Events that are due for this key at the loop time `now`."""
    for notice in notices(facts):
        subject = (notice.about.metadata.uid, notice.event.reason)
        message, at = memory.events.get(subject, ("", -math.inf))
        if message == notice.event.message or now - at < REPEAT_SECONDS:
            continue
        if actuator.record_event(notice.about, notice.event):
            memory.events[subject] = (notice.event.message, now)


def report_restriction(
    actuator: Actuator, memory: Memory, facts: Facts, candidates: Callable[[], Mapping[str, Candidate]]
) -> None:
    """Log and record once that a removal by inference needs a confirmation."""
    why = garbage.needs_confirmation(facts)
    if not why:
        memory.restriction_reported = False
    elif not memory.restriction_reported:
        memory.restriction_reported = True
        causes = {key: one.cause for key, one in candidates().items()}
        log.error("a removal by inference waits for confirmation", why=why, candidates=causes)
        about = facts.claim or facts.instance
        if about is not None:
            event = Event(type="Warning", reason=reasons.REMOVAL_RESTRICTED, message=why)
            actuator.record_event(about, event)
