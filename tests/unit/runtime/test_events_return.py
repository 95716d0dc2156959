"""A cause that returns is recorded again: otherwise the newest Event states what is over."""

import asyncio

from provisioner.runtime.events import EventRecorder
from tests.stories import run_by

from .event_story import CLAIM, Story, normal, run


@run_by(run, given=2)
async def test_a_cause_that_returns_is_recorded_again(it: Story, recorder: EventRecorder) -> None:
    """The newest Event of a reason is the one that is true now."""
    for pod in ("waits for a", "waits for b", "waits for a"):
        assert recorder.record(CLAIM, normal("Draining", pod, 3600.0, 120.0)), pod
        await asyncio.sleep(120)
        assert not recorder.record(CLAIM, normal("Draining", pod, 3600.0, 120.0))
    await asyncio.sleep(1)
    assert max(it.api.events.values(), key=lambda one: one["lastTimestamp"])["message"] == "waits for a"
