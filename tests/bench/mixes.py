"""Demands of clusters with many Deployments, domains, Nodes or NodePools, for the measurement of single decisions.

Values only: each mix is what a scenario lists.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from provisioner.api.labels import HOSTNAME, ZONE

from .workloads import GPU, TOLERATION, gpu_pod, node_pool

Json = dict[str, Any]
RACK = "example.com/rack"
ZONES = tuple(f"eastus-{number}" for number in (1, 2, 3))


class Mix(NamedTuple):
    """`seconds`: what one decision is to take at most. `nodes`: each with the pods on it."""

    name: str
    seconds: float
    pods: list[Json]
    nodes: list[Json] = []
    node_pools: list[Json] = []
    max_new: int | None = None


def mixes() -> Iterator[Mix]:
    """In the order of the table."""
    yield Mix("2,500 pods of 500 Deployments with a zone spread each", 2.0, [*_deployments(500, 5, _spread)])
    yield Mix(
        "5,000 pods of 50 Deployments, zone spread and anti-affinity by hostname",
        2.0,
        [*_deployments(50, 100, _spread_apart)],
    )
    yield Mix(
        "5,000 pods of 250 Deployments, zone spread and preferred anti-affinity",
        4.0,
        [*_deployments(250, 20, _spread_preferably_apart)],
    )
    yield Mix("600 pods over 300 values of a label", 1.0, [*_over(600, RACK)], [*_racks(1000, 300)])
    yield Mix("300 pods over 200 racks and 3 zones", 1.0, [*_over(300, RACK, ZONE)], [*_racks(600, 200)])
    yield Mix("500 pods among 10,000 full Nodes", 1.0, [gpu_pod(f"p-{n:05}") for n in range(500)], [*_full(10_000)])
    yield Mix("800 pods and 40 NodePools", 1.0, [*_deployments(40, 20, lambda _: {})], [], [*_pools(40)])
    limited = {**node_pool(), "spec": {**node_pool()["spec"], "limits": {GPU: "300"}}}
    yield Mix("1,000 pods of 40 shapes at limits", 2.0, [*_shaped(1000, 40)], [], [limited], 90)


def _deployments(count: int, replicas: int, constraints: Any) -> Iterator[Json]:
    for number in range(count):
        for replica in range(replicas):
            pod = gpu_pod(f"d{number:03}-{replica:03}")
            pod["metadata"]["labels"] = {"app": f"d{number:03}"}
            pod["spec"] |= constraints(f"d{number:03}")
            yield pod


def _term(app: str, key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _spread(app: str, *keys: str) -> Json:
    terms = [_term(app, key) | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for key in keys or (ZONE,)]
    return {"topologySpreadConstraints": terms}


def _spread_apart(app: str) -> Json:
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, HOSTNAME)]}
    return {**_spread(app), "affinity": {"podAntiAffinity": apart}}


def _spread_preferably_apart(app: str) -> Json:
    term = {"weight": 100, "podAffinityTerm": _term(app, HOSTNAME)}
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    return {**_spread(app), "affinity": {"podAntiAffinity": apart}}


def _over(count: int, *keys: str) -> Iterator[Json]:
    """Small pods that are spread over the Nodes' labels, without GPUs."""
    for number in range(count):
        pod = _small(f"p-{number:05}")
        pod["spec"] |= _spread("over", *keys)
        pod["metadata"]["labels"] = {"app": "over"}
        yield pod


def _small(name: str) -> Json:
    pod = gpu_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return pod


def _shaped(count: int, shapes: int) -> Iterator[Json]:
    for number in range(count):
        shape = number % shapes
        pod = gpu_pod(f"s-{number:05}", (1, 1, 2, 4)[shape % 4])
        pod["spec"]["containers"][0]["resources"]["requests"] |= {"cpu": f"{500 + shape * 100}m"}
        yield pod


def _racks(count: int, racks: int) -> Iterator[Json]:
    """Nodes with room, three zones in each rack where there are enough of them."""
    for number in range(count):
        labels = {RACK: f"rack-{number % racks:03}", ZONE: ZONES[number // racks % 3]}
        yield _node(f"n-{number:05}", labels, {"cpu": "8", "memory": "32Gi", "pods": "110"}, [])


def _full(count: int) -> Iterator[Json]:
    amounts = {"cpu": "4", "memory": "28Gi", "pods": "110", GPU: "1"}
    for number in range(count):
        running = [gpu_pod(f"r-{number:05}"), _small(f"s-{number:05}")]
        for pod in running:
            pod["metadata"]["labels"] = {"app": f"service-{number % 500}"}
        labels = {ZONE: ZONES[number % 3], "kubernetes.azure.com/agentpool": f"pool{number}"}
        yield _node(f"n-{number:05}", labels, amounts, running)


def _node(name: str, labels: Json, amounts: Json, pods: list[Json]) -> Json:
    meta = {"name": name, "labels": {HOSTNAME: name, **labels}}
    return {"node": {"metadata": meta, "status": {"capacity": amounts, "allocatable": amounts}}, "pods": pods}


def _pools(count: int) -> Iterator[Json]:
    for number in range(count):
        pool = node_pool(weight=number % 10)
        pool["metadata"]["name"] = f"pool-{number:02}"
        pool["spec"]["template"]["spec"]["taints"] = [{k: v for k, v in TOLERATION.items() if k != "operator"}]
        yield pool
