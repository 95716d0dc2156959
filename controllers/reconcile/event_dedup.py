"""Events that belong to no write, told through the door.

The same words about one object are told once, other words of the same reason not before two minutes; what was
dropped for there being too many is told later.
"""

import math

from controllers.actuator.actuator import Actuator
from controllers.model.facts import Facts
from controllers.planner.events import notices
from controllers.state.memory import Memory

# A drain's words change with its pods.
AGAIN_SECONDS = 120.0


def tell(actuator: Actuator, memory: Memory, facts: Facts, *, now: float) -> None:
    """Tell what is to be heard of this key at the loop time `now`."""
    for notice in notices(facts):
        subject = (notice.about.metadata.uid, notice.event.reason)
        words, at = memory.told.get(subject, ("", -math.inf))
        if words == notice.event.message or now - at < AGAIN_SECONDS:
            continue
        if actuator.tell(notice.about, notice.event):
            memory.told[subject] = (notice.event.message, now)
