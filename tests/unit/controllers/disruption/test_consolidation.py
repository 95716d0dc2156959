"""Which machines consolidation removes or replaces, as tables."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption import simulation
from controllers.disruption.command import Command
from controllers.disruption.consolidation import consolidate, validated
from controllers.provisioning.instances import InstanceTypes
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec
from tests.unit.controllers.provisioning.observed import TYPES

from .fleet import A100, A100_4, A100_8, D2, D4, D8, D16, GPU, NOW, T4, T4_8, T4_16, T4_64, UP, Fleet, pod, pool

YOUNG = UP[:-1]
MODEL = "karpenter.azure.com/sku-gpu-name"


def shape(command: Command | None) -> tuple[tuple[str, ...], tuple[str, ...], float] | None:
    """The machines removed, the first size of each replacement, and the saving."""
    if command is None:
        return None
    sizes = sorted(one.instance_types[0] for one in command.replacements)
    return tuple(sorted(one.claim.name for one in command.machines)), tuple(sizes), round(command.saving, 3)


def naming(*models: str) -> dict[str, Any]:
    """The constraints of a pod that lists GPU models."""
    term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": [*models]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        # Delete: the pods fit on the others.
        (Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(1, 0)]), (("a",), (), 0.192)),
        (Fleet().add("a", D8, [(1, 0)]).add("b", D4, [(1, 0)]), (("a",), (), 0.384)),
        (
            Fleet().add("a", D8, [(1, 0)]).add("b", D8, [(1, 0)]).add("c", D8, [(4, 0)]),
            (("a", "b"), (), 0.768),
        ),
        (Fleet().add("a", T4, [(1, 1)]).add("b", T4_64, [(1, 1)]), (("a",), (), 0.526)),
        # Nothing fits, and nothing is cheaper.
        (Fleet().add("a", T4, [(1, 1)]).add("b", T4, [(1, 1)]), None),
        (Fleet().add("a", D2, [(1, 0)]).add("b", D2, [(1.5, 0)]), None),
        # Replace: one cheaper machine.
        (Fleet().add("a", D16, [(1, 0)]), (("a",), (D2,), 0.672)),
        (Fleet().add("a", T4_16, [(1, 1)]), (("a",), (T4,), 0.678)),
        # Without a pod that uses its GPU it is empty, which is not a matter of consolidation.
        (Fleet().add("a", T4, [(1, 0)]), None),
        (Fleet().add("a", A100_8, [(1, 1)] * 4), (("a",), (A100_4,), 18.078)),
        (Fleet().add("a", A100_8, [(1, 2), (1, 2)]), (("a",), (A100_4,), 18.078)),
        # Split: several machines that together cost at least a fifth less.
        (Fleet().add("a", A100_8, [(1, 1)] * 8), None),
        (Fleet().add("a", T4_64, [(3, 1)] * 4), (("a",), (T4,) * 4, 2.248)),
        # No other GPU model, unless the pod names several.
        (Fleet().add("a", A100, [(1, 1)]), None),
        (Fleet().add("a", A100, [(1, 1)]).add("b", T4_64, [(1, 1)] * 3, blocked="-"), None),
        (
            Fleet().add("a", A100, [pod("p", 1, 1, "a", **naming("A100", "T4"))]),
            (("a",), (T4,), 3.147),
        ),
        (Fleet().add("a", A100, [pod("p", 1, 1, "a", **naming("A100"))]), None),
        # Spot machines are removed, not replaced.
        (Fleet().add("a", D16, [(1, 0)], term="spot"), None),
        (Fleet().add("a", D4, [(1, 0)], term="spot").add("b", D4, [(2, 0)]), (("a",), (), 0.192)),
    ],
)
def test_moves(fleet: Fleet, expected: tuple[tuple[str, ...], tuple[str, ...], float] | None) -> None:
    """The command, and that it is still valid when nothing has changed."""
    found = consolidate(fleet.view())
    assert shape(found.command) == expected
    if found.command is not None:
        assert isinstance(validated(found.command, fleet.view()), Command)
        assert found.command.saving > 0


def test_a_pod_that_could_start_on_another_model_is_not_moved() -> None:
    """A machine with another model has room, which nothing but the constraints of the pod keeps kube-scheduler from."""

    def fleet(**spec: Any) -> Fleet:
        large = Fleet().add("a", A100_8, [pod("p", 1, 1, "a", **spec)])
        return large.add("b", T4_64, [(1, 1), (1, 1)], blocked="-")

    found = consolidate(fleet().view())
    assert found.command is None
    assert found.kept["a"].startswith(
        "not all pods would schedule, default/p => a machine with another GPU model or division of GPUs has room"
    )
    assert shape(consolidate(fleet(**naming("A100")).view()).command) == (("a",), (A100,), 29.097)
    assert shape(consolidate(fleet(**naming("A100", "T4")).view()).command) == (("a",), (), 32.77)


@pytest.mark.parametrize(("key", "kept"), [("topology.kubernetes.io/zone", True), ("", False)])
def test_a_spread_over_zones_is_not_given_up(key: str, *, kept: bool) -> None:
    """The zone of a machine that is removed is compared as long as its Node exists."""
    selector = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    spec = {"topologySpreadConstraints": [term]} if key else {}
    fleet = Fleet()
    for number, name in enumerate("abc", 1):
        zone = {"topology.kubernetes.io/zone": f"eastus-{number}"}
        own = pod(name, 1, 0, name, meta={"labels": {"app": "web"}}, **spec)
        fleet.add(name, D4, [own], labels=zone)
    command = consolidate(fleet.view()).command
    assert (command is None or bool(command.replacements)) is kept


def test_room_that_kube_scheduler_makes_for_a_pod_is_taken() -> None:
    """The only other machine with room is the one on which it preempts pods."""

    def fleet(node: str) -> Fleet:
        waiting = msgspec.structs.replace(pod("p", 1), waits_for="it preempts pods", nominated_node=node)
        return Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)], blocked="-").pending(waiting)

    assert shape(consolidate(fleet("other").view()).command) == (("a",), (), 0.192)
    found = consolidate(fleet("b").view())
    assert shape(found.command) != (("a",), (), 0.192)


def test_the_number_of_simulations_is_bounded_and_others_have_their_turn() -> None:
    """Two hundred machines, each with pods of its own, that no split makes cheap enough."""
    fleet = Fleet()
    for number in range(200):
        fleet.add(f"m{number:03}", A100_8, [(1 + number / 1000, 1)] * 8)
    first = consolidate(fleet.view())
    later = consolidate(fleet.view(now=NOW + timedelta(seconds=10)))
    tried = [
        {name for name, why in one.kept.items() if why == "Can't replace with a cheaper node"} for one in (first, later)
    ]
    assert (first.command, first.cut, later.cut) == (None, True, True)
    assert first.solves <= 200
    assert len(tried[0] | tried[1]) > len(tried[0])


def test_simulations_that_take_many_steps_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of the solver count as simulations do, so that no pod makes a search take minutes."""
    fleet = Fleet()
    for number in range(10):
        fleet.add(f"m{number:03}", A100_8, [(1 + number / 1000, 1)] * 8)
    all_of_them = consolidate(fleet.view())
    monkeypatch.setattr(simulation, "STEPS_A_UNIT", 1)
    found = consolidate(fleet.view())
    assert not all_of_them.cut
    assert found.cut
    assert found.solves < all_of_them.solves / 2


