"""Planted defects that the seeds must find by themselves: those of `tests/properties`, and causes of past defects.

A defect counts as found if a seed fails with it that passes without it. Each seed runs once without a defect, which
shows too which of them would have changed anything in it; only these are planted, since a run is repeatable. Each
defect is charged with the processor time of both runs, as if it were the only one.

`mutants.toml` has what was found, with `seed` 0 for what was not; `python -m tests.swarm --mutants` prints it. A defect
that needs what few plans have can be looked for in seeds whose plans have it: `--seeds 40,85`. Its row states that.
"""

import functools
import inspect
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import msgspec
import pytest

from controllers.provisioning.brake import Brake
from controllers.provisioning.solver import model
from tests.properties import planted, planted_in_progress, planted_in_removal
from tests.properties.mutation import Patch, no_fresh_reads

from . import planted_in_policies
from .draw import draw
from .plan import Plan
from .run import Outcome, execute

FILE = Path(__file__).with_name("mutants.toml")
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
    *_of(planted_in_policies),
    no_fresh_reads,
    no_purchase_brake,
)
# Each night must find it; a night that does not has tested nothing.
CANARY: Mutant = planted_in_progress.no_replicas


class Found(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`seed`: the first that finds the defect, 0 if none did; `tried`: how many seeds there were until then.

    `cpu_seconds`: of one processor, of all runs until then. `why`: what failed, or why nothing did. `chosen`: not each
    seed was run, but the first ones and then those whose plans have what the defect concerns.
    """

    name: str
    seed: int
    tried: int
    cpu_seconds: float
    why: str
    chosen: bool = False

    def __str__(self) -> str:
        """A row of the file."""
        fields = (
            f"{name} = {msgspec.json.encode(value).decode()}" for name, value in msgspec.to_builtins(self).items()
        )
        return "\n".join(("[[mutant]]", *fields, ""))


@functools.cache
def recorded() -> tuple[Found, ...]:
    """The rows of the file. Raises msgspec.ValidationError for a row that is not one."""
    return msgspec.convert(tomllib.loads(FILE.read_text())["mutant"], type=tuple[Found, ...])


@dataclass(frozen=True, kw_only=True)
class _Replacement:
    mutant: str
    target: Any
    name: str
    value: Any


class _Replacements:
    """Stands in for a `Patch`, of which the defects call nothing but `setattr`."""

    def __init__(self, mutant: Mutant) -> None:
        self.found: list[_Replacement] = []
        self._mutant = mutant
        mutant(cast("Patch", self))

    def setattr(self, target: Any, name: str, value: Any) -> None:
        self.found.append(_Replacement(mutant=self._mutant.__name__, target=target, name=name, value=value))


class Watch:
    """Replaces what the defects replace by functions that do the same, and note in `acting` which would do otherwise.

    A replaced coroutine function, class or value counts once it is called, or from the beginning.
    """

    def __init__(self, mutants: Iterable[Mutant], patch: Patch) -> None:
        self.acting: set[str] = set()
        self._comparing = False
        sites: dict[tuple[Any, str], list[_Replacement]] = {}
        for one in (one for mutant in mutants for one in _Replacements(mutant).found):
            if isinstance(one.value, FunctionType):
                sites.setdefault((one.target, one.name), []).append(one)
            else:
                self.acting.add(one.mutant)
        for (target, name), replacements in sites.items():
            patch.setattr(target, name, self._watched(target, getattr(target, name), replacements))

    def _watched(self, target: Any, original: Any, replacements: list[_Replacement]) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **given: Any) -> Any:
            result = original(*args, **given)
            if not self._comparing:
                self._comparing = True
                # A method that returns nothing does something.
                opaque = inspect.iscoroutine(result) or (result is None and not isinstance(target, ModuleType))
                for one in replacements:
                    if one.mutant not in self.acting and (opaque or one.value(*args, **given) != result):
                        self.acting.add(one.mutant)
                self._comparing = False
            return result

        return call


def watched(plan: Plan, mutants: Iterable[Mutant]) -> tuple[Outcome, set[str]]:
    """The outcome without a defect, and the names of those that would have changed something in the run."""
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(mutants, patch)
        return execute(plan), watch.acting


def planted_in(plan: Plan, mutant: Mutant) -> Outcome:
    """The outcome with the defect."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        return execute(plan)


def hunt(mutants: Iterable[Mutant], seeds: Iterable[int], *, minutes: float, chosen: bool = False) -> Iterator[Found]:
    """Each defect when a seed has found it, or when its runs have taken `minutes` of a processor; then the others.

    `chosen`: the seeds were, see `Found`.
    """
    left, tried = {one.__name__: one for one in mutants}, 0
    spent = dict.fromkeys(left, 0.0)
    for tried, seed in enumerate(seeds, 1):
        if not left:
            return
        began = time.process_time()
        plan = draw(seed)
        without, acting = watched(plan, left.values())
        alone = time.process_time() - began
        for name, mutant in [*left.items()]:
            began, why = time.process_time(), ""
            if name in acting and not without.why:
                why = planted_in(plan, mutant).why
            spent[name] += alone + time.process_time() - began
            if why or spent[name] >= 60.0 * minutes:
                del left[name]
                yield Found(
                    name=name,
                    seed=seed if why else 0,
                    tried=tried,
                    cpu_seconds=round(spent[name], 1),
                    why=why,
                    chosen=chosen,
                )
    for name in left:
        yield Found(name=name, seed=0, tried=tried, cpu_seconds=round(spent[name], 1), why="", chosen=chosen)
