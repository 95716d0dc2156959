"""The machines of a decision as they may turn out: a NodeClaim allows several sizes, zones and capacity types.

Each outcome gives every machine one of them, with the labels, taints and free resources that its Node will have.
"""

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from provisioner.api.quantity import parse_quantity

from .predicates import matches_node, tolerates
from .sizes import CAPACITY_TYPE, SPOT_LABEL, SPOT_TAINT, ZONE

HOSTNAME = "kubernetes.io/hostname"
NODEPOOL = "karpenter.sh/nodepool"
OUTCOMES = 6
Amounts = Counter[str]


class Machine(NamedTuple):
    """`free`: what pods may still request, `pods`: the pods that the decision places, `running`: those there already.

    `node_pool` and `price` in USD an hour are set for new machines only.
    """

    name: str
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    free: Amounts
    pods: list[str]
    running: list[dict[str, Any]]
    node_pool: str = ""
    price: float = 0.0


class Choice(NamedTuple):
    """One way to buy a machine."""

    price: float
    type_name: str
    zone: str
    capacity_type: str


def requests(pod: dict[str, Any]) -> Amounts:
    """What a pod requests, itself counted as one of `pods`."""
    total: Amounts = Counter({"pods": Decimal(1)})
    for container in pod["spec"]["containers"]:
        total.update({n: parse_quantity(q) for n, q in container["resources"].get("requests", {}).items()})
    return total


def choices(scenario: dict[str, Any], claim: dict[str, Any]) -> list[Choice]:
    """The available offerings that a NodeClaim allows, cheapest first."""
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    found = [
        Choice(offering["Price"], name, offering["Zone"], offering["CapacityType"])
        for name in claim["instanceTypes"]
        for offering in types[name]["offerings"]
        if offering["Available"]
        and matches_node(
            {ZONE: offering["Zone"], CAPACITY_TYPE: offering["CapacityType"], **_on_spot(offering["CapacityType"])},
            [one for one in claim["requirements"] if one["key"] in (ZONE, CAPACITY_TYPE, SPOT_LABEL)],
        )
    ]
    return sorted(found)


def _on_spot(capacity_type: str) -> dict[str, str]:
    return {SPOT_LABEL: "spot"} if capacity_type == "spot" else {}


def outcomes(scenario: dict[str, Any], decision: dict[str, Any], seed: int) -> Iterator[list[Machine]]:
    """The machines if all NodeClaims become the cheapest ones that they allow, and some drawn outcomes."""
    rng = random.Random(seed)
    offered = [choices(scenario, claim) for claim in decision["newNodeClaims"]]
    existing = [_existing(scenario, entry, decision) for entry in scenario["nodes"]]
    number = 1 if all(len(one) == 1 for one in offered) else OUTCOMES
    for outcome in range(number):
        chosen = [rng.choice(one) if outcome else one[0] for one in offered]
        claims = enumerate(zip(decision["newNodeClaims"], chosen, strict=True))
        yield existing + [made(scenario, claim, choice, f"new-{index}") for index, (claim, choice) in claims]


def made(scenario: dict[str, Any], claim: dict[str, Any], choice: Choice, name: str) -> Machine:
    """The machine that a NodeClaim becomes, with the pods that the decision places."""
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    template = next(p for p in scenario["nodePools"] if p["metadata"]["name"] == claim["nodePool"])["spec"]["template"]
    kind = types[choice.type_name]
    labels = {
        **{one["key"]: one["values"][0] for one in kind["requirements"] if one["operator"] == "In"},
        **{one["key"]: sorted(one["values"])[0] for one in claim["requirements"] if one["operator"] == "In"},
        **template["metadata"].get("labels", {}),
        "node.kubernetes.io/instance-type": choice.type_name,
        ZONE: choice.zone,
        CAPACITY_TYPE: choice.capacity_type,
        NODEPOOL: claim["nodePool"],
        HOSTNAME: name,
    }
    for one in kind["requirements"]:
        # What the type fixes is a fact of the machine, whatever the NodeClaim requires.
        if one["operator"] == "In" and len(one["values"]) == 1:
            labels[one["key"]] = one["values"][0]
        elif one["operator"] == "DoesNotExist":
            labels.pop(one["key"], None)
    taints = [*template["spec"].get("taints", [])]
    if choice.capacity_type == "spot":
        labels |= _on_spot(choice.capacity_type)
        taints.append(SPOT_TAINT)
    free: Amounts = Counter({n: parse_quantity(q) for n, q in kind["capacity"].items()})
    free.subtract({n: parse_quantity(q) for n, q in kind["overhead"].items()})
    for daemon in _daemons(scenario, labels, taints):
        free.subtract(requests(daemon))
    pods, node_pool = claim["pods"], claim["nodePool"]
    return Machine(name, labels, taints, free, pods, [], node_pool, choice.price)


def _existing(scenario: dict[str, Any], entry: dict[str, Any], decision: dict[str, Any]) -> Machine:
    node = entry["node"]
    name, labels, taints = node["metadata"]["name"], node["metadata"]["labels"], node["spec"].get("taints", [])
    free: Amounts = Counter({n: parse_quantity(q) for n, q in node["status"]["allocatable"].items()})
    for pod in (*entry["pods"], *_daemons(scenario, labels, taints)):
        free.subtract(requests(pod))
    return Machine(name, labels, taints, free, decision["existing"].get(name, []), entry["pods"])


def _daemons(
    scenario: dict[str, Any], labels: dict[str, str], taints: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The pods of DaemonSets that will run on a machine with these labels and taints; they ignore preferences."""
    for pod in scenario["daemonPods"]:
        if tolerates(pod["spec"], taints) and matches_node(labels, [], pod["spec"]):
            yield pod
