"""A fixed sample of seeds, which is also what shows that runs are repeatable, shrink, and find planted defects."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.properties.planted_in_removal import ownership_in_memory

from . import groups
from . import plan as plans
from .campaign import Figures, outcomes, seeds
from .catalogue import faults
from .draw import draw
from .mutants import CANARY, MUTANTS, hunt, planted_in, recorded, watched
from .objects import GPUS_LABEL
from .plan import Claim, Event, NodePool, Plan, Stage, Workload
from .run import Outcome, execute, signature
from .shrink import same_failure, shrink
from .skeleton import skeleton
from .verbs import VERBS

SAMPLE = (30, 6, 20, 21, 25, 56)


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("seed", SAMPLE)
def test_a_seed_of_the_sample_passes(seed: int) -> None:
    """`make swarm` runs others."""
    found = execute(draw(seed))
    assert found.why == "", found.error


@pytest.mark.matrix(quick=0)
def test_a_replay_in_another_process_equals_the_run_of_the_seed(tmp_path: Path) -> None:
    """Audit log, pairs of states and faults are the same, from the file and from the seed, in whatever process."""
    file = tmp_path / "plan.json"
    plans.write(file, draw(SAMPLE[0]))
    (one, _), _ = outcomes([SAMPLE[0], SAMPLE[0]], jobs=2, more=lambda: True)
    assert execute(plans.read(file)) == one


def many_events(*needed: Event) -> Plan:
    """A plan with sixty other events."""
    others = (Event(at=10.0 * number, fault="evict", seconds=5.0) for number in range(60))
    return Plan(
        seed=1,
        faults_seconds=7200.0,
        azure={"page_size": 5, "list_lag_seconds": 20.0},
        policy={"node_repair": False, "circuit_breaker_floor": 1},
        window=20,
        node_pools=tuple(NodePool(name=f"np{number}", sizes=("a", "b"), replicas=4) for number in range(3)),
        workloads=(Workload(at=0.0, name="w", node_pool="np1", count=4), Workload(at=0.0, name="v", node_pool="np2")),
        claims=tuple(Claim(at=0.0, name=f"c{number}", size="a") for number in range(9)),
        events=tuple(sorted((*others, *needed), key=lambda event: event.at)),
    )


def test_what_does_not_matter_is_left_out() -> None:
    """Three of 63 events, one NodePool and one setting remain, in fewer than 200 runs."""
    needed = [Event(at=33.0, fault="kill"), Event(at=290.0, fault="evict", pick=0.5), Event(at=401.0, fault="kill")]

    def fails(plan: Plan) -> bool:
        node_pools = {one.name: one for one in plan.node_pools}
        return (
            {(one.at, one.fault) for one in needed} <= {(one.at, one.fault) for one in plan.events}
            and "np1" in node_pools
            and (node_pools["np1"].replicas or 0) >= 2
            and plan.policy.get("circuit_breaker_floor") == 1
            and plan.faults_seconds >= 1000.0
        )

    small, runs = shrink(many_events(*needed), fails)
    assert fails(small)
    assert [(one.at, one.fault, one.seconds) for one in small.events] == [(one.at, one.fault, 0.0) for one in needed]
    assert small.node_pools == (NodePool(name="np1", sizes=("a",), replicas=2),)
    assert (small.workloads, small.claims, small.azure) == ((), (), {})
    assert small.policy == {"circuit_breaker_floor": 1}
    assert small.faults_seconds == 1800.0
    assert runs < 200


def test_shrinking_ends_at_its_limits() -> None:
    """The plan still fails, however few runs there are."""
    needed = Event(at=33.0, fault="kill")
    for limit in (0, 1, 7):
        small, runs = shrink(many_events(needed), lambda plan: needed in plan.events, runs=limit)
        assert needed in small.events
        assert runs == limit
    small, runs = shrink(many_events(needed), lambda plan: True, expired=lambda: True)
    assert runs == 0


@pytest.mark.matrix(quick=0)
def test_a_planted_defect_shrinks_to_what_it_needs(tmp_path: Path) -> None:
    """Ownership in memory needs a NodeClaim and a restart; the test that is written from the plan fails likewise."""
    whole = Plan(
        seed=1,
        faults_seconds=900.0,
        claims=tuple(Claim(at=float(number), name=f"c{number}", size="Standard_NC4as_T4_v3") for number in range(3)),
        events=(
            *(Event(at=30.0 * number, fault="evict") for number in range(9)),
            *(Event(at=50.0 + 60.0 * number, fault="plugin-stops", seconds=20.0) for number in range(9)),
            *(Event(at=650.0 + 60.0 * number, fault="kill") for number in range(3)),
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        ownership_in_memory(patch)
        why = execute(whole).why
        small, _ = shrink(whole, same_failure(why), runs=40)
        story: dict[str, Callable[[], None]] = {}
        exec(skeleton(small, why), story)  # noqa: S102
        (test,) = (value for name, value in story.items() if name.startswith("test_"))
        with pytest.raises(AssertionError):
            test()
    assert why.startswith("I")
    assert [one.fault for one in small.events] == ["kill"]
    assert len(small.claims) == 1
    test()


@pytest.mark.matrix(quick=0)
def test_the_canary_is_found() -> None:
    """By one of the first seeds."""
    (found,) = hunt((CANARY,), seeds("1-20"), minutes=60.0)
    assert found.seed > 0, found


@pytest.mark.matrix(quick=0)
def test_looking_for_defects_does_not_change_the_run() -> None:
    """A run shows which defects would change it; planting another one gives the same run."""
    plan = draw(SAMPLE[2])
    found, acting = watched(plan, MUTANTS)
    assert (found, acting < {one.__name__ for one in MUTANTS}) == (execute(plan), True)
    other = next(one for one in MUTANTS if one.__name__ not in acting)
    assert planted_in(plan, other) == found


def test_each_planted_defect_has_its_record() -> None:
    """By name; `why` states what failed, or why nothing did."""
    assert sorted(one.name for one in recorded()) == sorted(one.__name__ for one in MUTANTS)
    assert all(one.why for one in recorded())
    assert tomllib.loads("\n".join(map(str, recorded())))["mutant"] == [*map(msgspec.to_builtins, recorded())]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("claims", [False, True])
def test_pods_get_the_gpus_of_a_dra_driver(claims: bool) -> None:
    """By an extended resource or by ResourceClaims, while ResourceSlices come in parts and a GPU is lost."""
    found = execute(
        Plan(
            seed=1,
            faults_seconds=900.0,
            facts={
                "node_class": {"gpu": {"mode": "DRA"}},
                "nodes": {"dra_labels": GPUS_LABEL, "slice_seconds": 20.0, "device_health": "lost"},
                "dra": {"claims": claims},
            },
            node_pools=(NodePool(name="np0", sizes=("Standard_ND96isr_H100_v5",)),),
            workloads=(Workload(at=1.0, name="w", node_pool="np0", count=2),),
            events=(Event(at=700.0, fault="gpus-lost", seconds=100.0),),
        )
    )
    assert found.why == "", found.error


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("size", ["Standard_NC4as_T4_v3", "Standard_NC64as_T4_v3"])
def test_a_machine_that_never_has_all_gpus(size: str) -> None:
    """With some of them it keeps its pod for a day, which is longer than a run; without any it is replaced."""
    found = execute(
        Plan(
            seed=1,
            faults_seconds=900.0,
            node_pools=(NodePool(name="np0", sizes=(size,), after="Never"),),
            workloads=(Workload(at=1.0, name="w", node_pool="np0"),),
            events=(Event(at=30.0, fault="gpus-never", seconds=800.0),),
        )
    )
    assert (found.why, found.happened["gpus-never"]) == ("", 1), found.error


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("pick", [0.4, 0.6])
def test_a_replica_of_before_comes_back(pick: float) -> None:
    """Azure refuses its size for good. With its owner it is one too many, without one it is a user's and waits."""
    before, corrected = "Standard_NC8as_T4_v3", "Standard_NC4as_T4_v3"
    found = execute(
        Plan(
            seed=1,
            faults_seconds=900.0,
            facts={"refused": {before: "quota"}},
            node_pools=(
                NodePool(name="np0", sizes=(corrected,), replicas=1, stages=(Stage(until=300.0, sizes=(before,)),)),
            ),
            events=(Event(at=200.0, fault="old-backup-restored", pick=pick, seconds=400.0),),
        )
    )
    assert (found.why, found.happened["old-backup-restored"]) == ("", 1), found.error


