"""Draws the pods of a scenario: shapes of pending pods, pods that run already, and pods of DaemonSets."""

import random
from typing import Any

from .sizes import GPU, MODEL, REGIONAL, SPOT_LABEL, SPOT_TAINT, ZONE, ZONES, Size

HOSTNAME = "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/wait"]}
# A required node affinity of each DaemonSet.
DAEMONS_NEED: tuple[dict[str, Any], ...] = (
    {"key": MODEL, "operator": "Exists"},
    {"key": "kubernetes.azure.com/cluster", "operator": "Exists"},
    {"key": MODEL, "operator": "NotIn", "values": ["T4"]},
)
Shape = dict[str, Any]
Has = frozenset[str]


def shapes(rng: random.Random, has: Has) -> list[Shape]:
    """Pods of one shape differ in their names only. `spec` is the PodSpec; `labels` has the app."""
    count = rng.choice((1, 2, 3, 5))
    apps = [f"app-{number}" for number in range(count)]
    return [_shape(rng, apps, number, has) for number in range(count)]


def pending_pods(rng: random.Random, drawn: list[Shape]) -> list[dict[str, Any]]:
    """Between one and fifty pods of these shapes."""
    count = rng.choice((1, 2, 5, 8, 20, 50))
    return [pod(f"pod-{number:04}", rng.choice(drawn)) for number in range(count)]


