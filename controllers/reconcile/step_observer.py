"""The interface for observers of steps, such as metrics. No rule depends on an observer, and none raises."""

from typing import Protocol

from controllers.model.facts import Facts
from controllers.model.results import Result
from controllers.model.steps import Read, Write
from provisioner.api.causes import RemovalBlocker


class StepObserver(Protocol):
    """Times are those of the facts."""

    def performed(self, facts: Facts, step: Write | Read, result: Result) -> None:
        """A step was performed, with this result."""

    def waits(self, key: str, blocked_by: RemovalBlocker | None) -> None:
        """No step is due; `blocked_by`: what blocks a removal by inference, other than time."""

    def forgot(self, key: str) -> None:
        """No object of this key is left."""