@pytest.mark.parametrize(
    ("policy", "size", "replaced"),
    [
        ("WhenEmpty", D16, False),
        ("WhenEmpty", T4_16, False),
        (None, D16, True),
        (None, T4_16, False),
        ("WhenEmptyOrUnderutilized", T4_16, True),
        ("Balanced", T4_16, True),
    ],
)
def test_without_a_policy_machines_with_gpus_are_only_removed_when_empty(
    policy: str | None, size: str, *, replaced: bool
) -> None:
    """One machine that is far too large."""
    found = consolidate(Fleet(pool(policy=policy)).add("a", size, [(1, 1 if GPU and size == T4_16 else 0)]).view())
    assert (found.command is not None) is replaced
    if not replaced:
        assert found.kept == {"a": 'NodePool "gpu" has consolidation policy WhenEmpty, but node is not empty'}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"up": YOUNG}, "NodeClaim is not Consolidatable: its pods changed within consolidateAfter 5m"),
        ({"up": UP[:2]}, "Node isn't initialized"),
        ({"blocked": "Pod has a job"}, "Pod has a job"),
        ({"nominated_seconds": 3.0}, "Node is nominated for a pending pod"),
        ({"labels": {labels.CAPACITY_TYPE: ""}}, f'Node does not have label "{labels.CAPACITY_TYPE}"'),
        ({"size": "Standard_X", "pods": [(1, 1)]}, 'Instance Type "Standard_X" not found'),
        ({"term": "spot"}, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"),
        ({"pods": [(0.1, 0)], "size": D2}, "Can't replace with a cheaper node"),
        (
            {"pods": [pod("p", 1, on="a", meta={"ownerReferences": []})]},
            "Pod would not be created again elsewhere (Pod=default/p)",
        ),
        (
            {"pods": [pod("p", 1, on="a", nodeSelector={"disk": "fast"})]},
            "not all pods would schedule",
        ),
        (
            {"pods": [pod("p", 1, on="a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])]},
            "not all pods would schedule, default/p => its volumes or its devices have not been read yet",
        ),
    ],
)
def test_why_a_machine_is_kept(changed: dict[str, Any], why: str) -> None:
    """A machine that would be replaced otherwise."""
    found = consolidate(Fleet().add("a", **{"size": D16, "pods": [(1, 0)], **changed}).view())
    assert (found.command, found.kept) == (None, {"a": why})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"disruption": {"consolidateAfter": "Never"}}, 'NodePool "gpu" has consolidation disabled'),
        ({"replicas": 1}, 'NodePool "gpu" is static'),
        (
            {"disruption": {"budgets": [{"nodes": "0"}]}},
            "No allowed disruptions for disruption reason Underutilized due to blocking budget",
        ),
    ],
)
def test_why_a_nodepool_keeps_its_machines(spec: dict[str, Any], why: str) -> None:
    """A machine that would be replaced otherwise."""
    found = consolidate(Fleet(pool(**spec)).add("a", D16, [(1, 0)]).view())
    assert (found.command, found.kept) == (None, {"a": why})


