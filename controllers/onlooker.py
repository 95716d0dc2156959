"""Who looks on while keys are worked: told what was done and what waits, and asked nothing.

Promise: no rule depends on it, and it raises nothing.
Left to others: what is made of it (`provisioner.observation`).
"""

from typing import Protocol

from .acting.outcome import Outcome
from .facts import Facts
from .steps import Held, Read, Write


class Onlooker(Protocol):
    """Times are the facts' own."""

    def performed(self, facts: Facts, step: Write | Read, outcome: Outcome) -> None:
        """A step was tried, and this came of it."""

    def waits(self, key: str, held: Held | None) -> None:
        """Nothing is to be done now; `held`: what a removal by inference waits for, other than time."""

    def forgot(self, key: str) -> None:
        """Nothing is left of this key."""
