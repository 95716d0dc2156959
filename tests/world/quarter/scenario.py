"""What happens to a fleet in a quarter, drawn from a seed before it runs: each incident, and whether it is a fault.

The drawing alone knows which machines are broken: the figures of a run compare what the controller did with it. Each
day has a window of some hours, in which all incidents of the day begin and end.

The times of `ROWS` are those of the repair policy, docs/references/karpenter.md#node-repair: the toleration, and before
it the 6 min until missing GPUs are a loss.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
Kind = Literal[
    # One machine that is broken, or that Azure took.
    "dead",
    "gpu-lost",
    "xid-hardware",
    "gpu-partial",
    "never-registers",
    "disk",
    # Several, by one cause that is not theirs.
    "zone-loss",
    "spot-wave",
    # Alarms about machines that work.
    "not-ready-briefly",
    "zone-briefly",
    "detector",
    "detector-everywhere",
    "xid-application",
    "reboot",
    "kubelet-restart",
    "plugin-rollout",
    "plugin-broken-release",
    "driver-rollout",
    # What users and Azure change.
    "node-image",
    "node-class",
]
# Faults of one machine, with the seconds after which the row of the repair policy acts.
ROWS: dict[Kind, float] = {
    "dead": 10 * MINUTE,
    "gpu-lost": 16 * MINUTE,
    "xid-hardware": 16 * MINUTE,
    "gpu-partial": 16 * MINUTE,
    "never-registers": 15 * MINUTE,
    "disk": 5 * MINUTE,
}
# What the default policy leaves to a person.
REPORTED_ONLY: tuple[Kind, ...] = ("disk",)
# After these, other GPUs of the machine work on, and so do their pods.
WORKING: tuple[Kind, ...] = ("gpu-partial",)
ALARMS: tuple[Kind, ...] = ("not-ready-briefly", "detector", "detector", "xid-application", "reboot", "kubelet-restart")
# Conditions by which node problem detectors report what is not so.
CONDITIONS = (
    "KubeletProblem",
    "ContainerRuntimeProblem",
    "GPUMissing",
    "ReadonlyFilesystem",
    "FilesystemCorruptionProblem",
    "KernelDeadlock",
    "NVLinkStatusInactive",
    "FrequentKubeletRestart",
)
# Of each fortnight: the days on which these happen.
FORTNIGHT: dict[int, tuple[Kind, ...]] = {
    1: ("plugin-rollout",),
    2: ("node-image",),
    3: ("spot-wave",),
    4: ("zone-briefly",),
    5: ("detector-everywhere",),
    6: ("driver-rollout",),
    7: ("zone-loss",),
    8: ("plugin-broken-release",),
    9: ("node-image",),
    10: ("spot-wave",),
    11: ("plugin-rollout",),
    12: ("node-class",),
}
# A machine has a fault each 500 days, and an alarm each 100 days; of a small fleet, one fault and two alarms a day.
FAULTS_PER_MACHINE_DAY, ALARMS_PER_MACHINE_DAY = 1 / 500, 1 / 100


@dataclass(frozen=True, kw_only=True)
class Incident:
    """`at`: seconds since the beginning. `seconds`: how long an alarm or an outage lasts; a fault lasts until the
    machine is gone. `pick`: in [0, 1), which of the machines that can have it. `condition`: what a detector reports.
    """

    at: float
    kind: Kind
    seconds: float
    pick: float
    condition: str = ""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`hours`: of the window of each day, in which the controller runs, at least 3."""

    machines: int = 20
    days: int = 14
    seed: int = 1
    hours: float = 3.0

    def begins(self, day: int) -> float:
        """Seconds of the beginning of this day's window; the first day is left to the fleet's start."""
        return (day + 1) * DAY

    def incidents(self, day: int) -> list[Incident]:
        """Those of one day, in the order of their times; all have an effect before the window ends."""
        rng = Random(f"{self.seed}/{day}")
        begins, open_seconds = self.begins(day), self.hours * HOUR
        latest = open_seconds - 150 * MINUTE
        found = [
            self._incident(rng, kind, begins + rng.uniform(5 * MINUTE, 10 * MINUTE))
            for kind in FORTNIGHT.get(day % 14, ())
        ]
        faults = [rng.choice(tuple(ROWS)) for _ in range(_count(rng, self.machines * FAULTS_PER_MACHINE_DAY, 1))]
        alarms = [rng.choice(ALARMS) for _ in range(_count(rng, self.machines * ALARMS_PER_MACHINE_DAY, 2))]
        found += [self._incident(rng, kind, begins + rng.uniform(5 * MINUTE, latest)) for kind in (*faults, *alarms)]
        return sorted(found, key=lambda one: one.at)

    def kinds(self) -> set[Kind]:
        """Those of all its incidents."""
        return {one.kind for day in range(self.days) for one in self.incidents(day)}

    def _incident(self, rng: Random, kind: Kind, at: float) -> Incident:
        least, most = _DURATIONS.get(kind, (0.0, 0.0))
        condition = rng.choice(CONDITIONS) if kind.startswith("detector") else ""
        return Incident(at=at, kind=kind, seconds=rng.uniform(least, most), pick=rng.random(), condition=condition)


def _count(rng: Random, expected: float, least: int) -> int:
    whole = int(expected)
    return max(least, whole + (rng.random() < expected - whole))


_DURATIONS: dict[Kind, tuple[float, float]] = {
    "zone-loss": (70 * MINUTE, 90 * MINUTE),
    "spot-wave": (20 * MINUTE, 40 * MINUTE),
    "not-ready-briefly": (1 * MINUTE, 9 * MINUTE),
    "zone-briefly": (3 * MINUTE, 8 * MINUTE),
    "detector": (5 * MINUTE, 90 * MINUTE),
    "detector-everywhere": (30 * MINUTE, 90 * MINUTE),
    "xid-application": (20 * MINUTE, 90 * MINUTE),
    # For each machine: how long the image is pulled, or the driver is compiled.
    "plugin-rollout": (20.0, 400.0),
    "plugin-broken-release": (60 * MINUTE, 80 * MINUTE),
    "driver-rollout": (8 * MINUTE, 20 * MINUTE),
}
