"""Checks a scheduling decision against its scenario, independently of the solver.

A valid decision answers each pod once, and whatever size and zone its NodeClaims turn out to have, kube-scheduler binds
each pod to the machine that the decision names, whatever the order in which it tries them. The limits and `minValues`
of NodePools hold.
"""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from provisioner.api.quantity import parse_quantity

from .binding import Cluster, Pod, shortages
from .machines import NODEPOOL, Choice, choices, made, outcomes
from .predicates import matches_node


def pods_of(scenario: dict[str, Any]) -> dict[str, Pod]:
    """The pending pods by `namespace/name`."""
    return {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in scenario["pods"]}


def violations(scenario: dict[str, Any], decision: dict[str, Any], seed: int = 0) -> list[str]:
    """What is wrong with a decision; empty if it is valid. `seed`: draws what NodeClaims with a choice become."""
    pods = pods_of(scenario)
    found = [*_answers(pods, decision), *_limits(scenario, decision), *_min_values(scenario, decision)]
    found += _every_type(scenario, decision, pods)
    if found:
        return found
    for machines in outcomes(scenario, decision, seed):
        for machine in machines:
            if short := shortages(machine, pods):
                found.append(f"{machine.name} lacks {short}")
        found += Cluster(scenario, machines).bind_all(pods)
        if found:
            break
    return found


def _answers(pods: dict[str, Pod], decision: dict[str, Any]) -> Iterator[str]:
    placed = Counter(name for claim in decision["newNodeClaims"] for name in claim["pods"])
    placed.update(name for names in decision["existing"].values() for name in names)
    placed.update(decision["errors"].keys())
    for name in pods:
        if placed[name] != 1:
            yield f"{name} is answered {placed[name]} times"
    yield from (f"{name} is not part of the scenario" for name in placed if name not in pods)


def _every_type(scenario: dict[str, Any], decision: dict[str, Any], pods: dict[str, Pod]) -> Iterator[str]:
    """Each instance type of a NodeClaim has the resources, whether or not it can be bought now."""
    for claim in decision["newNodeClaims"]:
        known = {name: pods[name] for name in claim["pods"] if name in pods}
        for name in claim["instanceTypes"]:
            term = next(one.capacity_type for one in choices(scenario, claim))
            machine = made(scenario, claim, Choice(0.0, name, "", term), name)
            if short := shortages(machine._replace(pods=[*known]), known):
                yield f"{name} lacks {short} for {len(known)} pods"


def _limits(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[str]:
    for name, resource, used, limit in used_limits(scenario, decision):
        if used > limit and any(claim["nodePool"] == name for claim in decision["newNodeClaims"]):
            yield f"NodePool {name} uses {used} of {limit} {resource}"


def used_limits(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[tuple[str, str, Decimal, Decimal]]:
    """NodePool, resource, what its machines have at most, and its limit."""
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    for pool in scenario["nodePools"]:
        name = pool["metadata"]["name"]
        for resource, limit in pool["spec"].get("limits", {}).items():
            used = Decimal(0)
            for entry in scenario["nodes"]:
                if entry["node"]["metadata"]["labels"].get(NODEPOOL) == name:
                    used += parse_quantity(entry["node"]["status"]["capacity"].get(resource, "0"))
            for claim in decision["newNodeClaims"]:
                if claim["nodePool"] == name:
                    capacities = [types[one]["capacity"] for one in claim["instanceTypes"]]
                    used += max(parse_quantity(one.get(resource, "0")) for one in capacities)
            yield name, resource, used, parse_quantity(limit)


def _min_values(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[str]:
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    pools = {one["metadata"]["name"]: one for one in scenario["nodePools"]}
    for claim in decision["newNodeClaims"]:
        for wanted in pools[claim["nodePool"]]["spec"]["template"]["spec"]["requirements"]:
            if least := wanted.get("minValues", 0):
                key = wanted["key"]
                also = [one for one in claim["requirements"] if one["key"] == key]
                values = {
                    value
                    for name in claim["instanceTypes"]
                    for one in types[name]["requirements"]
                    if one["key"] == key
                    for value in one.get("values", [])
                    if matches_node({key: value}, also)
                }
                if len(values) < least:
                    yield f"{len(values)} values of {key}, minValues is {least}"
