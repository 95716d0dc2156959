"""Draws clusters by seed for disruption: machines of NodePools with pods, budgets and what blocks evictions.

Unless a cluster is mixed, pods with GPUs name their model, others do not tolerate the taint of machines with GPUs, and
a ReplicaSet owns every pod: the rules that this program has beyond Karpenter's then decide nothing.
"""

import random
from collections import Counter
from decimal import Decimal
from typing import Any, Literal

from provisioner.api.quantity import parse_quantity

from .sizes import GPU, MODEL, SIZES, ZONES, instance_type

NOW = "2026-06-10T10:30:00Z"  # a Wednesday
# Schedule, duration, whether it is active NOW.
SCHEDULES = (
    ("0 10 * * *", "1h", True),
    ("0 12 * * *", "2h", False),
    ("0 2 * * *", "8h", False),
    ("0 2 * * *", "8h31m", True),
    ("0 10 * * mon-fri", "1h", True),
    ("0 10 * * sat", "1h", False),
    ("@daily", "12h", True),
    ("@daily", "8h", False),
    ("@monthly", "24h", False),
    ("30 10 10 6 *", "1m", True),
)
REASONS = ("Empty", "Drifted", "Underutilized")
POOL, INSTANCE_TYPE, ZONE, CAPACITY_TYPE = (
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
)
DO_NOT_DISRUPT = {"karpenter.sh/do-not-disrupt": "true"}
MACHINES_MAX = 9
# Its GPUs have another form and less memory than those of the other sizes with H100.
OTHER_H100 = "Standard_ND96isr_H100_v5"
# consolidation: no machine is empty or drifted at first, and nothing but the budgets holds them.
# removal: NodePools remove empty and drifted machines only, and much holds them.
# static: the same for NodePools with replicas, without pods.
# mixed: all of this but static NodePools, besides jobs and pods for any model.
Kind = Literal["consolidation", "removal", "static", "mixed"]


def draw(seed: int, kind: Kind) -> dict[str, Any]:
    """One cluster; the same seed draws the same one."""
    rng = random.Random(seed)
    pools = [_pool(rng, index, kind) for index in range(rng.choice((1, 1, 2, 3)))]
    models = {model for pool in pools for model in _models(pool) or [""]}
    types = [one for one in (instance_type(rng, size) for size in SIZES) if model_of(one) in models]
    if kind != "mixed":
        types = [one for one in types if one["name"] != OTHER_H100]
    daemons = [_pod("daemon", {"requests": {"cpu": "200m", "memory": "256Mi"}, "app": "daemon"})] * (rng.random() < 0.3)
    nodes: list[dict[str, Any]] = []
    for pool in pools:
        shapes = [_shape(rng, pool, index, kind) for index in range(rng.choice((1, 2, 3)))]
        for _ in range(rng.choice((1, 2, 3, 4, 5))):
            if len(nodes) < MACHINES_MAX and (chosen := _instance_type(rng, pool, types, shapes)):
                entry = machine(
                    f"node-{len(nodes)}",
                    pool,
                    chosen,
                    rng.choice([one for one in _sold(pool, chosen) if one["CapacityType"] == "on-demand"]),
                    daemons,
                )
                _fill(rng, entry, shapes, kind)
                nodes.append(entry)
    for pool in pools if kind == "static" else []:
        _make_static(rng, pool, nodes)
    return {
        "nodePools": pools,
        "instanceTypes": types,
        "daemonPods": daemons,
        "nodes": nodes,
        "pods": [],
        "podDisruptionBudgets": [] if kind == "consolidation" else _disruption_budgets(rng, nodes),
        "wellKnownLabels": [MODEL],
        "now": NOW,
    }


def is_active(budget: dict[str, Any]) -> bool:
    """Whether a drawn budget is active NOW, as the table of schedules says."""
    found = (budget.get("schedule"), budget.get("duration"))
    return found[0] is None or next(active for *key, active in SCHEDULES if tuple(key) == found)


