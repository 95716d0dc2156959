"""Machines of one owner that fail in the same way at any age: loops are found, and faults of a fleet are none."""

import random
from collections.abc import Callable
from itertools import count

import msgspec
import pytest

from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage, decode, encode
from controllers.state.repair_history import RepairHistory
from tests.unit.builders import NOW

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
POLICY = Policy()
OLD = RepairStage(size="Standard_A", image="image-1", stage="NotReady", young=False)


def loop(lives: Callable[[random.Random], float], owner: str = "NodePool a", machines: int = 40) -> int:
    """How many machines are replaced, each by the next, until one is kept; each is usable until it fails so old.

    Each repair is counted by another process.
    """
    rng, history, now = random.Random(7), RepairHistory(POLICY.repair_history_seconds), 0.0
    for number in range(machines):
        created, uid, life = now, f"u{number}", lives(rng)
        for _ in range(20):
            now += life / 20
            history.works(uid, owner, created, now, OLD.is_alike)
        if history.in_turn(OLD, owner, uid, created, now) >= POLICY.repair_in_turn:
            return number
        history.started(uid, OLD, owner, now, life)
        entries = decode(encode(history.entries(NOW, now)))
        history = RepairHistory(POLICY.repair_history_seconds)
        history.restore(entries or (), NOW, now)
        now += 5 * MINUTE
    return machines


LOOPS: list[tuple[str, Callable[[random.Random], float], int]] = [
    ("each after 75 min", lambda _: 75 * MINUTE, 4),
    ("each after 70 to 80 min", lambda rng: rng.uniform(70, 80) * MINUTE, 4),
    ("each after one to six hours", lambda rng: rng.uniform(1, 6) * HOUR, 4),
    ("each after three days", lambda _: 3 * DAY, 4),
    ("each after ten days, which records of a month do not show", lambda _: 10 * DAY, 40),
]


@pytest.mark.parametrize(("about", "lives", "replaced"), LOOPS, ids=[row[0] for row in LOOPS])
def test_a_loop_of_any_period(about: str, lives: Callable[[random.Random], float], replaced: int) -> None:
    """A machine that becomes older than the former one, and then fails like it, shows nothing."""
    assert loop(lives) == replaced, about


def fleet(machines: int, days: int, fault_days: float, life_days: float, seed: int) -> tuple[int, int]:
    """How many machines of one owner fail within that time, independently of each other, and how many are kept.

    Each has a fault in so many days on average, and its owner replaces it after its life.
    """
    rng, history, uids = random.Random(seed), RepairHistory(POLICY.repair_history_seconds), count()
    owner, faults, kept, step = "NodePool a", 0, 0, DAY / 8
    alive = {f"u{next(uids)}": -rng.uniform(0, min(life_days, 90)) * DAY for _ in range(machines)}
    for moment in range(1, days * 8):
        now = moment * step
        for uid, created in list(alive.items()):
            history.works(uid, owner, created, now, OLD.is_alike)
            fails = rng.random() < step / DAY / fault_days
            if not fails and now - created < life_days * DAY:
                continue
            if fails:
                faults += 1
                kept += history.in_turn(OLD, owner, uid, created, now) >= POLICY.repair_in_turn
                history.started(uid, OLD, owner, now, now - created)
            del alive[uid]
            alive[f"u{next(uids)}"] = now
    return faults, kept


FLEETS = [
    ("machines that stay", 200, 500.0, 1000.0),
    ("machines that are replaced each day", 200, 500.0, 1.0),
    ("machines that are replaced each week", 200, 500.0, 7.0),
    ("a small fleet with bad hardware", 5, 50.0, 1000.0),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("about", "machines", "fault_days", "life_days"), FLEETS, ids=[row[0] for row in FLEETS])
def test_faults_of_a_fleet_are_no_loop(
    about: str, machines: int, fault_days: float, life_days: float, seed: int
) -> None:
    """Either machines that fail are older than the last repair, or newer ones become older than they did."""
    faults, kept = fleet(machines, 120, fault_days, life_days, seed)
    assert faults >= 8, about
    assert kept == 0, about


def test_what_counts_is_of_one_owner_size_image_and_group() -> None:
    """Four such machines, each created after the former one was replaced; a newer one that works ends them."""
    history = RepairHistory(30 * DAY)
    for number in range(4):
        history.started(f"u{number}", OLD, "NodePool a", number * 2 * HOUR, lived=90 * MINUTE)
    now, uid = 10 * HOUR, "u4"
    assert history.in_turn(OLD, "NodePool a", uid, 6.1 * HOUR, now) == 4
    assert history.in_turn(msgspec.structs.replace(OLD, young=True), "NodePool a", uid, 6.1 * HOUR, now) == 4
    assert history.in_turn(OLD, "NodePool a", uid, 3 * HOUR, now) == 2, "it is older than the last repairs"
    assert history.in_turn(OLD, "NodePool b", uid, 6.1 * HOUR, now) == 0
    for other in ({"size": "Standard_B"}, {"image": "image-2"}, {"stage": "GpuGone"}):
        assert history.in_turn(msgspec.structs.replace(OLD, **other), "NodePool a", uid, 6.1 * HOUR, now) == 0
    history.works("w", "NodePool b", 6.1 * HOUR, now, OLD.is_alike)
    history.works("w", "NodePool a", 9 * HOUR, now, OLD.is_alike)
    assert history.in_turn(OLD, "NodePool a", uid, 6.1 * HOUR, now) == 4, "of another owner, or too young"
    history.works("w", "NodePool a", 6.1 * HOUR, now, OLD.is_alike)
    assert history.in_turn(OLD, "NodePool a", uid, 6.1 * HOUR, now) == 0
    history.started("w", OLD, "NodePool a", now, lived=3.9 * HOUR)
    assert history.in_turn(OLD, "NodePool a", uid, 11 * HOUR, now) == 5, "it failed like the others"
