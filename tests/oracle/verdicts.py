"""Compares a decision of this program with several runs of Karpenter's scheduler on the same scenario.

The rules are those of docs/references/karpenter.md#comparison-of-scheduling. A run of Karpenter counts only if it is
valid itself; its price counts only if it keeps the weights of NodePools and honours no fewer preferences.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from provisioner.api.quantity import parse_quantity

from .binding import REQUIRED, Cluster, Pod
from .machines import Choice, Machine, choices, made, outcomes, requests
from .predicates import matches_node, selects, tolerates
from .sizes import SPOT_LABEL, SPOT_TAINT
from .validity import pods_of, used_limits, violations

TOLERATED_PRICE = 1.05
Scenario = dict[str, Any]
Decision = dict[str, Any]


class Verdict(NamedTuple):
    """`wrong`: what breaks a promise, by kind. `ratio`: price divided by that of the best run, None if none compares.

    `runs`: how many runs of Karpenter were valid.
    """

    wrong: dict[str, list[str]]
    ratio: float | None
    runs: int


def for_karpenter(scenario: Scenario) -> Scenario:
    """The scenario in Karpenter's terms: it has no taints of an offering, so that pods exclude spot by its label."""
    kept = [_without_spot(pod) for pod in scenario["pods"]]
    return {**scenario, "pods": kept}


def compared(scenario: Scenario, ours: Decision, theirs: list[Decision], seed: int) -> Verdict:
    """The verdict on one scenario."""
    wrong: dict[str, list[str]] = {}
    if found := violations(scenario, ours, seed):
        wrong["invalid"] = found
    valid = [run for run in theirs if not violations(scenario, run, seed)]
    placed = _placed(ours)
    most = max((len(_placed(run)) for run in valid), default=0)
    if len(placed) < most:
        always = set.intersection(*(_placed(run) for run in valid)) - placed
        wrong["left"] = [f"{len(placed)} pods placed, Karpenter places {most}; pending {sorted(always)[:3]}"]
    if found := [*lighter(scenario, ours)]:
        wrong["weight"] = found
    paid = price(scenario, ours)
    if found := [*_alone(scenario, ours)]:
        wrong["alone"] = found
    honoured = preferences(scenario, ours)
    prices = [
        price(scenario, run)
        for run in valid
        if len(_placed(run)) >= len(placed) and preferences(scenario, run) >= honoured and not [*lighter(scenario, run)]
    ]
    ratio = None
    if prices and "left" not in wrong:
        best = min(prices)
        ratio = paid / best if best else (1.0 if paid < 1e-9 else float("inf"))
        if ratio > TOLERATED_PRICE:
            wrong["price"] = [f"{paid:.4f} USD an hour, Karpenter pays {best:.4f}"]
    return Verdict(wrong, ratio, len(valid))


def price(scenario: Scenario, decision: Decision) -> float:
    """USD an hour of the cheapest offering that each NodeClaim allows."""
    return sum(choices(scenario, claim)[0].price for claim in decision["newNodeClaims"])


def preferences(scenario: Scenario, decision: Decision) -> int:
    """How many preferences hold of pods that the decision places, if its NodeClaims become the cheapest machines."""
    pods = pods_of(scenario)
    machines = next(outcomes(scenario, decision, 0))
    cluster = Cluster(scenario, machines)
    cluster.bound += [(one, pods[name]) for one in machines for name in one.pods]
    return sum(_honoured(cluster, machine, pods[name]) for machine in machines for name in machine.pods)


def _honoured(cluster: Cluster, machine: Machine, pod: Pod) -> int:
    affinity, found = pod["spec"].get("affinity", {}), 0
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for term in affinity.get("nodeAffinity", {}).get(preferred, []):
        found += matches_node(machine.labels, term["preference"]["matchExpressions"])
    for kind, wanted in (("podAffinity", True), ("podAntiAffinity", False)):
        for weighted in affinity.get(kind, {}).get(preferred, []):
            term = weighted["podAffinityTerm"]
            key = term["topologyKey"]
            near = any(
                other.labels.get(key) == machine.labels.get(key) and cluster.selected(term, pod, present)
                for other, present in cluster.bound
                if present is not pod
            )
            found += near is wanted
    for one in pod["spec"].get("topologySpreadConstraints", []):
        if one["whenUnsatisfiable"] == "ScheduleAnyway":
            hard = {**one, "whenUnsatisfiable": "DoNotSchedule"}
            found += not cluster.skewed_after(machine, pod, hard)
    found += all(taint["effect"] != "PreferNoSchedule" for taint in machine.taints)
    return found


def lighter(scenario: Scenario, decision: Decision) -> Iterator[str]:
    """New machines for whose pods a heavier NodePool has a machine within its limits.

    Domains of topology constraints and preferences can exclude the heavier NodePool, so that such pods do not count.
    """
    pods = pods_of(scenario)
    weights = {one["metadata"]["name"]: one["spec"].get("weight", 0) for one in scenario["nodePools"]}
    left = _remaining(scenario, decision)
    for claim in decision["newNodeClaims"]:
        own = weights[claim["nodePool"]]
        heavier = [pool for pool in scenario["nodePools"] if weights[pool["metadata"]["name"]] > own]
        if heavier and all(
            not _is_constrained(scenario, pods[name])
            and any(_takes(scenario, pool, pods[name], left) for pool in heavier)
            for name in claim["pods"]
        ):
            yield f"{claim['nodePool']} of weight {own} for {claim['pods'][:2]}, a heavier NodePool takes them"