def test_each_group_is_drawn() -> None:
    """By one of the first seeds; a group has NodePools, and its workloads name them."""
    assert {groups.chosen(seed) for seed in range(1, 500)} == {"", *groups.GROUPS}
    for group in groups.GROUPS.values():
        for number in range(20):
            plan = group(Random(number), Plan(seed=1, faults_seconds=900.0))
            assert {one.node_pool for one in plan.workloads} <= {one.name for one in plan.node_pools} != set()
            assert max((one.at for one in plan.events), default=0.0) < plan.faults_seconds


def test_planted_defects_have_names_and_texts() -> None:
    """At least 40."""
    assert len({one.__name__ for one in MUTANTS}) == len(MUTANTS) >= 40
    assert all(one.__doc__ for one in MUTANTS)


def test_each_verb_of_the_catalogue_exists() -> None:
    """And each is used by a row."""
    assert {one.verb for one in faults().values() if one.verb} == {*VERBS}


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """JSON has lists where a drawn plan has tuples."""
    for seed in range(1, 50):
        plans.write(tmp_path / "plan.json", draw(seed))
        again = plans.read(tmp_path / "plan.json")
        assert msgspec.json.encode(again) == msgspec.json.encode(draw(seed))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "I7 violated at 12.500 s: pool cab12x of claim np0-1 (uid 3f-9)\nmore",
            "I7 violated: pool # of claim # (uid #)",
        ),
        ("not what was expected of node-1", "AssertionError: not what was expected of #"),
    ],
)
def test_equal_failures_have_equal_texts(text: str, kind: str) -> None:
    """Without names and numbers."""
    assert signature(BaseExceptionGroup("", [AssertionError(text)])) == kind


def test_a_campaign_counts_what_is_new() -> None:
    """Pairs of states that no seed before had, and the seeds since."""
    figures = Figures()
    for number, pairs in enumerate(({"a"}, {"a", "b"}, {"b"}, set[str]())):
        figures.add(Outcome(seed=number, pairs=pairs, why="wrong" if number == 3 else ""), 1.0)
    assert (figures.new_pairs, figures.idle, figures.failures) == ([2], 2, {"wrong": [3]})
    assert "4 seeds, 1 failed, 3600 an hour and core" in str(figures)
    assert [*seeds("3-5")] == [3, 4, 5]
    assert [*seeds("7")] == [7]
    assert [*seeds("7,40")] == [7, 40]
