"""Pods that affinity by hostname binds to one machine: the machine is sized for all of them."""

from typing import Any

import pytest

from .cases import GPU, HOSTNAME, ZONE, bought, decide, node, node_pool, pod, pods

Json = dict[str, Any]


def near(selected: Json, kind: str = "podAffinity", key: str = HOSTNAME) -> Json:
    one = {"topologyKey": key, "labelSelector": {"matchLabels": selected}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [one]}}


def named(prefix: str, count: int, *, gpus: int = 1, **spec: Any) -> list[Json]:
    return [pod(f"{prefix}{number:02}", gpus=gpus, labels={"app": prefix}, **spec) for number in range(count)]


def shared(decision: Any) -> list[tuple[str, ...]]:
    """The pods of each machine, by the first part of their names."""
    return sorted(tuple(sorted(name.removeprefix("default/")[:-2] for name in one.pods)) for one in decision.machines)


def test_a_follower_gets_room_on_the_machine_that_it_must_join() -> None:
    """Server and worker with a GPU each share a machine with four."""
    decision = decide(pods=[*named("server", 1), *named("worker", 1, affinity=near({"app": "server"}))])
    assert (bought(decision), dict(decision.errors)) == (["t4-4"], {})


def test_as_many_of_a_group_as_fit_one_machine() -> None:
    """Ten pods must share a machine of at most eight GPUs: eight of them run, as with Karpenter."""
    decision = decide(pods=pods(10, gpus=1, affinity=near({"app": "a"})))
    assert (bought(decision), len(decision.errors)) == (["a100-8"], 2)


def test_two_shapes_of_one_group_share_a_machine() -> None:
    """The affinity of both selects both."""
    affinity = near({"app": "a"})
    decision = decide(pods=[pod("one", gpus=1, affinity=affinity), pod("two", gpus=1, cpu="2", affinity=affinity)])
    assert (bought(decision), dict(decision.errors)) == (["t4-4"], {})


def test_as_many_of_two_shapes_as_fit_one_machine() -> None:
    """A launcher and twelve workers: the launcher and seven workers share eight GPUs."""
    affinity = near({"app": "a"})
    decision = decide(pods=[pod("launcher", gpus=1, cpu="2", affinity=affinity), *pods(12, gpus=1, affinity=affinity)])
    (machine,) = decision.machines
    assert "default/launcher" in machine.pods
    assert (len(machine.pods), len(decision.errors)) == (8, 5)


@pytest.mark.parametrize("names", ["abcd", "dcba", "bdac"])
def test_pods_that_depend_on_each_other(names: str) -> None:
    """ui beside cache beside web beside db, whatever their names and sizes."""
    chain = ("ui", "cache", "web", "db")
    wanted = [
        pod(name, gpus=1, labels={"type": own}, affinity=near({"type": needed}) if needed else {})
        for name, own, needed in zip(names, chain, (*chain[1:], ""), strict=True)
    ]
    decision = decide(pods=wanted)
    assert (bought(decision), dict(decision.errors)) == (["t4-4"], {})


def test_followers_are_divided_among_the_replicas_of_their_leader() -> None:
    """Three leaders and three followers: machines with room for both, not one for all leaders."""
    decision = decide(pods=[*named("leader", 3), *named("worker", 3, affinity=near({"app": "leader"}))])
    assert not decision.errors
    assert all({"leader", "worker"} <= {*one} for one in shared(decision))


def test_one_follower_enlarges_one_machine_only() -> None:
    """It fits a machine with four GPUs besides one leader; two more join them, and two have small machines."""
    decision = decide(pods=[*named("leader", 5), *named("worker", 1, affinity=near({"app": "leader"}))])
    assert not decision.errors
    assert decision.price == pytest.approx(4.3 + 2 * 0.5)


def test_followers_that_keep_apart_reserve_room_once_a_machine() -> None:
    """Each follower needs a leader, and no other follower beside it."""
    apart = near({"app": "worker"}, "podAntiAffinity")
    affinity = {**near({"app": "leader"}), **apart}
    decision = decide(pods=[*named("leader", 2), *named("worker", 2, affinity=affinity)])
    assert not decision.errors
    assert all(one.count("worker") == 1 for one in shared(decision))


def test_a_leader_is_placed_alone_where_limits_end() -> None:
    """The limit allows one small machine: the leader runs, and its follower waits."""
    pool = node_pool(limits={GPU: "1"})
    decision = decide(
        nodePools=[pool], pods=[*named("leader", 1), *named("worker", 1, affinity=near({"app": "leader"}))]
    )
    assert shared(decision) == [("leader",)]
    assert [*decision.errors] == ["default/worker00"]


def test_a_family_joins_an_existing_node_with_room_for_all() -> None:
    """Nothing is bought."""
    wanted = [*named("leader", 1), *named("worker", 2, affinity=near({"app": "leader"}))]
    decision = decide(nodes=[node("n1", "t4-1"), node("n2", "t4-4")], pods=wanted)
    assert {name: len(found) for name, found in decision.existing.items()} == {"n2": 3}


def test_a_follower_of_running_pods_joins_them_or_pending_ones() -> None:
    """The running leader's Node is full, so that the follower gets a place beside the pending leader."""
    running = pod("running", gpus=1, labels={"app": "leader"})
    running["spec"]["nodeName"] = "n1"
    wanted = [*named("leader", 1), *named("worker", 1, affinity=near({"app": "leader"}))]
    decision = decide(nodes=[node("n1", "t4-1", running=[running])], pods=wanted)
    assert (bought(decision), dict(decision.errors)) == (["t4-4"], {})


def test_a_family_whose_leader_is_spread_over_zones() -> None:
    """Each leader has a zone of its own and its follower beside it."""
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread = {**spread, "labelSelector": {"matchLabels": {"app": "leader"}}}
    leaders = named("leader", 3, topologySpreadConstraints=[spread])
    decision = decide(pods=[*leaders, *named("worker", 3, affinity=near({"app": "leader"}))])
    assert not decision.errors
    assert shared(decision) == [("leader", "worker")] * 3
    zones = sorted(zone for one in decision.machines for zone in one.requirements[ZONE].values)
    assert zones == ["z1", "z2", "z3"]


def test_pods_that_need_each_other_and_not_themselves_wait() -> None:
    """kube-scheduler places neither first, so that no machine is bought."""
    one, other = named("one", 1, affinity=near({"app": "other"})), named("other", 1, affinity=near({"app": "one"}))
    decision = decide(pods=[*one, *other])
    assert (decision.machines, len(decision.errors)) == ((), 2)