def _alone(scenario: Scenario, decision: Decision) -> Iterator[str]:
    """New machines that cost more than one machine for each of their pods from the same NodePool."""
    pods = pods_of(scenario)
    pools = {one["metadata"]["name"]: one for one in scenario["nodePools"]}
    left = _remaining(scenario, decision)
    for claim in decision["newNodeClaims"]:
        if any(_is_constrained(scenario, pods[name]) for name in claim["pods"]) or pools[claim["nodePool"]]["spec"].get(
            "limits"
        ):
            continue
        paid = choices(scenario, claim)[0].price
        single = [_cheapest(scenario, pools[claim["nodePool"]], pods[name], left) for name in claim["pods"]]
        if None not in single and paid > TOLERATED_PRICE * sum(one for one in single if one is not None) + 1e-9:
            yield f"{paid:.4f} USD an hour for {claim['pods'][:3]}, {single} on machines of their own"


def _is_constrained(scenario: Scenario, pod: Pod) -> bool:
    """Whether other pods restrict where a pod goes, or a preference does."""
    affinity = pod["spec"].get("affinity", {})
    if pod["spec"].get("topologySpreadConstraints") or any(
        affinity.get(kind) for kind in ("podAffinity", "podAntiAffinity")
    ):
        return True
    if affinity.get("nodeAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution"):
        return True
    every = [*scenario["pods"], *(pod for entry in scenario["nodes"] for pod in entry["pods"])]
    if any(one["effect"] == "PreferNoSchedule" for p in scenario["nodePools"] for one in _taints(p)):
        return True
    labels = pod["metadata"]["labels"]
    return any(
        selects(term.get("podAffinityTerm", term)["labelSelector"], labels)
        for other in every
        for kind in ("podAffinity", "podAntiAffinity")
        for terms in other["spec"].get("affinity", {}).get(kind, {}).values()
        for term in terms
    ) or any(
        selects(one["labelSelector"], labels)
        for other in every
        for one in other["spec"].get("topologySpreadConstraints", [])
    )


def _remaining(scenario: Scenario, decision: Decision) -> dict[tuple[str, str], Any]:
    return {(name, resource): limit - used for name, resource, used, limit in used_limits(scenario, decision)}


def _takes(scenario: Scenario, pool: dict[str, Any], pod: Pod, left: dict[tuple[str, str], Any]) -> bool:
    return _cheapest(scenario, pool, pod, left) is not None


def _cheapest(scenario: Scenario, pool: dict[str, Any], pod: Pod, left: dict[tuple[str, str], Any]) -> float | None:
    """The price of the cheapest machine of a NodePool for one pod within what remains of the limits."""
    wanted = pool["spec"]["template"]["spec"]["requirements"]
    if any("minValues" in one for one in wanted):
        return None
    best = None
    for kind in scenario["instanceTypes"]:
        capacity = kind["capacity"]
        if any(
            parse_quantity(capacity.get(resource, "0")) > amount
            for (name, resource), amount in left.items()
            if name == pool["metadata"]["name"]
        ):
            continue
        for offering in kind["offerings"]:
            if not offering["Available"] or (best is not None and offering["Price"] >= best):
                continue
            choice = Choice(offering["Price"], kind["name"], offering["Zone"], offering["CapacityType"])
            claim = {"nodePool": pool["metadata"]["name"], "requirements": wanted, "pods": []}
            machine = made(scenario, claim, choice, "alone")
            if (
                matches_node(machine.labels, wanted)
                and matches_node(machine.labels, [], pod["spec"])
                and tolerates(pod["spec"], machine.taints)
                and all(amount <= machine.free.get(name, 0) for name, amount in requests(pod).items() if amount)
            ):
                best = offering["Price"]
    return best


def _taints(pool: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pool["spec"]["template"]["spec"].get("taints", [])
    return found


def _placed(decision: Decision) -> set[str]:
    return {name for claim in decision["newNodeClaims"] for name in claim["pods"]} | {
        name for names in decision["existing"].values() for name in names
    }


def _without_spot(pod: Pod) -> Pod:
    if tolerates(pod["spec"], [SPOT_TAINT]):
        return pod
    excluded = {"key": SPOT_LABEL, "operator": "DoesNotExist"}
    affinity = pod["spec"].get("affinity", {})
    node_affinity = affinity.get("nodeAffinity", {})
    terms = node_affinity.get(REQUIRED, {"nodeSelectorTerms": [{"matchExpressions": []}]})["nodeSelectorTerms"]
    extended = {"nodeSelectorTerms": [{"matchExpressions": [*t["matchExpressions"], excluded]} for t in terms]}
    return {
        **pod,
        "spec": {**pod["spec"], "affinity": {**affinity, "nodeAffinity": {**node_affinity, REQUIRED: extended}}},
    }
