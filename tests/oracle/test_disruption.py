"""Drawn clusters, disrupted by this program and by Karpenter's methods of disruption."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .disruption_cluster import NoPlaceError, apply, is_ready, price, violations
from .disruption_scenarios import DO_NOT_DISRUPT, POOL, Kind, bind, draw, machine, set_condition
from .programs import OURS, answers
from .sizes import GPU, MODEL

pytestmark = pytest.mark.oracle
DISRUPT = (OURS[0], "schedule", "--disrupt", "--json-lines")
BATCH = 250
PASSES_MAX = 25
CENT = 0.01


class Settled(msgspec.Struct):
    """A cluster after all passes of a program. `removed`: the machines of the first pass and of all, by reason."""

    cluster: dict[str, Any]
    first: dict[str, set[str]] = {}
    removed: dict[str, set[str]] = {}
    wrong: list[str] = []


@pytest.mark.parametrize("first", range(0, 1000, BATCH))
def test_no_fleet_costs_more_after_consolidation(karpenter: Path, first: int) -> None:
    """Both programs consolidate each cluster until they find nothing more.

    Some fleets cost more: it depends on which machine goes first, and a full machine is divided only if that saves 20%.
    """
    ours, theirs = _both(karpenter, "consolidation", range(first, first + BATCH))
    assert _wrong(first, ours) == []
    before, *prices = (
        [price(cluster) for cluster in clusters]
        for clusters in (
            [draw(seed, "consolidation") for seed in range(first, first + BATCH)],
            [one.cluster for one in theirs],
            [one.cluster for one in ours],
        )
    )
    dearer = {first + i: pair for i, pair in enumerate(zip(*prices, strict=True)) if pair[1] > pair[0] + CENT}
    cheaper = sum(paid < other - CENT for other, paid in zip(*prices, strict=True))
    print(
        f"seeds {first} to {first + BATCH - 1}: {sum(before):.2f} USD/h before, Karpenter {sum(prices[0]):.2f} USD/h, "
        f"this program {sum(prices[1]):.2f} USD/h; {cheaper} fleets cost less, {len(dearer)} more: {dearer}"
    )
    assert sum(prices[1]) <= sum(prices[0])
    assert len(dearer) <= cheaper


@pytest.mark.parametrize("kind", ["removal", "static"])
def test_empty_and_drifted_machines_go_as_with_karpenter(karpenter: Path, kind: Kind) -> None:
    """Machines that are not Ready are left to repair. Where budgets bind, others of the NodePool may go first."""
    ours, theirs = _both(karpenter, kind, range(BATCH))
    assert _wrong(0, ours) == []
    assert [
        f"seed {seed}: {text}"
        for seed, parts in enumerate(zip(ours, theirs, strict=True))
        for text in _left(draw(seed, kind), *parts)
    ] == []


def test_no_rule_is_broken_in_mixed_clusters() -> None:
    """Budgets, blockers, jobs and GPU models, in every pass."""
    (ours,) = _settled([draw(seed, "mixed") for seed in range(2 * BATCH)], DISRUPT)
    assert _wrong(0, ours) == []
    assert {reason for one in ours for reason in one.removed} == {"Empty", "Drifted", "Underutilized"}


def _both(karpenter: Path, kind: Kind, seeds: range) -> list[list[Settled]]:
    """What this program and Karpenter make of the clusters, in this order."""
    return _settled([draw(seed, kind) for seed in seeds], DISRUPT, (str(karpenter), "-disrupt"))


def _settled(clusters: list[dict[str, Any]], *commands: tuple[str, ...]) -> list[list[Settled]]:
    """What each program makes of the clusters; two processes run at a time."""
    halves = clusters[::2], clusters[1::2]
    with ThreadPoolExecutor(2) as threads:
        running = [[threads.submit(_settle, command, half) for half in halves] for command in commands]
        found = [[one.result() for one in pair] for pair in running]
    return [[pair[number % 2][number // 2] for number in range(len(clusters))] for pair in found]


def _settle(command: tuple[str, ...], clusters: list[dict[str, Any]]) -> list[Settled]:
    """Pass after pass, until nothing is disrupted or a command cannot be carried out."""
    found = [Settled(cluster) for cluster in clusters]
    lenient, moving = command != DISRUPT, list(found)
    for _ in range(PASSES_MAX):
        answered = zip(moving, answers(command, [one.cluster for one in moving]), strict=True)
        moving = [one for one, answer in answered if _step(one, answer, lenient=lenient)]
        if not moving:
            return found
    for one in moving:
        one.wrong.append(f"not settled after {PASSES_MAX} passes")
    return found


def _step(one: Settled, answer: dict[str, Any], *, lenient: bool) -> bool:
    """Carries out the commands of one pass; whether there may be another one."""
    passed = not one.removed
    for command in answer["commands"]:
        for removed in (one.removed, *([one.first] if passed else [])):
            removed.setdefault(command["reason"], set()).update(command["nodes"])
    one.wrong += violations(one.cluster, answer, lenient=lenient)
    try:
        one.cluster = apply(one.cluster, answer, lenient=lenient)
    except (NoPlaceError, KeyError):
        return False
    return bool(answer["commands"])


def _wrong(first: int, settled: list[Settled]) -> list[str]:
    return [f"seed {first + number}: {text}" for number, one in enumerate(settled) for text in one.wrong]


def _left(cluster: dict[str, Any], ours: Settled, theirs: Settled) -> Iterator[str]:
    """Machines that Karpenter removes and this program does not."""
    pools = {
        entry["node"]["metadata"]["name"]: entry["node"]["metadata"]["labels"][POOL]
        for entry in cluster["nodes"]
        if is_ready(entry)
    }
    here, there = (one.first.get("Empty", set()) & pools.keys() for one in (ours, theirs))
    for pool in set(pools.values()):
        counts = [sum(pools[name] == pool for name in names) for names in (here, there)]
        if counts[0] < counts[1]:
            yield f"{counts[0]} empty machines of {pool} are removed at first, {counts[1]} by Karpenter"
    gone, expected = (set[str]().union(*one.removed.values()) & pools.keys() for one in (ours, theirs))
    if left := expected - gone:
        yield f"{', '.join(sorted(left))} stays, removed by Karpenter as {theirs.removed}"


@pytest.mark.parametrize("kind", ["consolidation", "removal", "static"])
def test_karpenter_passes_the_check(karpenter: Path, kind: Kind) -> None:
    """Where no rule of this program is stricter, the independent check has no objection to what Karpenter does."""
    scenarios = [draw(seed, kind) for seed in range(200)]
    theirs = answers((str(karpenter), "-disrupt"), scenarios)
    found = [violations(*parts, lenient=True) for parts in zip(scenarios, theirs, strict=True)]
    assert {seed: texts for seed, texts in enumerate(found) if texts} == {}
    decided = {(command["reason"], command["decision"]) for answer in theirs for command in answer["commands"]}
    assert decided == {
        "consolidation": {("Underutilized", "delete"), ("Underutilized", "replace")},
        "removal": {("Empty", "delete"), ("Drifted", "delete"), ("Drifted", "replace")},
        "static": {("Drifted", "replace")},
    }.get(kind)


BOUGHT: dict[str, Any] = {
    "nodePool": "pool",
    "pods": ["default/one"],
    "instanceTypes": ["A100x1"],
    "requirements": [],
    "requests": {},
}
RIGHT: dict[str, Any] = {
    "reason": "Underutilized",
    "decision": "replace",
    "nodes": ["big"],
    "replacements": [BOUGHT],
}
EMPTY = {"reason": "Empty", "decision": "delete", "nodes": ["idle"], "replacements": []}
DRIFTED = {"reason": "Drifted", "decision": "delete", "nodes": ["idle"], "replacements": []}


def test_the_check_accepts_right_commands() -> None:
    cluster = _cluster()
    assert violations(cluster, {"commands": []}) == []
    assert violations(cluster, {"commands": [EMPTY, RIGHT]}) == []
    set_condition(_entry(cluster, "idle"), "Drifted", "True")
    assert violations(cluster, {"commands": [DRIFTED]}) == []


@pytest.mark.parametrize(
    ("command", "mistake"),
    [
        ({**RIGHT, "nodes": ["gone"]}, "gone is disrupted, which is no machine any more"),
        ({**RIGHT, "nodes": ["big", "big"]}, "big is disrupted, which is no machine any more"),
        ({**RIGHT, "replacements": []}, "no place for all of default/one"),
        ({**RIGHT, "nodes": ["big", "small"], "replacements": []}, "no place for all of default/one, default/two"),
        ({**RIGHT, "replacements": [{**BOUGHT, "instanceTypes": ["A100x4"]}]},
         "18.0000 USD an hour, 18.0000 before"),
        ({**RIGHT, "replacements": [{**BOUGHT, "instanceTypes": ["T4x1"]}]},
         "default/one moves from A100 to T4"),
        ({**RIGHT, "replacements": [{**BOUGHT, "instanceTypes": ["D4"]}]},
         "default/one does not fit on new-0"),
        ({**RIGHT, "replacements": [{**BOUGHT, "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}]},
         "a replacement for ['default/one'] cannot be bought"),
        ({**RIGHT, "nodes": ["big", "small", "idle"], "replacements": [
            {**BOUGHT, "instanceTypes": ["A100x4"], "pods": ["default/one", "default/two"]}]},
         "3 machines of pool are going, 2 may for Underutilized"),
        ({**RIGHT, "reason": "Empty"}, "big is not empty"),
        (DRIFTED, "idle is not drifted"),
    ],
)  # fmt: skip
def test_the_check_finds_wrong_commands(command: dict[str, Any], mistake: str) -> None:
    assert violations(_cluster(), {"commands": [command]}) == [mistake]


@pytest.mark.parametrize("reason", ["Underutilized", "Drifted"])
@pytest.mark.parametrize(
    ("blocker", "mistake"),
    [
        ("node", "big must not be disrupted"),
        ("deleting", "big is being removed"),
        ("pod", "big runs default/one, which must not be disrupted"),
        ("budget", "big runs default/one, which cannot be evicted"),
        ("two budgets", "big runs default/one, which cannot be evicted"),
        ("job", "big runs default/one, which cannot restart"),
        ("no controller", "big runs default/one, which cannot restart"),
        ("waiting", "big must not be consolidated yet"),
        ("WhenEmpty", "big is not empty, and its NodePool disrupts only empty machines"),
    ],
)
def test_the_check_finds_disruption_that_is_blocked(reason: str, blocker: str, mistake: str) -> None:
    """Drift waits for what blocks evictions unless the NodeClaim has a terminationGracePeriod."""
    cluster = _cluster()
    entry = _entry(cluster, "big")
    set_condition(entry, "Drifted", "True")
    (pod,) = entry["pods"]
    match blocker:
        case "node":
            entry["node"]["metadata"]["annotations"] = DO_NOT_DISRUPT
        case "deleting":
            entry["nodeClaim"]["metadata"]["deletionTimestamp"] = "2026-06-10T10:00:00Z"
        case "pod":
            pod["metadata"]["annotations"] = DO_NOT_DISRUPT
        case "budget":
            cluster["podDisruptionBudgets"] = [_disruption_budget(0)]
        case "two budgets":
            cluster["podDisruptionBudgets"] = [_disruption_budget(1)] * 2
        case "job" | "no controller":
            pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "training"}] if blocker == "job" else []
        case "waiting":
            set_condition(entry, "Consolidatable", "")
        case "WhenEmpty":
            cluster["nodePools"][0]["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty"
    of_consolidation = blocker in {"waiting", "WhenEmpty"} and reason == "Drifted"
    command = {**RIGHT, "reason": reason}
    assert violations(cluster, {"commands": [command]}) == ([] if of_consolidation else [mistake])
    entry["nodeClaim"]["spec"]["terminationGracePeriod"] = "1h"
    of_pods = "runs" in mistake and reason == "Drifted"
    assert violations(cluster, {"commands": [command]}) == ([] if of_consolidation or of_pods else [mistake])


@pytest.mark.parametrize(
    ("budgets", "most"),
    [
        ([], 3),
        ([{"nodes": "0"}], 0),
        ([{"nodes": "34%"}], 2),
        ([{"nodes": "1"}, {"nodes": "100%"}], 1),
        ([{"nodes": "0", "reasons": ["Drifted"]}], 3),
        ([{"nodes": "0", "schedule": "0 10 * * *", "duration": "1h"}], 0),
        ([{"nodes": "0", "schedule": "0 12 * * *", "duration": "2h"}], 3),
    ],
)
def test_the_check_counts_budgets(budgets: list[dict[str, Any]], most: int) -> None:
    cluster = _cluster()
    cluster["nodePools"][0]["spec"]["disruption"]["budgets"] = budgets
    for entry in cluster["nodes"]:
        entry["pods"] = []
    for count in range(4):
        command = {**EMPTY, "nodes": ["idle", "big", "small"][:count]}
        assert violations(cluster, {"commands": [command]}) == (
            [f"{count} machines of pool are going, {most} may for Empty"] if count > most else []
        )


@pytest.mark.parametrize(
    ("ours", "theirs", "left"),
    [
        ({"Empty": {"idle"}}, {"Empty": {"idle"}}, []),
        # The budget allows one, and another machine is chosen first.
        ({"Empty": {"small"}, "Drifted": {"idle"}}, {"Empty": {"idle"}}, []),
        ({"Empty": {"idle"}}, {}, []),
        ({"Drifted": {"idle"}}, {"Empty": {"idle"}}, ["0 empty machines of pool are removed at first, 1 by Karpenter"]),
        ({}, {"Drifted": {"big"}}, ["big stays, removed by Karpenter as {'Drifted': {'big'}}"]),
        ({}, {"Empty": {"unready"}, "Drifted": {"unready"}}, []),
    ],
)
def test_the_comparison_finds_machines_that_stay(
    ours: dict[str, set[str]], theirs: dict[str, set[str]], left: list[str]
) -> None:
    cluster = _cluster()
    unready = machine(
        "unready", cluster["nodePools"][0], cluster["instanceTypes"][0], {"Zone": "", "CapacityType": ""}, []
    )
    unready["node"]["status"]["conditions"][0]["status"] = "False"
    cluster["nodes"].append(unready)
    settled = [Settled(cluster, first=one, removed=one) for one in (ours, theirs)]
    assert list(_left(cluster, *settled)) == left


@pytest.mark.parametrize(
    ("limit", "replacements", "mistakes"),
    [
        (None, 1, []),
        ("4", 1, []),
        ("3", 1, ["pool may have 3 machines"]),
        (None, 0, ["1 machines of pool, which is static, get 0 replacements"]),
        (None, 2, ["1 machines of pool, which is static, get 2 replacements"]),
    ],
)
def test_the_check_counts_replacements_of_static_node_pools(
    limit: str | None, replacements: int, mistakes: list[str]
) -> None:
    cluster = _cluster()
    cluster["nodePools"][0]["spec"] |= {"replicas": 3, **({"limits": {"nodes": limit}} if limit else {})}
    set_condition(_entry(cluster, "idle"), "Drifted", "True")
    command = {**DRIFTED, "replacements": [{**BOUGHT, "pods": [], "instanceTypes": []}] * replacements}
    assert violations(cluster, {"commands": [command]}) == mistakes


def _cluster() -> dict[str, Any]:
    """Three machines: big for one pod, small full, idle empty. Two may be disrupted; nothing blocks that."""
    pool = {
        "metadata": {"name": "pool", "uid": "uid-pool"},
        "spec": {
            "template": {"metadata": {}, "spec": {"requirements": [], "nodeClassRef": {}}},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "2"}]},
        },
    }
    types = [_kind("A100x4", "A100", 4, 12.0), _kind("A100x1", "A100", 1, 3.0), _kind("T4x1", "T4", 1, 0.5)]
    types.append(_kind("D4", "", 0, 0.2))
    big, small, idle = (
        machine(name, pool, kind, kind["offerings"][0], [])
        for name, kind in (("big", types[0]), ("small", types[1]), ("idle", types[1]))
    )
    # No pod fits on the idle machine beside the other.
    idle["node"]["spec"]["taints"] = [{"key": "reserved", "effect": "NoSchedule"}]
    return {
        "nodePools": [pool],
        "instanceTypes": types,
        "daemonPods": [],
        "nodes": [bind(big, [_pod("one")]), bind(small, [_pod("two")]), idle],
        "podDisruptionBudgets": [],
    }


def _kind(name: str, model: str, gpus: int, price: float) -> dict[str, Any]:
    return {
        "name": name,
        "requirements": [{"key": MODEL, "operator": "In", "values": [model]}] if model else [],
        "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110", GPU: str(gpus)},
        "overhead": {"cpu": "100m"},
        "offerings": [{"Zone": "eastus-1", "CapacityType": "on-demand", "Price": price, "Available": True}],
    }


def _pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "1", GPU: "1"}
    owner = {"kind": "ReplicaSet", "name": "inference"}
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {"app": name},
        "annotations": {},
        "ownerReferences": [owner],
    }
    return {"metadata": meta, "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}


def _disruption_budget(left: int) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": {"app": "one"}}}, "status": {"disruptionsAllowed": left}}


def _entry(cluster: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in cluster["nodes"] if one["node"]["metadata"]["name"] == name)
    return found