def running_pods(rng: random.Random, index: int, size: Size, drawn: list[Shape], has: Has) -> list[dict[str, Any]]:
    """The pods of a node: some of them are of pending shapes, so that constraints count them."""
    gpus = rng.choice((0, 0, size.gpus, size.gpus // 2))
    own = {"cpu": "1", GPU: str(gpus)} if gpus else {"cpu": "1"}
    found = [pod(f"own-{index}", {"namespace": "default", "labels": {"app": "own"}, "spec": _containers(own)})]
    for number in range(rng.choice((0, 1, 3)) if "half-full-nodes" in has else 0):
        shape = rng.choice(drawn)
        spec = _containers({"cpu": "200m", "memory": "256Mi"})
        if (anti := shape["spec"].get("affinity", {}).get("podAntiAffinity")) and rng.random() < 0.3:
            spec["affinity"] = {"podAntiAffinity": anti}
        one = pod(f"run-{index}-{number}", {**shape, "spec": spec})
        if "terminating-pods" in has and rng.random() < 0.4:
            one["metadata"] |= TERMINATING
        found.append(one)
    return found


def daemon_pods(rng: random.Random, has: Has) -> list[dict[str, Any]]:
    """Pods as their DaemonSets create them."""
    found = []
    everywhere = [{"operator": "Exists"}]
    if rng.random() < 0.4:
        spec = _containers({"cpu": "200m", "memory": "256Mi"}) | {"tolerations": everywhere}
        found.append(pod("daemon-all", {"namespace": "kube-system", "labels": {"app": "daemon"}, "spec": spec}))
    if "daemons-with-affinity" in has:
        for number, expression in enumerate(DAEMONS_NEED):
            if rng.random() < 0.6:
                spec = _containers({"cpu": "300m", "memory": "1Gi"}) | {"affinity": _node_affinity([[expression]])}
                if rng.random() < 0.5:
                    spec["tolerations"] = everywhere
                name = f"daemon-{number}"
                found.append(pod(name, {"namespace": "kube-system", "labels": {"app": name}, "spec": spec}))
    return found


def pod(name: str, shape: Shape) -> dict[str, Any]:
    """A pod of a shape."""
    metadata = {"name": name, "namespace": shape["namespace"], "labels": shape["labels"], "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": shape["spec"]}


def _containers(requests: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


def _node_affinity(terms: list[list[dict[str, Any]]]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def _shape(rng: random.Random, apps: list[str], index: int, has: Has) -> Shape:
    gpus = rng.choice((0, 1, 1, 1, 2, 4, 8))
    requests = {
        "cpu": rng.choice(("500m", "1", "3", "3", "7", "12")),
        "memory": rng.choice(("512Mi", "4Gi", "14Gi", "14Gi", "60Gi")),
    }
    if gpus:
        requests[GPU] = str(gpus)
    if "ephemeral-storage" in has and rng.random() < 0.5:
        requests["ephemeral-storage"] = rng.choice(("1Gi", "20Gi", "100Gi", "200Gi"))
    spec = _containers(requests)
    if "host-ports" in has and rng.random() < 0.4:
        number = rng.choice((8080, 8080, 9090))
        port = {"containerPort": 80, "hostPort": number, "protocol": rng.choice(("TCP", "TCP", "UDP"))}
        spec["containers"][0]["ports"] = [port]
    tolerations = [{"key": "sku", "operator": "Exists"}] if rng.random() < 0.6 else []
    if "spot" in has and rng.random() < 0.6:
        tolerations.append(SPOT_TAINT | {"operator": "Equal"})
    if tolerations:
        spec["tolerations"] = tolerations
    if selector := _node_selector(rng, has):
        spec["nodeSelector"] = selector
    labels = {"app": apps[index]}
    if "match-label-keys" in has:
        labels["version"] = rng.choice(("v1", "v2"))
    namespace = rng.choice(("default", "team-a", "team-b")) if "namespaces" in has else "default"
    affinity: dict[str, Any] = {}
    if "node-affinity-terms" in has and rng.random() < 0.5:
        affinity |= _node_affinity([[_expression(rng)] for _ in range(rng.choice((1, 2)))])
    if rng.random() < (0.5 if "preferred-terms" in has else 0.1):
        values = sorted(rng.sample(ZONES, rng.choice((1, 2))))
        expression = rng.choice(
            ({"key": ZONE, "operator": "In", "values": values}, {"key": MODEL, "operator": "In", "values": ["A100"]})
        )
        term = {"weight": 10, "preference": {"matchExpressions": [expression]}}
        affinity.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
    if affinity:
        spec["affinity"] = affinity
    shape = {"namespace": namespace, "labels": labels, "spec": spec}
    if "topology" in has:
        for _ in range(rng.choice((0, 1, 1, 2))):
            own = rng.random() >= 0.5 or "affinity-to-other-apps" not in has
            _constrain(rng, shape, labels["app"] if own else rng.choice(apps), has)
    return shape


def _node_selector(rng: random.Random, has: Has) -> dict[str, str]:
    chosen: dict[str, str] = {}
    if rng.random() < 0.25:
        options = [{MODEL: "T4"}, {MODEL: "A100"}, {ZONE: rng.choice(ZONES)}, {"team": "team-0"}]
        if "spot" in has:
            options += [{CAPACITY_TYPE: "spot"}, {SPOT_LABEL: "spot"}]
        if "without-zones" in has or "regional-offerings" in has:
            options.append({ZONE: REGIONAL})
        chosen |= rng.choice(options)
    if "aks-labels" in has and rng.random() < 0.5:
        chosen |= rng.choice(
            (
                {"kubernetes.azure.com/mode": "user"},
                {"kubernetes.azure.com/os-sku": "Ubuntu"},
                {"kubernetes.azure.com/mode": "system"},
            )
        )
    if "custom-labels" in has and rng.random() < 0.4:
        chosen |= {"tier": rng.choice(("gold", "silver"))}
    return chosen


def _expression(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        (
            {"key": MODEL, "operator": "In", "values": sorted(rng.sample(("T4", "A10", "A100", "H100"), 2))},
            {"key": MODEL, "operator": "NotIn", "values": ["T4"]},
            {"key": MODEL, "operator": "Exists"},
            {"key": ZONE, "operator": "NotIn", "values": [rng.choice(ZONES)]},
            {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["Standard_NC4as_T4_v3"]},
            {"key": "team", "operator": "NotIn", "values": ["team-0"]},
            {"key": "tier", "operator": "Exists"},
        )
    )


def _constrain(rng: random.Random, shape: Shape, app: str, has: Has) -> None:
    """Add a constraint over a topology to a pod, about the pods of an app."""
    spec, labels, key = shape["spec"], shape["labels"], rng.choice((ZONE, ZONE, HOSTNAME))
    selector: dict[str, Any] = {"matchLabels": {"app": app}}
    kind = rng.choice(("spread", "spread", "affinity", "anti"))
    preferred = "preferred-terms" in has and rng.random() < 0.5
    keys = ["version"] if "match-label-keys" in has and rng.random() < 0.6 else []
    if kind == "spread":
        one: dict[str, Any] = {"topologyKey": key, "maxSkew": rng.choice((1, 1, 2)), "labelSelector": selector}
        one["whenUnsatisfiable"] = "ScheduleAnyway" if preferred else "DoNotSchedule"
        if keys:
            one["matchLabelKeys"] = keys
        if "min-domains" in has and not preferred and rng.random() < 0.6:
            one["minDomains"] = rng.choice((2, 3))
        if "inclusion-policies" in has:
            one["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
            one["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
        spread = spec.setdefault("topologySpreadConstraints", [])
        if not any(before["topologyKey"] == key for before in spread):
            spread.append(one)
        return
    term: dict[str, Any] = {"topologyKey": key, "labelSelector": selector}
    if keys:
        # The API server adds the values of matchLabelKeys to the selector of a term.
        values = [{"key": "version", "operator": "In", "values": [labels["version"]]}]
        term |= {"matchLabelKeys": keys, "labelSelector": {**selector, "matchExpressions": values}}
    if "namespaces" in has and rng.random() < 0.6:
        term |= rng.choice(
            (
                {"namespaces": ["default", "team-b"]},
                {"namespaceSelector": {"matchLabels": {"team": "a"}}},
                {"namespaceSelector": {}},
            )
        )
    name = "podAffinity" if kind == "affinity" else "podAntiAffinity"
    terms = spec.setdefault("affinity", {}).setdefault(name, {})
    if preferred:
        weighted = {"weight": rng.choice((1, 50)), "podAffinityTerm": term}
        terms.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(weighted)
    else:
        terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
