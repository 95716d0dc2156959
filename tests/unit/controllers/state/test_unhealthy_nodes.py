"""Machines that are kept because others failed in the same way: until when, and what it costs to find out."""

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any, cast

import msgspec
import pytest

from controllers.model.facts import Unhealthy
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage
from controllers.model.reported import Reported
from controllers.model.steps import Wait
from controllers.node.health.limits import blocked_by_limits, is_suspended
from controllers.node.health.repairable import deleted_by_repair
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from controllers.state.unhealthy_nodes import Rules, UnhealthyNodes
from provisioner.api import labels
from provisioner.api.aks_names import pool_of, resource_group_of
from provisioner.api.node import Node, NodeSpec
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import NOT_REGISTERED, RepairPolicy
from provisioner.runtime.store import Store
from tests.unit.builders import BORN, SIZE, UP, claim, node

IMAGE = "AKSUbuntu-2204gen2containerd-202603.01.0"
STAGE = RepairStage(size=SIZE, image=IMAGE, stage=NOT_REGISTERED)
FAILED = Unhealthy(stage=STAGE, acting=(NOT_REGISTERED,), kept=True)
NOW = BORN + timedelta(hours=9)


def machine(name: str, minute: float, *, usable: bool, owner: str = "w") -> tuple[NodeClaim, Node]:
    """One of this size and image, created at a minute for this Workspace."""
    more_labels = {labels.INSTANCE_TYPE: SIZE, labels.KAITO_WORKSPACE: owner}
    made = claim(name=name, uid=name, up=UP if usable else (), more_labels=more_labels)
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=BORN + timedelta(minutes=minute))
    found = node(name=f"aks-{name}-12345678-vmss000000", uid_label=name, more_labels={labels.AKS_IMAGE_VERSION: IMAGE})
    return msgspec.structs.replace(made, metadata=meta), msgspec.structs.replace(found, spec=NodeSpec())


def counts_of(machines: list[tuple[NodeClaim, Node]]) -> UnhealthyNodes:
    """The counts over a cluster with these machines."""
    claims, nodes = Store(claim_indexes(lambda made: made.name)), Store(node_indexes(pool_of, resource_group_of))
    claims.replace([one for one, _ in machines])
    nodes.replace([one for _, one in machines])
    caches = cast("dict[str, Any]", {"claims": claims, "nodes": nodes, "crds": Store[Any]({})})
    rules = Rules(deleted_by_repair=deleted_by_repair, blocked_by_limits=blocked_by_limits, suspended=is_suspended)
    return UnhealthyNodes(
        indexes=Indexes(**caches, pool_name=lambda made: made.name, pool_of=pool_of), policy=Policy(), rules=rules
    )


def update(counts: UnhealthyNodes, name: str, **fields: Any) -> bool:
    """Whether the machine is kept after a pass over it, whose repair is due."""
    unhealthy = msgspec.structs.replace(FAILED, **fields)
    return counts.update(name, unhealthy, Wait(after=None, why="kept") if unhealthy.kept else None, NOW, 0.0).suspended


@pytest.mark.parametrize(
    ("kept", "usable", "suspends"),
    [
        ({}, {}, False),
        ({"a": 0}, {}, True),
        ({"a": 0}, {"w": 1}, False),
        ({"a": 1}, {"w": 0}, True),
        ({"a": 1}, {"w": 1}, True),
        # One of them is newer than the one that works.
        ({"a": 0, "b": 2}, {"w": 1}, True),
        ({"b": 2, "a": 0}, {"w": 1}, True),
        ({"a": 0, "b": 2}, {"w": 3}, False),
        ({"a": 0, "b": 2}, {"w": 3, "v": 1}, False),
    ],
)
def test_machines_that_are_kept_suspend_others_until_a_newer_one_works(
    kept: dict[str, int], usable: dict[str, int], suspends: bool
) -> None:
    """A machine that fails in the same way is kept, too, unless one works that is newer than all that are kept."""
    machines = [machine(name, minute, usable=False) for name, minute in kept.items()]
    machines += [machine(name, minute, usable=True) for name, minute in usable.items()]
    counts = counts_of([*machines, machine("late", 9, usable=False)])
    for name in kept:
        assert update(counts, name)
    assert update(counts, "late", kept=False) is suspends


