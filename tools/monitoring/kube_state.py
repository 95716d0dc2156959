"""The two families of kube-state-metrics that panels query, for the pods of a simulated cluster.

Source: https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md
"""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily

from provisioner.api.quantity import parse_quantity
from provisioner.simulator.kube.store import Store

PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
REQUESTS, PHASE = "kube_pod_container_resource_requests", "kube_pod_status_phase"

Json = dict[str, Any]


class KubeState:
    """A collector that reads the store at each scrape."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, as prometheus_client's registry requests them at a scrape."""
        labels = ("namespace", "pod", "container", "node", "resource", "unit")
        requests = GaugeMetricFamily(REQUESTS, "What a container requests", labels=labels)
        phases = GaugeMetricFamily(PHASE, "The phase that a pod is in", labels=("namespace", "pod", "phase"))
        for pod in self._store.list("pods"):
            meta, spec = pod["metadata"], pod["spec"]
            for phase in PHASES:
                value = float((pod.get("status") or {}).get("phase") == phase)
                phases.add_metric((meta["namespace"], meta["name"], phase), value)
            for container in spec["containers"]:
                about = (meta["namespace"], meta["name"], container["name"], spec.get("nodeName", ""))
                for resource, amount in _requests(container):
                    requests.add_metric((*about, resource, "core" if resource == "cpu" else "integer"), amount)
        yield requests
        yield phases


def kube_state(store: Store) -> CollectorRegistry:
    """A registry with these two families only."""
    registry = CollectorRegistry()
    registry.register(KubeState(store))
    return registry


def _requests(container: Json) -> Iterator[tuple[str, float]]:
    for name, text in (container.get("resources", {}).get("requests") or {}).items():
        yield "".join(char if char.isalnum() else "_" for char in name), float(parse_quantity(text))
