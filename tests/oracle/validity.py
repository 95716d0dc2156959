"""Checks a scheduling decision against its scenario, independently of the solver.

The check knows only what kube-scheduler would enforce when the machines exist: one place for each pod, taints, node
selectors, resources, and spread and anti-affinity over hostnames and fixed zones; besides the limits of NodePools.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from provisioner.api.quantity import parse_quantity

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def violations(scenario: dict[str, Any], decision: dict[str, Any]) -> list[str]:
    """What is wrong with a decision; empty if it is valid."""
    pods = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in scenario["pods"]}
    machines = [*_new(scenario, decision), *_existing(scenario, decision)]
    found = list(_places(pods, decision))
    for machine in machines:
        found += _machine(machine, pods)
    found += _topology(machines, pods)
    found += _limits(scenario, decision)
    return found


def _new(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[dict[str, Any]]:
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    pools = {one["metadata"]["name"]: one for one in scenario["nodePools"]}
    daemons = [r for p in scenario["daemonPods"] for r in [_requests(p)]]
    for number, claim in enumerate(decision["newNodeClaims"]):
        template = pools[claim["nodePool"]]["spec"]["template"]
        required = {r["key"]: r for r in claim["requirements"]}
        for name in claim["instanceTypes"]:
            kind = types[name]
            labels = {r["key"]: r.get("values", []) for r in kind["requirements"]}
            for key, wanted in required.items():
                if wanted["operator"] == "In":
                    labels[key] = [v for v in labels.get(key, wanted["values"]) if v in wanted["values"]]
            labels.update({key: [value] for key, value in template["metadata"].get("labels", {}).items()})
            free = Counter({n: parse_quantity(q) for n, q in kind["capacity"].items()})
            free.subtract({n: parse_quantity(q) for n, q in kind["overhead"].items()})
            for daemon in daemons:
                free.subtract(daemon)
            yield {
                "name": f"new-{number}/{name}",
                "host": f"new-{number}",
                "labels": labels,
                "taints": template["spec"].get("taints", []),
                "free": free,
                "pods": claim["pods"],
                "chosen": name == claim["instanceTypes"][0],
                "running": [],
            }


def _existing(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in scenario["nodes"]:
        node = entry["node"]
        name = node["metadata"]["name"]
        free = Counter({n: parse_quantity(q) for n, q in node["status"]["allocatable"].items()})
        for pod in entry["pods"]:
            free.subtract(_requests(pod))
        yield {
            "name": name,
            "host": name,
            "labels": {key: [value] for key, value in node["metadata"]["labels"].items()},
            "taints": node.get("spec", {}).get("taints", []),
            "free": free,
            "pods": decision["existing"].get(name, []),
            "chosen": True,
            "running": entry["pods"],
        }


def _places(pods: dict[str, Any], decision: dict[str, Any]) -> Iterator[str]:
    placed = Counter(name for claim in decision["newNodeClaims"] for name in claim["pods"])
    placed.update(name for names in decision["existing"].values() for name in names)
    placed.update(decision["errors"].keys())
    for name in pods:
        if placed[name] != 1:
            yield f"{name} is answered {placed[name]} times"
    yield from (f"{name} is not part of the scenario" for name in placed if name not in pods)


def _machine(machine: dict[str, Any], pods: dict[str, Any]) -> Iterator[str]:
    free = Counter(machine["free"])
    for name in machine["pods"]:
        spec = pods[name]["spec"]
        free.subtract(_requests(pods[name]))
        for taint in machine["taints"]:
            if taint["effect"] != "PreferNoSchedule" and not any(
                t.get("key") in (None, taint["key"]) for t in spec.get("tolerations", [])
            ):
                yield f"{name} does not tolerate {taint['key']} of {machine['name']}"
        for key, value in spec.get("nodeSelector", {}).items():
            if machine["labels"].get(key, []) != [value]:
                yield f"{name} selects {key}={value}, {machine['name']} may have {machine['labels'].get(key)}"
    short = {n: amount for n, amount in free.items() if amount < 0}
    if machine["pods"] and short:
        yield f"{machine['name']} lacks {short}"


def _topology(machines: list[dict[str, Any]], pods: dict[str, Any]) -> Iterator[str]:
    chosen = [machine for machine in machines if machine["chosen"]]
    by_app: dict[str, list[tuple[str, str, dict[str, Any]]]] = defaultdict(list)
    for machine in chosen:
        zones = machine["labels"].get(ZONE, [])
        zone = zones[0] if len(zones) == 1 else ""
        for name in machine["pods"]:
            by_app[pods[name]["metadata"]["labels"]["app"]].append((machine["host"], zone, pods[name]["spec"]))
    for app, places in by_app.items():
        spec = places[0][2]
        hosts, zones = Counter(host for host, _, _ in places), Counter(zone for _, zone, _ in places)
        for one in spec.get("topologySpreadConstraints", []):
            if one["topologyKey"] == HOSTNAME and max(hosts.values()) > one["maxSkew"]:
                yield f"{app}: {max(hosts.values())} pods on one host"
            if one["topologyKey"] == ZONE and "" in zones:
                yield f"{app}: spread over zones, but a machine may be in several"
        terms = spec.get("affinity", {})
        for term in terms.get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", []):
            domains = hosts if term["topologyKey"] == HOSTNAME else zones
            if max(domains.values()) > 1 or (term["topologyKey"] == ZONE and "" in zones):
                yield f"{app}: anti-affinity over {term['topologyKey']} is broken: {dict(domains)}"
        for term in terms.get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", []):
            if term["topologyKey"] == ZONE and (len(zones) > 1 or "" in zones):
                yield f"{app}: affinity over zones is broken: {dict(zones)}"


def _limits(scenario: dict[str, Any], decision: dict[str, Any]) -> Iterator[str]:
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    for pool in scenario["nodePools"]:
        name = pool["metadata"]["name"]
        used: Counter[str] = Counter()
        for claim in decision["newNodeClaims"]:
            if claim["nodePool"] == name:
                capacities = [types[one]["capacity"] for one in claim["instanceTypes"]]
                for resource in {n for capacity in capacities for n in capacity}:
                    used[resource] += max(parse_quantity(c.get(resource, "0")) for c in capacities)  # type: ignore[assignment]
        for resource, limit in pool["spec"].get("limits", {}).items():
            if used[resource] > parse_quantity(limit):
                yield f"NodePool {name} uses {used[resource]} of {limit} {resource}"


def _requests(pod: dict[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter({"pods": Decimal(1)})
    for container in pod["spec"]["containers"]:
        total.update({n: parse_quantity(q) for n, q in container["resources"].get("requests", {}).items()})
    return total
