"""The interfaces for metrics of steps and of disruption. No decision depends on an observer, and none raises."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from controllers.disruption.command import Command
from controllers.disruption.commands_under_way import Replacement
from controllers.model.facts import Facts
from controllers.model.results import Result
from controllers.model.steps import Read, Write
from provisioner.api.causes import Reason, RemovalBlocker
from provisioner.runtime.compute import Compute

T = TypeVar("T")


class StepObserver(Protocol):
    """Times are those of the facts."""

    def performed(self, facts: Facts, step: Write | Read, result: Result) -> None:
        """A step was performed, with this result."""

    def waits(self, key: str, blocked_by: RemovalBlocker | None) -> None:
        """No step is due; `blocked_by`: what blocks a removal by inference, other than time."""

    def forgot(self, key: str) -> None:
        """No object of this key is left."""


class DisruptionObserver(Protocol):
    """Times are in seconds."""

    def evaluated(self, reason: Reason, seconds: float) -> None:
        """The machines that can be disrupted for this reason were searched for."""

    def candidates(self, reason: Reason, machines: int, node_pool: str = "") -> None:
        """So many machines, of one NodePool or of all, could be disrupted in the last search but for budgets."""

    def decided(self, command: Command) -> None:
        """A command has begun: it is written, or its machines are removed."""

    def rejected(self, command: Command) -> None:
        """The validation of a command kept its machines."""

    def undone(self, command: Replacement) -> None:
        """A command was undone."""


async def timed(observer: DisruptionObserver, compute: Compute, reason: Reason, decide: Callable[[], T]) -> T:
    """Run a decision; its duration is a metric."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    found = await compute(decide)
    observer.evaluated(reason, loop.time() - began)
    return found
