"""Quota is a sum over the machines of one decision: what is bought instead, and what a pod without a machine states."""

import random
from typing import Any

import pytest

from cloudprovider.azure.quota import family_of, needs, quotas_left
from cloudprovider.interface import SPOT, Offering, QuotaLeft, Usage
from controllers.provisioning.solver.model import Decision
from controllers.provisioning.solver.solver import solve
from provisioner.api.labels import CAPACITY_TYPE, INSTANCE_TYPE

from .observed import REGION, T4, TOLERATES, node_pool, observe, pod

A10, LARGER = "Standard_NV36ads_A10_v5", "Standard_NC48ads_A100_v4"
A10_FAMILY = family_of(A10)
FAMILY, TOTAL, LOW = family_of(T4), "cores", "lowprioritycores"
BOTH = {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}
ONLY_T4 = {"key": INSTANCE_TYPE, "operator": "In", "values": [T4]}


def left(**vcpus: int) -> dict[str, QuotaLeft]:
    usages = {name.casefold().replace(" ", ""): Usage(limit=limit + 100, used=100) for name, limit in vcpus.items()}
    return quotas_left(usages, vcpus, REGION)


def decide(count: int, quotas: dict[str, QuotaLeft], *, pools: Any = None, **spec: Any) -> Decision:
    wanted = tuple(pod(f"p{n}", tolerations=TOLERATES, **spec) for n in range(count))
    return solve(observe(pods=wanted, node_pools=pools or (node_pool(),), quotas=quotas).snapshot)


def used(decision: Decision) -> dict[str, int]:
    """What the machines use of each quota if each becomes the first offering of its NodeClaim."""
    found: dict[str, int] = {}
    for one in decision.machines:
        spot = SPOT in one.requirements[CAPACITY_TYPE].values if CAPACITY_TYPE in one.requirements else False
        offering = Offering(size=one.instance_types[0], capacity_type=SPOT if spot else "on-demand")
        for name, amount in needs(offering).items():
            found[name] = found.get(name, 0) + amount
    return found


@pytest.mark.parametrize(
    ("vcpus", "t4", "others"),
    [
        ({}, 6, []),
        ({FAMILY: 24}, 6, []),
        ({FAMILY: 8}, 2, [A10] * 4),
        ({FAMILY: 11}, 2, [A10] * 4),
        ({FAMILY: 0}, 0, [A10] * 6),
        ({TOTAL: 150}, 6, []),
        ({FAMILY: 8, A10_FAMILY: 72}, 2, [A10, A10, LARGER]),
    ],
)
def test_other_families_take_the_pods_beyond_a_quota(vcpus: dict[str, int], t4: int, others: list[str]) -> None:
    """Six pods with one GPU each: as many of the cheapest machines as the quota allows, and a machine for each pod."""
    decision = decide(6, left(**vcpus))
    assert not decision.errors
    assert sorted(one.instance_types[0] for one in decision.machines) == sorted([T4] * t4 + others)
    for name, amount in vcpus.items():
        assert used(decision).get(name, 0) <= amount


def test_no_claim_may_launch_what_others_were_counted_on() -> None:
    """The types of the family are not listed by NodeClaims of another one, because they would be launched first."""
    decision = decide(6, left(**{FAMILY: 8}))
    others = [one for one in decision.machines if family_of(one.instance_types[0]) != FAMILY]
    assert others
    assert all(family_of(size) != FAMILY for one in others for size in one.instance_types)


def test_the_other_capacity_type_takes_the_pods_beyond_a_quota() -> None:
    """Spot machines need no quota of their family, and the other way round."""
    pools = (node_pool(requirements=[BOTH, ONLY_T4]),)
    tolerates = [*TOLERATES, {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}]
    wanted = tuple(pod(f"p{n}", tolerations=tolerates) for n in range(6))
    found = observe(pods=wanted, node_pools=pools, quotas=left(**{FAMILY: 8, LOW: 16}))
    decision = solve(found.snapshot)
    assert not decision.errors
    assert {one.instance_types for one in decision.machines} == {(T4,)}
    assert (
        sorted(SPOT in one.requirements[CAPACITY_TYPE].values for one in decision.machines) == [False] * 2 + [True] * 4
    )


def test_another_nodepool_takes_the_pods_beyond_a_quota() -> None:
    """The quota of the NodePool of higher weight ends."""
    pools = (node_pool("first", requirements=[ONLY_T4], weight=10), node_pool("second"))
    decision = decide(4, left(**{FAMILY: 8}), pools=pools)
    assert not decision.errors
    assert sorted(one.node_pool for one in decision.machines) == ["first", "first", "second", "second"]


def test_a_pod_without_quota_states_it() -> None:
    """The quota, its limit and usage, what other pods take of it, and the remedy."""
    decision = decide(3, left(**{FAMILY: 8}), pools=(node_pool(requirements=[ONLY_T4]),))
    assert len(decision.machines) == 2
    (error,) = decision.errors.values()
    assert error == (
        f"NodePool gpu: {FAMILY} cores quota in {REGION}: limit 108, used 100, 8 more for machines of other pods."
        f" Raise it or change size: az vm list-usage -l {REGION} -o table"
    )


def test_requested_machines_count() -> None:
    """Machines that the usages do not contain yet take their part of each quota that they need."""
    usages = {FAMILY.casefold().replace(" ", ""): Usage(limit=20, used=4), TOTAL: Usage(limit=100, used=0)}
    coming = (Offering(size=T4), Offering(size=T4, capacity_type=SPOT), Offering(size="Standard_NV36ads_A10_v5"))
    found = quotas_left(usages, (FAMILY, TOTAL, LOW), REGION, requested=coming)
    assert {name: one.left for name, one in found.items()} == {FAMILY: 12, TOTAL: 60}


@pytest.mark.parametrize("seed", range(20))
def test_no_quota_is_exceeded(seed: int) -> None:
    """Whatever the quotas, weights, capacity types and constraints of the pods are, and no pod waits that has quota."""
    rng = random.Random(seed)
    names = (FAMILY, A10_FAMILY, family_of(LARGER), TOTAL, LOW)
    quotas = {name: rng.choice([0, 4, 11, 24, 72, 200]) for name in names if rng.random() < 0.7}
    kinds = [{**BOTH, "values": [rng.choice(["spot", "on-demand"])]} for _ in range(3)]
    pools = tuple(node_pool(f"n{n}", requirements=[kind], weight=rng.choice([1, 10])) for n, kind in enumerate(kinds))
    tolerates = [*TOLERATES, {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}]
    wanted = []
    for app in range(3):
        meta, chosen = {"labels": {"app": f"a{app}"}}, {"matchLabels": {"app": f"a{app}"}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": chosen}
        spread = {
            **term,
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
        }
        specs: list[dict[str, Any]] = [
            {},
            {"topologySpreadConstraints": [spread]},
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        ]
        spec = rng.choice(specs)
        wanted += [pod(f"a{app}-{n}", meta=meta, tolerations=tolerates, **spec) for n in range(rng.randint(1, 5))]
    decision = solve(observe(pods=tuple(wanted), node_pools=pools, quotas=left(**quotas)).snapshot)
    rest = {name: amount - used(decision).get(name, 0) for name, amount in quotas.items()}
    assert all(amount >= 0 for amount in rest.values())
    for one in (one for one in wanted if f"default/{one.metadata.name}" in decision.errors and not one.spec.affinity):
        if not one.spec.topology_spread_constraints:
            assert not solve(observe(pods=(one,), node_pools=pools, quotas=left(**rest)).snapshot).machines
