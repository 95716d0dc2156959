"""Records the Events that belong to no write, without repetition.

An Event with the same message about the same object is recorded once, one with another message and the same reason at
most every two minutes. An Event that the recorder dropped is recorded later.
"""

import math

from controllers.actuator.actuator import Actuator
from controllers.model.facts import Facts
from controllers.planner.events import notices
from controllers.state.memory import Memory

# The message about a drain changes with its pods.
REPEAT_SECONDS = 120.0


def record_events(actuator: Actuator, memory: Memory, facts: Facts, *, now: float) -> None:
    """Record the Events that are due for this key at the loop time `now`."""
    for notice in notices(facts):
        subject = (notice.about.metadata.uid, notice.event.reason)
        message, at = memory.events.get(subject, ("", -math.inf))
        if message == notice.event.message or now - at < REPEAT_SECONDS:
            continue
        if actuator.record_event(notice.about, notice.event):
            memory.events[subject] = (notice.event.message, now)