def machine(
    name: str, pool: dict[str, Any], kind: dict[str, Any], sold: dict[str, Any], daemons: list[dict[str, Any]]
) -> dict[str, Any]:
    """An entry of `nodes`: an initialized machine that may be consolidated and runs only pods of DaemonSets.

    `sold` is the offering of the instance type `kind`.
    """
    labels = {
        POOL: pool["metadata"]["name"],
        INSTANCE_TYPE: kind["name"],
        ZONE: sold["Zone"],
        CAPACITY_TYPE: sold["CapacityType"],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **({MODEL: model_of(kind)} if model_of(kind) else {}),
        **pool["spec"]["template"]["metadata"].get("labels", {}),
    }
    allocatable = {
        resource: _quantity(resource, parse_quantity(amount) - parse_quantity(kind["overhead"].get(resource, "0")))
        for resource, amount in kind["capacity"].items()
    }
    sizes = {"capacity": kind["capacity"], "allocatable": allocatable}
    created, taints = "2026-06-01T00:00:00Z", pool["spec"]["template"]["spec"].get("taints", [])
    conditions = [
        {"type": one, "status": "True", "reason": one, "lastTransitionTime": "2026-06-01T00:10:00Z"}
        for one in ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
    ]
    owner = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "name": pool["metadata"]["name"],
        "uid": pool["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    entry: dict[str, Any] = {
        "node": {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": created,
                "labels": {
                    **labels,
                    "kubernetes.io/hostname": name,
                    "karpenter.sh/registered": "true",
                    "karpenter.sh/initialized": "true",
                },
                "annotations": {},
            },
            "spec": {"providerID": f"azure:///{name}", "taints": taints},
            "status": {**sizes, "conditions": [{"type": "Ready", "status": "True"}]},
        },
        "nodeClaim": {
            "metadata": {
                "name": f"claim-{name}",
                "uid": f"uid-claim-{name}",
                "creationTimestamp": created,
                "labels": labels,
                "annotations": {},
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeClassRef": pool["spec"]["template"]["spec"]["nodeClassRef"],
                "requirements": [
                    {"key": key, "operator": "In", "values": [labels[key]]}
                    for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
                ],
                "taints": taints,
                "expireAfter": "Never",
            },
            "status": {**sizes, "providerID": f"azure:///{name}", "nodeName": name, "conditions": conditions},
        },
        "pods": [],
    }
    return bind(entry, [{**one, "metadata": {**one["metadata"], "name": f"daemon-{name}"}} for one in daemons])


def bind(entry: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, Any]:
    """The machine with more pods."""
    status = {
        "phase": "Running",
        "startTime": "2026-06-01T01:01:00Z",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
    }
    name = entry["node"]["metadata"]["name"]
    bound = [{**pod, "spec": {**pod["spec"], "nodeName": name}, "status": status} for pod in pods]
    return {**entry, "pods": [*entry["pods"], *bound]}


def set_condition(entry: dict[str, Any], kind: str, status: str, since: str = "2026-06-10T09:00:00Z") -> None:
    """Sets a condition of the NodeClaim of a machine; an empty status removes it."""
    found = entry["nodeClaim"]["status"]
    found["conditions"] = [one for one in found["conditions"] if one["type"] != kind]
    if status:
        made = {"type": kind, "status": status, "reason": kind, "lastTransitionTime": since}
        found["conditions"].append(made)


def requests(pod: dict[str, Any]) -> Counter[str]:
    """What a pod requests, besides its place among the pods of a Node."""
    total: Counter[str] = Counter({"pods": Decimal(1)})
    for container in pod["spec"]["containers"]:
        total.update({n: parse_quantity(q) for n, q in container["resources"].get("requests", {}).items()})
    return total


def free(entry: dict[str, Any]) -> Counter[str]:
    """What is left of the allocatable resources of a machine."""
    left: Counter[str] = Counter({n: parse_quantity(q) for n, q in entry["node"]["status"]["allocatable"].items()})
    for pod in entry["pods"]:
        left.subtract(requests(pod))
    return left


def model_of(kind: dict[str, Any]) -> str:
    """The GPU model of an instance type; "" without GPUs."""
    return next((r["values"][0] for r in kind["requirements"] if r["key"] == MODEL and r.get("values")), "")


def _quantity(resource: str, amount: Decimal) -> str:
    return f"{int(amount * 1000)}m" if resource == "cpu" else str(int(amount))


def _models(pool: dict[str, Any]) -> list[str]:
    found: list[str] = pool["spec"]["template"]["spec"]["requirements"][0].get("values", [])
    return found


