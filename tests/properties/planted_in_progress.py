"""Planted defects of commands that leave their pods without a place, and of loops that do nothing."""

import math
from typing import Any

import msgspec

from controllers.disruption import drift as drift_rule
from controllers.model.steps import Event
from controllers.provisioning.pods import CachedPod
from controllers.reconcile.disruption_controller import DisruptionController
from controllers.reconcile.disruption_queue import DisruptionQueue
from controllers.reconcile.provisioner import Provisioner
from controllers.reconcile.scheduling_events import SchedulingEvents
from controllers.reconcile.static_capacity import StaticCapacity
from provisioner.api import reasons

from .mutation import Patch


def drifted_without_replacement(patch: Patch) -> None:
    """The pods of a drifted machine are said to fit on the others."""
    first = drift_rule._first

    def mutant(*args: Any) -> Any:
        command, kept = first(*args)
        if command is not None:
            command = msgspec.structs.replace(command, replacements=(), destinations=())
        return command, kept

    patch.setattr(drift_rule, "_first", mutant)


def nothing_is_bought(patch: Patch) -> None:
    """The loop of pending pods ends its pass, and has no next one."""
    patch.setattr(Provisioner, "_provision", _nothing)


def no_replicas(patch: Patch) -> None:
    """The loop of static NodePools does so."""
    patch.setattr(StaticCapacity, "_create", _nothing)


def nothing_is_replaced(patch: Patch) -> None:
    """The loop of disruption does so."""
    patch.setattr(DisruptionController, "_decide", _later)


def no_dynamic_drift(patch: Patch) -> None:
    """No drifted machine of a dynamic NodePool is replaced."""
    patch.setattr(drift_rule, "_first", lambda *_: (None, {}))


def no_command_ends(patch: Patch) -> None:
    """The old machine is not deleted after its replacement is Initialized."""
    patch.setattr(DisruptionQueue, "_finish", _later)


def a_cause_is_stated_once(patch: Patch) -> None:
    """Users see no Event any more after an hour, when the API server has deleted it."""
    first = SchedulingEvents._in_turns

    def mutant(self: SchedulingEvents, events: Any, now: float) -> list[tuple[CachedPod, Event]]:
        due = first(self, events, now)
        new = [one for one in due if self._actuator.recorded_at(*one) == -math.inf]
        return [one for one in due if one in new or one[1].reason != reasons.FAILED_SCHEDULING]

    patch.setattr(SchedulingEvents, "_in_turns", mutant)


async def _nothing(self: object, *args: object) -> None:
    pass


async def _later(self: object, *args: object) -> float:
    return 10.0
