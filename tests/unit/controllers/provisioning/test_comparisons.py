"""The work that pods may cost a decision: counted, bounded for each pod and for all of them."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from controllers.provisioning.podspecs import interchangeable, podspec, shape_key
from controllers.provisioning.solver.comparisons import PER_DECISION, PER_POD, TERMS_MAX, TooLargeError, beyond_budget
from controllers.provisioning.solver.host_room import ports_conflict
from controllers.provisioning.solver.solver import solve
from controllers.provisioning.solver.views import PodViews
from provisioner.api.pod import Pod

from .cases import ZONE, bought, decide, given, instance_type, node_pool, pod, pods

Json = dict[str, Any]
LABELS = [f"example.com/label-{number}" for number in range(9)]
MIB = 2**20


def spec_of(**spec: Any) -> Any:
    return podspec(msgspec.convert(pod("p", **spec), Pod))


def term(key: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}


def node_affinity(required: int, preferred: int) -> Json:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [term(f"a{number}") for number in range(required)]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": term(f"b{number}")} for number in range(preferred)
            ],
        }
    }


def pod_affinity(preferred: int) -> Json:
    terms = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"x{number}"}}}}
        for number in range(preferred)
    ]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def required_pods(count: int, keys: int) -> Json:
    """Terms of pod affinity, each with a label of its own, over so many topology keys."""
    terms = [
        {"topologyKey": f"k{number % keys}", "labelSelector": {"matchLabels": {f"a{number}": ""}}}
        for number in range(count)
    ]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def spread_over(key: str) -> Json:
    selector = {"matchLabels": {"app": "a"}}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


@pytest.mark.parametrize("keys", [1, 3, 940])
def test_required_terms_of_pod_affinity_share_what_they_select(keys: int) -> None:
    """A pod must be selected by all of them: each topology key is one constraint, and its cost is its length."""
    tracemalloc.start()
    spec = spec_of(affinity=required_pods(940, keys))
    key = shape_key(spec)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one.key for one in spec.topology] == [f"k{number}" for number in range(keys)]
    assert len({id(one.selector) for one in spec.topology}) == 1
    every = {f"a{number}": "" for number in range(940)}
    assert spec.topology[0].selector.matches(every)
    assert not spec.topology[0].selector.matches({**every, "a1": "x"})
    assert (
        key
        == shape_key(spec_of(affinity=required_pods(940, keys)))
        != shape_key(spec_of(affinity=required_pods(939, keys)))
    )
    assert peak < 10 * MIB


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (node_affinity(1000, 1000), f"1,002 sets of preferences x .* at most {PER_POD:,} are made for one pod: remove"),
        (pod_affinity(TERMS_MAX + 1), f"1,001 pod affinity terms .* at most {TERMS_MAX:,} are evaluated: remove"),
        (pod_affinity(TERMS_MAX), "1,002 sets of preferences x"),
    ],
    ids=["node affinity", "many terms", "pod affinity"],
)
def test_constraints_that_are_too_large_are_refused(affinity: Json, expected: str) -> None:
    """The error names what is too large, the limit and the remedy."""
    with pytest.raises(TooLargeError, match=expected):
        spec_of(affinity=affinity)


def test_constraints_of_large_real_pods_are_evaluated() -> None:
    """Fifty alternatives with fifty preferences, and a hundred preferred terms of pod affinity."""
    assert len(spec_of(affinity={**node_affinity(50, 50), **pod_affinity(100)}).topology) == 100


def test_views_are_made_one_at_a_time() -> None:
    """Their number is that of the preferences and two more; none is kept."""
    views = PodViews(spec_of(affinity={**node_affinity(90, 90), **pod_affinity(90)}))
    tracemalloc.start()
    assert sum(1 for _ in views) == len(views) == 182
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()


def test_preferences_are_given_up_in_the_order_of_their_kinds() -> None:
    """Pod affinity, then node affinity, then ScheduleAnyway, last taints with PreferNoSchedule."""
    anyway = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    views = PodViews(spec_of(affinity={**node_affinity(1, 2), **pod_affinity(1)}, topologySpreadConstraints=[anyway]))
    found = [(len(one.topology), len(one.alternatives[0]), one.ignore_preferred_taints) for one in views]
    assert found == [(2, 2, False), (1, 2, False), (1, 2, False), (1, 1, False), (0, 1, False), (0, 1, True)]


def test_a_spread_over_many_labels_compares_only_domains_that_exist() -> None:
    """Nine labels with three values each have 19,683 combinations, of which three machines exist."""
    zones = ("z1", "z2", "z3")
    types = [
        {
            **instance_type("cpu-4", zones=(zone,)),
            "name": f"cpu-{number}",
            "requirements": [{"key": key, "operator": "In", "values": [f"v{number}"]} for key in (*LABELS, "model")],
        }
        for number, zone in enumerate(zones)
    ]
    spread = [spread_over(key) for key in LABELS]
    decision = decide(
        instanceTypes=types, pods=pods(3, topologySpreadConstraints=spread), wellKnownLabels=["model", *LABELS]
    )
    assert bought(decision) == ["cpu-0", "cpu-1", "cpu-2"]


def test_a_spread_over_labels_with_too_many_combinations_is_refused() -> None:
    """Three labels of a NodePool with a hundred values each; the pod beside it gets its machine."""
    free = [{"key": key, "operator": "In", "values": [f"v{n}" for n in range(100)]} for key in LABELS[:3]]
    spread = [spread_over(key) for key in LABELS[:3]]
    wanted = [pod("hostile", topologySpreadConstraints=spread), pod("other")]
    decision = decide(nodePools=[node_pool(requirements=free)], pods=wanted)
    assert [one.pods for one in decision.machines] == [("default/other",)]
    assert "1,000,000 combinations of values, at most 10,000" in decision.errors["default/hostile"]


def test_the_largest_pods_of_a_decision_are_set_aside() -> None:
    """Each may cost as much, together they may not: the small pods and most of the large ones are decided."""
    large = [
        pod(f"large{number:02}", labels={"app": f"a{number}"}, affinity=node_affinity(160 + number, 150))
        for number in range(60)
    ]
    decision = decide(pods=[*large, *pods(2)])
    assert not decision.errors.keys() & {"default/p00", "default/p01", "default/large00"}
    assert decision.errors.keys() == decision.set_aside
    assert "default/large59" in decision.set_aside
    assert f"may need {PER_DECISION:,} comparisons" in decision.errors["default/large59"]


def test_the_budget_of_a_decision_is_used_by_small_pods_first() -> None:
    """What is beyond it does not depend on the order of the pods."""
    part = PER_DECISION // 4
    assert beyond_budget({b"a": 3 * part, b"b": part, b"c": part, b"d": part}) == {b"a"}
    assert not beyond_budget({b"a": 2 * part, b"b": 2 * part})


TCP = "TCP"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({("0.0.0.0", 80, TCP)}, {("0.0.0.0", 80, TCP)}, True),
        ({("0.0.0.0", 80, TCP)}, {("10.0.0.1", 80, TCP)}, True),
        ({("10.0.0.1", 80, TCP)}, {("0.0.0.0", 81, TCP), ("0.0.0.0", 80, TCP)}, True),
        ({("10.0.0.1", 80, TCP)}, {("10.0.0.2", 80, TCP)}, False),
        ({("10.0.0.1", 80, TCP), ("0.0.0.0", 81, TCP)}, {("10.0.0.2", 80, TCP)}, False),
        ({("0.0.0.0", 80, TCP)}, {("0.0.0.0", 80, "UDP")}, False),
    ],
)
def test_host_ports_conflict_by_number_protocol_and_address(one: set[Any], other: set[Any], expected: bool) -> None:
    """An unspecified address conflicts with every address."""
    assert (
        ports_conflict(frozenset(one), frozenset(other)) is ports_conflict(frozenset(other), frozenset(one)) is expected
    )


def test_pods_with_ten_thousand_host_ports_are_compared_as_sets() -> None:
    """Six pods of different ports share a machine; one that needs a port of the first does not."""

    def ports(first: int) -> list[Json]:
        return [{"containerPort": one, "hostPort": one} for one in range(first, first + 10_000)]

    wanted = pods(6, cpu="100m")
    for number, one in enumerate(wanted):
        one["spec"]["containers"][0]["ports"] = ports(1 + 10_000 * number)
    twin = pod("twin", cpu="100m")
    twin["spec"]["containers"][0]["ports"] = ports(5_000)
    # No cache keeps so large a pod.
    specs = [(one["metadata"]["name"], podspec(msgspec.convert(one, Pod))) for one in (*wanted, twin)]
    decision = solve(msgspec.structs.replace(given(), pods=interchangeable(specs, ())))
    first, *_ = (machine for machine in decision.machines if "twin" in machine.pods)
    assert "p00" not in first.pods
    assert (len(decision.machines), decision.errors) == (2, {})