@pytest.mark.parametrize(
    "room",
    [
        {"up": YOUNG},
        {"up": UP[:2]},
        {"leaving": True},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    ],
)
def test_a_machine_that_takes_no_pods(room: dict[str, Any]) -> None:
    """Young, not initialized, leaving or tainted: the pods of the other one do not fit there."""
    assert consolidate(Fleet().add("a", D2, [(1, 0)]).add("b", D16, [], **room).view()).command is None
    assert consolidate(Fleet().add("a", D2, [(1, 0)]).add("b", D16).view()).command is not None


def test_room_that_a_pending_pod_needs_is_not_used_twice() -> None:
    """The pending pod fits on one of the machines, which is then neither candidate nor destination."""
    fleet = Fleet().add("a", D2, [(0.2, 0)]).add("b", D2, [(0.2, 0)])
    assert shape(consolidate(fleet.view()).command) == (("a",), (), 0.096)
    found = consolidate(fleet.pending(pod("p", 1)).view())
    assert found.command is None
    assert sorted(found.kept.values()) == ["Can't replace with a cheaper node", "Node is nominated for a pending pod"]


@pytest.mark.parametrize("name", ["default", "other"])
def test_reserved_machines_are_kept(name: str) -> None:
    """Azure bills a capacity reservation with or without its machine: its list price is saved nowhere."""
    group = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/capacityReservationGroups/a100"
    spec = NodeClassSpec(capacity_reservation_group_id=group)
    classes = {name: AgentPoolNodeClass(metadata=ObjectMeta(name=name), spec=spec)}
    view = Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)]).view()
    observed = msgspec.structs.replace(view.observed, node_classes=classes)
    found = consolidate(msgspec.structs.replace(view, observed=observed))
    kept = {"its capacity is reserved and paid for by a100"}
    assert (found.command is None, kept <= {*found.kept.values()}) == (name == "default", name == "default")


def test_the_budgets_bound_a_command() -> None:
    """Three machines could go, the budgets allow one of the first NodePool and any number of the second one."""
    fleet = Fleet(pool("gpu", disruption={"budgets": [{"nodes": "1"}]}), pool("cpu"))
    fleet.add("a", D4, [(0.5, 0)]).add("b", D4, [(0.5, 0)]).add("c", D4, [(0.5, 0)], of="cpu").add("d", D16, [(10, 0)])
    command = consolidate(fleet.view(budgets={"gpu": 1, "cpu": None})).command
    assert shape(command) == (("a", "c"), (), 0.384)
    assert consolidate(fleet.view(budgets={"gpu": 0})).command is None


def test_several_machines_become_one() -> None:
    """Four machines with one GPU each cost more than one machine with four."""
    types = tuple(kind for kind in TYPES.types if kind.name not in (T4, T4_8))
    fleet = Fleet(types=InstanceTypes(types=types, well_known=TYPES.well_known, cloud=TYPES.cloud))
    for name in "abcd":
        fleet.add(name, T4_16, [(10, 1)])
    command = consolidate(fleet.view()).command
    assert shape(command) == (("a", "b", "c", "d"), (T4_64,), 0.464)