def _pool(rng: random.Random, index: int, kind: Kind) -> dict[str, Any]:
    models = rng.choice((["T4"], ["T4"], ["A100"], ["A100"], ["A10"], ["H100"], ["T4", "A100"], []))
    requirements: list[dict[str, Any]] = [
        {"key": MODEL, "operator": "In", "values": models} if models else {"key": MODEL, "operator": "DoesNotExist"}
    ]
    # Without a requirement this program buys no spot capacity.
    terms = rng.choice((["on-demand"], ["on-demand", "spot"]))
    requirements.append({"key": CAPACITY_TYPE, "operator": "In", "values": terms})
    template: dict[str, Any] = {
        "requirements": requirements,
        "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
        "expireAfter": "Never",
    }
    if models:
        template["taints"] = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    policies = ["WhenEmpty"] if kind in {"removal", "static"} else ["Balanced", *["WhenEmptyOrUnderutilized"] * 4]
    disruption = {
        "consolidationPolicy": rng.choice(policies),
        "consolidateAfter": "0s",
        "budgets": [{"nodes": rng.choice(("1", "2", "30%", "100%"))}] if kind == "consolidation" else _budgets(rng),
    }
    return {
        "metadata": {"name": f"pool-{index}", "uid": f"uid-pool-{index}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "template": {"metadata": {"labels": {"pool": f"pool-{index}"}}, "spec": template},
            "disruption": disruption,
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]},
    }


