"""Carries out the commands of disruption on a drawn cluster, and checks them independently of what decided them.

The check knows budgets, what blocks the disruption of a machine, and what kube-scheduler would enforce for the pods
that move: resources, node selectors, taints, and anti-affinity over hostnames.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from .disruption_scenarios import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NOW,
    POOL,
    ZONE,
    bind,
    free,
    is_active,
    machine,
    requests,
)
from .sizes import GPU, MODEL

TRIES_MAX = 20_000


class NoPlaceError(Exception):
    """A pod that moves finds no place; the message names it."""


def price(scenario: dict[str, Any]) -> float:
    """USD an hour of all machines."""
    prices = {
        (kind["name"], one["Zone"], one["CapacityType"]): one["Price"]
        for kind in scenario["instanceTypes"]
        for one in kind["offerings"]
    }
    return sum(
        prices[labels[INSTANCE_TYPE], labels[ZONE], labels[CAPACITY_TYPE]] for labels in map(_labels, scenario["nodes"])
    )


def violations(scenario: dict[str, Any], answer: dict[str, Any], *, lenient: bool = False) -> list[str]:
    """What is wrong with the commands of one pass; empty if they may be carried out. `lenient`: as for `apply`."""
    entries = {_name(entry): entry for entry in scenario["nodes"]}
    found, gone = list[str](), set[str]()
    for command in answer["commands"]:
        for name in command["nodes"]:
            if name not in entries or name in gone:
                found.append(f"{name} is disrupted, which is no machine any more")
            else:
                found += _one(scenario, command, entries[name])
            gone.add(name)
        found += [*_budgets(scenario, command, gone), *_static(scenario, command)]
    if not gone <= entries.keys() or len(gone) < sum(len(command["nodes"]) for command in answer["commands"]):
        return found
    try:
        after = apply(scenario, answer, lenient=lenient)
    except NoPlaceError as error:
        return [*found, str(error)]
    found += _models(scenario, after)
    if {command["reason"] for command in answer["commands"]} == {"Underutilized"} and price(after) >= price(scenario):
        found.append(f"{price(after):.4f} USD an hour, {price(scenario):.4f} before")
    return found


def apply(scenario: dict[str, Any], answer: dict[str, Any], *, lenient: bool = False) -> dict[str, Any]:
    """The cluster after the commands: pods moved, to replacements on their cheapest offering, too. Raises NoPlaceError.

    A pod without a place in the commands goes wherever it fits; machines are bought again for pods of empty machines,
    which is not part of disruption. `lenient`: as for `cheapest`.
    """
    nodes = {_name(entry): entry for entry in scenario["nodes"]}
    moving: dict[str, dict[str, Any]] = {}
    for command in answer["commands"]:
        for name in command["nodes"]:
            gone = nodes.pop(name)
            moving |= {_key(pod): pod for pod in gone["pods"] if command["reason"] != "Empty" and _moves(scenario, pod)}
    places: dict[str, str] = {}
    for command in answer["commands"]:
        # Pods of machines that went before are placed anew by Karpenter's later commands.
        places |= {key: name for name, keys in command.get("existing", {}).items() for key in keys}
        for claim in command["replacements"]:
            made = _replacement(scenario, claim, nodes, lenient=lenient)
            nodes[_name(made)] = made
            places |= dict.fromkeys(claim["pods"], _name(made))
    for key, name in places.items():
        if key in moving and name in nodes:
            nodes[name] = _placed(nodes[name], moving.pop(key))
    rest = sorted(moving.values(), key=lambda pod: [-float(requests(pod)[one]) for one in (GPU, "cpu", "memory")])
    return {**scenario, "nodes": list(_search(nodes, rest).values())}


def _replacement(
    scenario: dict[str, Any], claim: dict[str, Any], nodes: dict[str, Any], *, lenient: bool
) -> dict[str, Any]:
    pool = next(one for one in scenario["nodePools"] if one["metadata"]["name"] == claim["nodePool"])
    kind, sold = cheapest(scenario, claim, lenient=lenient)
    name = next(name for number in count() if (name := f"new-{number}") not in nodes)
    made = machine(name, pool, kind, sold, scenario["daemonPods"])
    for one in (made["node"], made["nodeClaim"]):
        one["metadata"]["creationTimestamp"] = NOW
    return made


def cheapest(
    scenario: dict[str, Any], claim: dict[str, Any], *, lenient: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The instance type and its offering with the least price that a new NodeClaim allows. Raises NoPlaceError.

    Karpenter lists no instance types for static NodePools. `lenient`: if there is none, of any capacity type: Karpenter
    asks for spot capacity of instance types that are not sold as such, and the launch would fail again and again.
    """
    required = {one["key"]: one for one in claim["requirements"]}
    sold = [
        (one["Price"], kind["name"], kind, one)
        for kind in scenario["instanceTypes"]
        if kind["name"] in claim["instanceTypes"] or not claim["instanceTypes"]
        for one in kind["offerings"]
        if one["Available"] and _allows(required.get(ZONE), one["Zone"])
    ]
    allowed_types = [one for one in sold if _allows(required.get(CAPACITY_TYPE), one[3]["CapacityType"])]
    if not (allowed_types or (lenient and sold)):
        raise NoPlaceError(f"a replacement for {claim['pods']} cannot be bought")
    return min(allowed_types or sold, key=lambda one: one[:2])[2:]