@pytest.mark.parametrize(
    ("others", "accepted"),
    [([], True), ([(0.1, 0)] * 2, True), ([(0.1, 0)] * 40, True)],
)
def test_balanced_compares_saving_and_disruption(others: list[tuple[float, int]], *, accepted: bool) -> None:
    """A machine that costs much of its NodePool for few pods is replaced."""
    fleet = Fleet(pool(policy="Balanced")).add("a", D16, [(1, 0)]).add("b", D16, [(14, 0), *others])
    assert (consolidate(fleet.view()).command is not None) is accepted


def test_balanced_refuses_a_small_saving_for_many_pods() -> None:
    """The same move is made without the policy Balanced."""

    def fleet(policy: str) -> Fleet:
        return Fleet(pool(policy=policy)).add("a", D4, [(0.1, 0)] * 20).add("b", D16, [(13, 0)])

    assert shape(consolidate(fleet("WhenEmptyOrUnderutilized").view()).command) == (("a",), (), 0.192)
    assert consolidate(fleet("Balanced").view()).command is None


def test_a_replacement_that_costs_nothing() -> None:
    """Reserved instances are paid without machines, too: their price can be 0."""
    free = tuple(
        msgspec.structs.replace(o, price=0.0, order_price=0.0) if o.capacity_type == "on-demand" else o
        for o in next(kind.offerings for kind in TYPES.types if kind.name == D2)
    )
    types = tuple(msgspec.structs.replace(kind, offerings=free) if kind.name == D2 else kind for kind in TYPES.types)
    fleet = Fleet(types=InstanceTypes(types=types, well_known=TYPES.well_known, cloud=TYPES.cloud))
    assert shape(consolidate(fleet.add("a", D16, [(1, 0)]).view()).command) == (("a",), (D2,), 0.768)


def test_a_price_that_is_not_known() -> None:
    """No move, and the text names size and region."""
    types = tuple(
        msgspec.structs.replace(kind, offerings=tuple(msgspec.structs.replace(o, price=None) for o in kind.offerings))
        for kind in TYPES.types
    )
    found = consolidate(
        Fleet(types=InstanceTypes(types=types, well_known=TYPES.well_known, cloud=TYPES.cloud))
        .add("a", D16, [(1, 0)])
        .view()
    )
    assert found.kept == {"a": f"price of {D16} in eastus is unknown"}


def test_limits_of_the_nodepool_do_not_count_what_is_removed() -> None:
    """The new machine takes the part of the old one in the limits."""
    fleet = Fleet(pool(limits={"cpu": "16"})).add("a", D16, [(1, 0)])
    assert shape(consolidate(fleet.view()).command) == (("a",), (D2,), 0.672)
    assert consolidate(fleet.view(max_new=0)).command is None


def test_the_dearest_size_of_a_replacement_costs_less() -> None:
    """Every size that a replacement lists is cheaper than the old machine."""
    command = consolidate(Fleet().add("a", T4_16, [(1, 1)]).view()).command
    assert command is not None
    prices = {kind.name: kind.offerings[0].price or 0 for kind in TYPES.types}
    for one in command.replacements:
        assert all(prices[name] < prices[T4_16] for name in one.instance_types)
        assert one.requirements[labels.INSTANCE_TYPE].values == frozenset(one.instance_types)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"blocked": "Pod has a job"}, "churn: NodeClaim a: Pod has a job"),
        ({"nominated_seconds": 1.0}, "churn: NodeClaim a: Node is nominated for a pending pod"),
        ({"leaving": True}, "churn: NodeClaim a: it is no longer a candidate"),
        ({"pods": [(1, 0), (1, 0)]}, "churn: NodeClaim a: its pods have changed"),
    ],
)
def test_a_command_whose_machine_changes_is_given_up(changed: dict[str, Any], why: str) -> None:
    """Between the decision and the second look."""
    known: dict[str, Any] = {"size": D4, "pods": [(1, 0)]}
    command = consolidate(Fleet().add("a", **known).add("b", D4, [(2, 0)]).view()).command
    assert command is not None
    assert shape(command) == (("a",), (), 0.192)
    assert validated(command, Fleet().add("a", **{**known, **changed}).add("b", D4, [(2, 0)]).view()) == why


def test_a_command_whose_room_is_taken_is_given_up() -> None:
    """Another pod was bound to the destination; or the budget is used up."""
    command = consolidate(Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)]).view()).command
    assert shape(command) == (("a",), (), 0.192)
    assert command is not None
    later = Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(3, 0)])
    assert str(validated(command, later.view())).startswith("scheduling: not all pods would schedule, default/a-0 => ")
    budget = "budget: NodePool gpu allows 0 more disruptions, not 1"
    assert validated(command, Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)]).view(budgets={"gpu": 0})) == budget
