"""Planted defects that the seeds must find by themselves: those of `tests/properties`, and causes of past defects.

A defect counts as found if a seed fails with it and passes, or fails otherwise, without it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from controllers.provisioning.brake import Brake
from controllers.provisioning.solver import model
from tests.properties import planted, planted_in_progress, planted_in_removal
from tests.properties.mutation import Patch, no_fresh_reads

from .draw import draw
from .run import execute

Mutant = Callable[[Patch], None]


def no_purchase_brake(patch: Patch) -> None:
    """A machine that did not take a pod is bought for it again."""
    patch.setattr(Brake, "misfits", lambda self, pod: model.NO_MISFITS)
    patch.setattr(Brake, "braked", lambda self, pod: False)


def _of(module: Any) -> list[Mutant]:
    """The patches that the module defines."""
    found = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [one for one in found if list(getattr(one, "__annotations__", {})) == ["patch", "return"]]


MUTANTS: tuple[Mutant, ...] = (
    *_of(planted),
    *_of(planted_in_removal),
    *_of(planted_in_progress),
    no_fresh_reads,
    no_purchase_brake,
)
# Each night must find it; a night that does not has tested nothing.
CANARY: Mutant = planted_in_progress.no_replicas


def hunt(mutate: Mutant, seeds: Iterable[int], *, minutes: float) -> bool:
    """Print which seed finds the defect, and return whether one does, within `minutes` of a processor."""
    began, tried = time.process_time(), 0
    for seed in seeds:
        if time.process_time() - began >= 60.0 * minutes:
            break
        tried += 1
        plan = draw(seed)
        with pytest.MonkeyPatch.context() as patch:
            mutate(patch)
            why = execute(plan).why
        if why and execute(plan).why != why:
            print(f"{mutate.__name__}: found by seed {seed}, the {tried}th: {why}", flush=True)
            return True
    print(f"{mutate.__name__}: not found by {tried} seeds", flush=True)
    return False