@pytest.mark.parametrize(
    ("kept", "works", "suspends"),
    [("w", "w", False), ("w", "v", True), ("v", "v", False), ("v", "w", False), ("v", "u", False)],
)
def test_what_works_for_another_owner_releases_no_machine(kept: str, works: str, *, suspends: bool) -> None:
    """A machine of Workspace w fails as one that is kept; a newer one of an owner works."""
    machines = [machine("a", 0, usable=False, owner=kept), machine("b", 1, usable=True, owner=works)]
    counts = counts_of([*machines, machine("late", 9, usable=False)])
    assert update(counts, "a")
    assert update(counts, "late", kept=False) is suspends


def test_a_machine_that_is_kept_without_its_claim_suspends_others() -> None:
    """Nothing is known to be newer than it."""
    counts = counts_of([machine("w", 9, usable=True), machine("late", 9, usable=False)])
    assert update(counts, "gone")
    assert update(counts, "late", kept=False)


@pytest.mark.parametrize(
    ("overdue", "going"), [((), 1), (("Registered",), 1), (("Drained",), 0), (("InstanceTerminating", "Registered"), 0)]
)
def test_a_removal_counts_until_its_own_deadline(overdue: tuple[str, ...], going: int) -> None:
    """That the machine started too late, which is why it is replaced, says nothing about its removal."""
    text = msgspec.json.encode(Reported(overdue=overdue)).decode()
    notes = {labels.REPAIR_DRAIN_UNTIL: "2026-03-01T12:00:00Z", labels.REPORTED: text}
    replaced = claim(name="r", uid="r", up=("Launched",), deleting=True, annotations=notes)
    late, found = machine("late", 9, usable=False)
    counts = counts_of([(replaced, node(name="aks-r-12345678-vmss000000", uid_label="r")), (late, found)])
    starting = Unhealthy(
        acting=(NOT_REGISTERED,),
        policy=RepairPolicy(signal=NOT_REGISTERED, seconds=900, action="Replace"),
        replaces=True,
    )
    seen = counts.update("late", starting, None, NOW, 0.0)
    assert (seen.going, seen.overdue) == (going, 1 - going)


def test_machines_that_are_kept_cost_each_pass_one_walk_of_all_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the counts do, and not one for each of them."""
    walks, claims = Counter[str](), Indexes.claims

    def counted(self: Indexes) -> tuple[NodeClaim, ...]:
        walks["claims"] += 1
        return claims(self)

    monkeypatch.setattr(Indexes, "claims", counted)
    kept = [f"k{number:03}" for number in range(40)]
    machines = [machine(name, 0, usable=False) for name in kept]
    machines += [machine(f"n{number:03}", 1, usable=False) for number in range(359)]
    counts = counts_of([*machines, machine("works", 1, usable=True)])
    for name in kept:
        assert update(counts, name)
    walks.clear()
    for name in kept:
        assert update(counts, name)
    assert walks["claims"] <= 2 * len(kept)


@pytest.mark.parametrize("seed", range(5))
def test_the_most_at_once_is_what_counting_all_machines_gives(seed: int) -> None:
    """It is kept between passes: signals begin, begin again and end, and machines are forgotten."""
    rng, names, since = Random(seed), [f"m{number}" for number in range(12)], dict[str, float]()
    counts, window = counts_of([machine(name, 0, usable=True) for name in names]), Policy().repair_simultaneous_seconds
    for _ in range(200):
        name, at = rng.choice(names), rng.choice((None, 0.0, rng.uniform(0.0, 4 * window), since.get("m0")))
        if at is None:
            since.pop(name, None)
            counts.forget(name) if rng.random() < 0.5 else counts.update(name, None, None, NOW, 0.0)
            continue
        since[name] = at
        unhealthy = msgspec.structs.replace(FAILED, since=at)
        found = counts.update(name, unhealthy, Wait(after=None, why="kept"), NOW, 0.0).simultaneous
        assert found == max(sum(0 <= other - one <= window for other in since.values()) for one in since.values())