def _make_static(rng: random.Random, pool: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    count = sum(entry["node"]["metadata"]["labels"][POOL] == pool["metadata"]["name"] for entry in nodes)
    pool["spec"]["replicas"] = max(0, count - rng.choice((0, 0, 0, 0, 1)))
    if rng.random() < 0.4:
        pool["spec"]["limits"] = {"nodes": str(count + rng.choice((0, 1, 1, 2)))}


def _budgets(rng: random.Random) -> list[dict[str, Any]]:
    budgets = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        budget: dict[str, Any] = {"nodes": rng.choice(("0", "1", "2", "10%", "25%", "50%", "51%", "100%"))}
        if rng.random() < 0.4:
            budget["reasons"] = rng.sample(REASONS, rng.choice((1, 2)))
        if rng.random() < 0.4:
            budget["schedule"], budget["duration"], _ = rng.choice(SCHEDULES)
        budgets.append(budget)
    return budgets


def _shape(rng: random.Random, pool: dict[str, Any], index: int, kind: Kind) -> dict[str, Any]:
    models, name = _models(pool), pool["metadata"]["name"]
    shape: dict[str, Any] = {"app": f"{name}-app-{index}", "selector": {}, "requests": {}}
    if models:
        if kind != "mixed" or rng.random() < 0.3:
            shape["selector"][MODEL] = rng.choice(models)
        shape["requests"][GPU] = str(rng.choice((1, 1, 1, 2, 4)))
        shape["requests"] |= {"cpu": rng.choice(("500m", "2", "3")), "memory": rng.choice(("2Gi", "14Gi", "20Gi"))}
    else:
        shape["requests"] |= {"cpu": rng.choice(("500m", "1", "3", "7")), "memory": rng.choice(("1Gi", "4Gi", "14Gi"))}
    if rng.random() < 0.2:
        shape["selector"]["pool"] = name
    if rng.random() < 0.1:
        shape["selector"][ZONE] = rng.choice(ZONES)
    shape["apart"] = rng.random() < 0.1
    shape["monitors"] = kind == "mixed" and GPU in shape["requests"] and rng.random() < 0.15
    if shape["monitors"]:
        shape["requests"] = {"cpu": "500m", "memory": "512Mi"}
    shape["owner"] = rng.choice(("Job", "", "ReplicaSet", "ReplicaSet")) if kind == "mixed" else "ReplicaSet"
    return shape


def _instance_type(
    rng: random.Random, pool: dict[str, Any], types: list[dict[str, Any]], shapes: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """An instance type of the NodePool for one of the shapes, mostly a small one."""
    wanted = {shape["selector"].get(MODEL) for shape in shapes}
    models = _models(pool) or [""]
    usable = {model for model in models if model in wanted or None in wanted}
    found = [one for one in types if model_of(one) in usable and _sold(pool, one)]
    return min(rng.choices(found, k=rng.choice((1, 2, 3))), key=_price) if found else None


def _price(kind: dict[str, Any]) -> float:
    return min(one["Price"] for one in kind["offerings"])


def _sold(pool: dict[str, Any], kind: dict[str, Any]) -> list[dict[str, Any]]:
    """The offerings of an instance type that the NodePool allows."""
    terms = [r["values"] for r in pool["spec"]["template"]["spec"]["requirements"] if r["key"] == CAPACITY_TYPE]
    return [one for one in kind["offerings"] if not terms or one["CapacityType"] in terms[0]]


def _fill(rng: random.Random, entry: dict[str, Any], shapes: list[dict[str, Any]], kind: Kind) -> None:
    name, labels = entry["node"]["metadata"]["name"], entry["node"]["metadata"]["labels"]
    share = {"consolidation": 1.0, "static": 0.0}.get(kind, rng.choice((0.0, 1.0)))
    for number in range(rng.choice((1, 1, 2, 4, 8)) if share else 0):
        shape = rng.choice(shapes)
        pod = _pod(f"{name}-{number}", shape)
        runs = all(labels.get(key) == value for key, value in shape["selector"].items())
        alone = not shape["apart"] or all(
            one["metadata"]["labels"] != pod["metadata"]["labels"] for one in entry["pods"]
        )
        left = free(entry)
        if runs and alone and all(left[resource] >= amount for resource, amount in requests(pod).items()):
            entry["pods"] = bind(entry, [pod])["pods"]
    if kind != "consolidation":
        _trouble(rng, entry)
    elif not [pod for pod in entry["pods"] if pod["metadata"]["labels"]["app"] != "daemon"]:
        entry["node"]["metadata"]["annotations"] |= DO_NOT_DISRUPT


def _trouble(rng: random.Random, entry: dict[str, Any]) -> None:
    """What makes a machine go, and what keeps it."""
    if rng.random() < 0.4:
        set_condition(entry, "Drifted", "True", f"2026-06-10T0{rng.randrange(9)}:{rng.randrange(10, 60)}:00Z")
    if rng.random() < 0.1:
        set_condition(entry, "Consolidatable", "")
    if rng.random() < 0.1:
        entry["node"]["metadata"]["annotations"] |= DO_NOT_DISRUPT
    if rng.random() < 0.1:
        entry["node"]["status"]["conditions"][0]["status"] = "False"
        unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        entry["node"]["spec"]["taints"] = [*entry["node"]["spec"]["taints"], unready]
        set_condition(entry, "Initialized", "False")
        set_condition(entry, "Ready", "False")
    elif not entry["pods"] and rng.random() < 0.1:
        meta = entry["nodeClaim"]["metadata"]
        meta["deletionTimestamp"], meta["finalizers"] = NOW, ["karpenter.sh/termination"]
    if rng.random() < 0.1:
        entry["nodeClaim"]["spec"]["terminationGracePeriod"] = "1h"
    for pod in entry["pods"]:
        if rng.random() < 0.05:
            pod["metadata"] = {**pod["metadata"], "annotations": DO_NOT_DISRUPT}


def _pod(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": shape["app"]}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": shape["requests"]}}]}
    if GPU in shape["requests"]:
        spec["containers"][0]["resources"]["limits"] = {GPU: shape["requests"][GPU]}
    if GPU in shape["requests"] or shape.get("monitors"):
        spec["tolerations"] = [{"key": "sku", "operator": "Exists"}]
    if shape.get("selector"):
        spec["nodeSelector"] = shape["selector"]
    if shape.get("apart"):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    kind = "DaemonSet" if shape["app"] == "daemon" else shape["owner"]
    owner = {"kind": kind, "name": shape["app"], "uid": f"uid-{shape['app']}", "controller": True}
    owner["apiVersion"] = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-pod-{name}",
            "labels": labels,
            "annotations": {},
            "ownerReferences": [owner] if kind else [],
            "creationTimestamp": "2026-06-01T01:00:00Z",
        },
        "spec": spec,
    }


def _disruption_budgets(rng: random.Random, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    apps = sorted({pod["metadata"]["labels"]["app"] for entry in nodes for pod in entry["pods"]})
    return [
        {
            "metadata": {"name": f"budget-{app}-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **limit},
            "status": {"disruptionsAllowed": rng.choice((0, 1, 1, 2))},
        }
        for app in apps
        if rng.random() < 0.25
        for number, limit in enumerate(
            rng.choice((({"maxUnavailable": 1},), ({"minAvailable": 1}, {"minAvailable": 1})))
        )
    ]
