"""Who looks on while keys are worked: told what was done and what waits, and asked nothing.

No rule depends on it, and it raises nothing.
"""

from typing import Protocol

from controllers.model.facts import Facts
from controllers.model.results import Outcome
from controllers.model.steps import Held, Read, Write


class StepObserver(Protocol):
    """Times are the facts' own."""

    def performed(self, facts: Facts, step: Write | Read, outcome: Outcome) -> None:
        """A step was tried, and this came of it."""

    def waits(self, key: str, held: Held | None) -> None:
        """Nothing is to be done now; `held`: what a removal by inference waits for, other than time."""

    def forgot(self, key: str) -> None:
        """Nothing is left of this key."""