def is_empty(entry: dict[str, Any]) -> bool:
    """Whether it runs no pods but those of DaemonSets; on a machine with GPUs only pods with GPUs count."""
    pods = [pod for pod in entry["pods"] if _owner(pod) != "DaemonSet"]
    return not any(GPU in requests(pod) or MODEL not in _labels(entry) for pod in pods)


def is_ready(entry: dict[str, Any]) -> bool:
    """Whether its Node is Ready."""
    return bool(entry["node"]["status"]["conditions"][0]["status"] == "True")


def _one(scenario: dict[str, Any], command: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the disruption of one machine."""
    name, claim, reason = _name(entry), entry["nodeClaim"], command["reason"]
    eventual = reason == "Drifted" and "terminationGracePeriod" in claim["spec"]
    if "deletionTimestamp" in claim["metadata"]:
        yield f"{name} is being removed"
    if entry["node"]["metadata"]["annotations"]:
        yield f"{name} must not be disrupted"
    if reason == "Drifted" and not _has(claim, "Drifted"):
        yield f"{name} is not drifted"
    if reason != "Drifted" and not _has(claim, "Consolidatable"):
        yield f"{name} must not be consolidated yet"
    if reason == "Empty" and not is_empty(entry):
        yield f"{name} is not empty"
    policy = _pool(scenario, entry)["spec"]["disruption"]["consolidationPolicy"]
    if reason == "Underutilized" and policy == "WhenEmpty":
        yield f"{name} is not empty, and its NodePool disrupts only empty machines"
    for pod in () if eventual else entry["pods"]:
        if pod["metadata"]["annotations"]:
            yield f"{name} runs {_key(pod)}, which must not be disrupted"
        budgets = list(_disruption_budgets(scenario, pod))
        if len(budgets) > 1 or any(one["status"]["disruptionsAllowed"] == 0 for one in budgets):
            yield f"{name} runs {_key(pod)}, which cannot be evicted"
        if GPU in requests(pod) and _owner(pod) in ("Job", ""):
            yield f"{name} runs {_key(pod)}, which cannot restart"


def _budgets(scenario: dict[str, Any], command: dict[str, Any], gone: set[str]) -> Iterator[str]:
    """NodePools whose budgets a command exceeds. `gone`: the machines of this command and of those before."""
    for pool in scenario["nodePools"]:
        machines = [entry for entry in scenario["nodes"] if _labels(entry)[POOL] == pool["metadata"]["name"]]
        going = [
            entry
            for entry in machines
            if not is_ready(entry) or "deletionTimestamp" in entry["nodeClaim"]["metadata"] or _name(entry) in gone
        ]
        most = allowed(pool, command["reason"], len(machines))
        if len(going) > most and any(_name(entry) in command["nodes"] for entry in machines):
            yield f"{len(going)} machines of {pool['metadata']['name']} are going, {most} may for {command['reason']}"


def _static(scenario: dict[str, Any], command: dict[str, Any]) -> Iterator[str]:
    """Machines of static NodePools are replaced one by one, within their limit."""
    for pool in scenario["nodePools"]:
        name, spec = pool["metadata"]["name"], pool["spec"]
        machines = {_name(entry) for entry in scenario["nodes"] if _labels(entry)[POOL] == name}
        made = sum(claim["nodePool"] == name for claim in command["replacements"])
        if "replicas" in spec and made != (gone := len(machines.intersection(command["nodes"]))):
            yield f"{gone} machines of {name}, which is static, get {made} replacements"
        if made and len(machines) + made > int(spec.get("limits", {}).get("nodes", len(machines) + made)):
            yield f"{name} may have {spec['limits']['nodes']} machines"


def allowed(pool: dict[str, Any], reason: str, machines: int) -> float:
    """How many machines of a NodePool may be going at the same time."""
    active = [
        one["nodes"]
        for one in pool["spec"]["disruption"]["budgets"]
        if is_active(one) and reason in one.get("reasons", [reason])
    ]
    numbers = [(int(one[:-1]) * machines + 99) // 100 if one.endswith("%") else int(one) for one in active]
    return min(numbers, default=float("inf"))


def _models(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Pods with GPUs that run on another model without having named a model."""
    models = [
        {_key(pod): _labels(entry).get(MODEL) for entry in one["nodes"] for pod in entry["pods"]}
        for one in (before, after)
    ]
    for entry in after["nodes"]:
        for pod in entry["pods"]:
            key = _key(pod)
            if (
                GPU in requests(pod)
                and MODEL not in pod["spec"].get("nodeSelector", {})
                and models[0][key] != models[1][key]
            ):
                yield f"{key} moves from {models[0][key]} to {models[1][key]}"


def _search(nodes: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, Any]:
    """The machines with the pods, wherever all of them fit."""
    tries = 0

    def placed(nodes: dict[str, Any], left: list[dict[str, Any]]) -> dict[str, Any] | None:
        nonlocal tries
        if not left:
            return nodes
        for name in sorted(
            (name for name in nodes if fits(nodes[name], left[0])), key=lambda name: free(nodes[name])["cpu"]
        ):
            tries += 1
            if tries > TRIES_MAX:
                return None
            if (found := placed({**nodes, name: bind(nodes[name], left[:1])}, left[1:])) is not None:
                return found
        return None

    found = placed(nodes, pods)
    if found is None:
        raise NoPlaceError(f"no place for all of {', '.join(map(_key, pods))}")
    return found


def _placed(entry: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    if not fits(entry, pod):
        raise NoPlaceError(f"{_key(pod)} does not fit on {_name(entry)}")
    return bind(entry, [pod])


def fits(entry: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Whether kube-scheduler would bind the pod to the machine."""
    spec, labels = pod["spec"], entry["node"]["metadata"]["labels"]
    tolerated = {one["key"] for one in spec.get("tolerations", [])}
    left = free(entry)
    return (
        "deletionTimestamp" not in entry["nodeClaim"]["metadata"]
        and all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())
        and all(taint["key"] in tolerated for taint in entry["node"]["spec"]["taints"])
        and all(left[name] >= amount for name, amount in requests(pod).items())
        and not (
            "affinity" in spec and any(one["metadata"]["labels"] == pod["metadata"]["labels"] for one in entry["pods"])
        )
    )


def _moves(scenario: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Whether it is created again elsewhere. Pods that cannot be evicted at all stay until they end."""
    stays = pod["metadata"]["annotations"] or len(list(_disruption_budgets(scenario, pod))) > 1
    return _owner(pod) not in ("DaemonSet", "") and not stays


def _disruption_budgets(scenario: dict[str, Any], pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in scenario["podDisruptionBudgets"]:
        if one["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items():
            yield one


def _allows(requirement: dict[str, Any] | None, value: str) -> bool:
    if requirement is None or requirement["operator"] not in ("In", "NotIn"):
        return True
    return (value in requirement["values"]) == (requirement["operator"] == "In")


def _pool(scenario: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    name = _labels(entry)[POOL]
    return next(one for one in scenario["nodePools"] if one["metadata"]["name"] == name)


def _has(claim: dict[str, Any], condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in claim["status"]["conditions"])


def _owner(pod: dict[str, Any]) -> str:
    return next((one["kind"] for one in pod["metadata"]["ownerReferences"]), "")


def _labels(entry: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = entry["node"]["metadata"]["labels"]
    return found


def _name(entry: dict[str, Any]) -> str:
    return str(entry["node"]["metadata"]["name"])


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
