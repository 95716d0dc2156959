"""Machines of which one was deleted without an answer, and the next one not at all, since the Lease runs short."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from controllers.disruption.command import Command
from controllers.disruption.machine import Machine
from controllers.reconcile import emptiness_controller
from controllers.reconcile.emptiness_controller import EmptinessController
from controllers.reconcile.machines import Leaving
from provisioner.runtime.fence import LeaseExpires
from provisioner.runtime.kube_errors import KubeError
from tests.unit.builders import BORN, claim

FIRST, SECOND = (claim(name=name, uid=name) for name in "ab")


class Removals:
    def __init__(self, *_: object, **__: object) -> None:
        self.answers = iter((KubeError(0, "Timeout", "no answer"), LeaseExpires("delete NodeClaim b")))

    async def is_used(self, _: Machine) -> bool:
        return False

    async def delete(self, *_: object) -> None:
        raise next(self.answers)


@pytest.mark.asyncio
async def test_a_machine_whose_deletion_was_not_answered_stays_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be carried out: the machine counts in budgets until the cache would show it."""
    monkeypatch.setattr(emptiness_controller, "Removals", Removals)
    leaving = Leaving(lambda: 0.0)
    machines, anything = cast("Any", SimpleNamespace(leaving=leaving)), cast("Any", SimpleNamespace(record_event=None))
    names = ("cloud", "instance_types", "undecided", "disrupted", "observer", "isolation", "wake", "clock", "compute")
    emptiness = EmptinessController(anything, anything, machines=machines, **dict.fromkeys(names, anything))
    command = Command(
        reason="Empty", machines=tuple(Machine(claim=one, node=None, quiet_since=BORN) for one in (FIRST, SECOND))
    )
    with pytest.raises(LeaseExpires):
        await emptiness._remove(command)
    assert FIRST.uid in leaving
