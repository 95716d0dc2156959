"""Runs seeds, and checks each: no OOM, no stalled pass, no harm to another tenant, and everything is removed."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controllers.provisioning.solver.steps import STEPS_MAX

from . import limits

# How much later the machine of a harmless tenant may be requested than without the drawn objects.
LATER_SECONDS = 15.0
# What is under way when the steps end may go a little beyond them.
STEPS_BEYOND = 1.25


class Verdict(NamedTuple):
    """`why`: what is wrong; "" if nothing is. `later`: by how many seconds the machine that was last came later.

    `steps` and `slowest`: the most steps and the most CPU seconds of one decision.
    """

    seed: int
    why: str
    drawn: tuple[str, ...]
    objects: int
    refused: int
    peak_mib: int
    later: float
    steps: int
    slowest: float
    output: str

    def __str__(self) -> str:
        figures = f"{self.objects} objects, {self.refused} refused, {self.peak_mib} MiB, {self.later:+.1f} s"
        most = f"largest decision {self.steps:,} steps, {self.slowest:.1f} s of CPU"
        return f"seed {self.seed}: {self.why or 'ok'} ({figures}, {most}; {', '.join(self.drawn)})"


def run_seeds(seeds: Iterable[int]) -> Iterator[Verdict]:
    """The verdict of each seed, one process after the other."""
    calm = limits.run(["tests.fuzz.child", "calm"])
    if calm.ended != "ok":
        raise RuntimeError(f"without drawn objects: {calm.ended}\n{calm.output[-4000:]}")
    for seed in seeds:
        yield _verdict(seed, limits.run(["tests.fuzz.child", str(seed)]), calm)


def _verdict(seed: int, found: limits.Outcome, calm: limits.Outcome) -> Verdict:
    waited, without = found.result.get("waited", {}), calm.result["waited"]
    later = max((seconds - without[name] for name, seconds in waited.items()), default=0.0)
    why = "" if found.ended == "ok" else found.ended
    if not why and later > LATER_SECONDS:
        why = f"the machine of another tenant came {later:.0f} s later"
    steps = found.result.get("steps", 0)
    if not why and steps > STEPS_BEYOND * STEPS_MAX:
        why = f"a decision took {steps:,} steps, at most {STEPS_MAX:,} are allowed"
    return Verdict(
        seed=seed,
        why=why,
        drawn=tuple(found.result.get("drawn", ())),
        objects=found.result.get("accepted", 0),
        refused=found.result.get("refused", 0),
        peak_mib=found.peak_mib,
        later=later,
        steps=steps,
        slowest=found.result.get("slowest", 0.0),
        output=found.result.get("error") or found.output,
    )
