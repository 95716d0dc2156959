"""PromQL expressions that dashboards and rules share.

Prometheus 2.42 parses them, none needs a recording rule, and series that both replicas export are not counted twice.

Source: docs/references/monitoring.md#names, docs/references/monitoring.md#alerts-and-panels,
https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md.
"""

import re
from dataclasses import dataclass

from provisioner.vendors import BY_RESOURCE

# The GPU resources as in Kubernetes, and as kube-state-metrics spells them.
GPUS = f"~{'|'.join(BY_RESOURCE)}"
KUBE_GPUS = re.sub(r"[./]", "_", GPUS)
# A family that every replica of this program exports, and no other program.
MARK = "gpu_provisioner_event_loop_lag_seconds"


@dataclass(frozen=True)
class Scope:
    """Label matchers of every selector: `ours` for this program's families, `others` for kube-state-metrics'.

    Methods take further matchers by label: a value, `~` and a regular expression, or `!` and a value to exclude.
    """

    ours: str = ""
    others: str = ""

    def own(self, name: str, /, **labels: str) -> str:
        """A selector of a family that this program exports."""
        return _selector(name, self.ours, **labels)

    def most(self, name: str, by: str = "", /, **labels: str) -> str:
        """The maximum over the replicas, by labels; for gauges that only the leader sets."""
        return f"max{_by(by)} ({self.own(name, **labels)})"

    def all(self, name: str, by: str, /, **labels: str) -> str:
        """The sum of `most` over the labels `by`; a series of two replicas counts once."""
        return f"sum({self.most(name, by, **labels)})"

    def events(self, counter: str, window: str, by: str = "", **labels: str) -> str:
        """The increase of a counter within the window, over all replicas."""
        return f"sum{_by(by)} ({self.grown(counter, window, **labels)})"

    def rate(self, counter: str, window: str, by: str = "") -> str:
        """The rate per second of a family that other programs export too, for this program only."""
        mark = _selector(MARK, self.ours)
        return f"sum{_by(by)} (rate({self.own(counter)}[{window}]) and on (cluster, namespace, job, instance) {mark})"

    def mean(self, histogram: str, window: str, by: str, **labels: str) -> str:
        """The mean of a histogram's observations within the window."""
        total = self.events(f"{histogram}_sum", window, by, **labels)
        return f"{total} / {self.events(f'{histogram}_count', window, by, **labels)}"

    def alone(self, name: str, /, **labels: str) -> str:
        """A family that other programs export too, for this program only."""
        mark = _selector(MARK, self.ours)
        return f"({_selector(name, self.ours, **labels)} and on (cluster, namespace, job, instance) {mark})"

    def restarts(self, window: str) -> str:
        """How often each process of this program was replaced by another one of its container within the window.

        A process that ends within a scrape interval is not counted; one that is down now is.
        """
        mark = f"last_over_time({_selector(MARK, self.ours)}[{window}])"
        starts = f"changes({_selector('process_start_time_seconds', self.ours)}[{window}])"
        return f"({starts} and on (cluster, namespace, job, instance) {mark})"

    def acting(self, name: str, /, **labels: str) -> str:
        """Like `alone`, without replicas that are not the leader; their queues are not processed."""
        waiting = f"({_selector('leader_election_master_status', self.ours)} == 0)"
        return f"({self.alone(name, **labels)} unless on (cluster, namespace, job, instance) {waiting})"

    def grown(self, counter: str, window: str, **labels: str) -> str:
        """The increase of counters within the window, including the first event of a new label value.

        `increase` is 0 for a counter that appears with the value 1, so that the first quota failure of a size would
        not be counted.
        """
        counted = self.own(counter, **labels)
        return f"(({counted} unless {counted} offset {window}) or increase({counted}[{window}]))"

    def quantile(self, share: float, histogram: str, by: str, window: str, **labels: str) -> str:
        """A quantile of a histogram's observations within the window; NaN without observations."""
        buckets = self.grown(f"{histogram}_bucket", window, **labels)
        return f"histogram_quantile({share:g}, sum{_by(by, 'le')} ({buckets}))"

    def allocatable_gpus(self, **labels: str) -> str:
        """Allocatable GPUs of each Node of a claim, by Node and size."""
        by = "cluster, node_name, instance_type, capacity_type"
        return self.most("karpenter_nodes_allocatable", by, resource_type=GPUS, **labels)

    def requested_gpus(self, by: str = "") -> str:
        """GPUs that pods request, by Node and optionally one more label of the pods; from kube-state-metrics."""
        requests = _selector("kube_pod_container_resource_requests", self.others, resource=KUBE_GPUS, node="!")
        living = _selector("kube_pod_status_phase", self.others, phase="~Pending|Running")
        held = f"{requests} and on (cluster, namespace, pod) ({living} == 1)"
        return f'label_replace(sum{_by("cluster, node", by)} ({held}), "node_name", "$1", "node", "(.+)")'

    def idle_gpus(self, **labels: str) -> str:
        """GPUs that no pod requests, by Node and size; empty where kube-state-metrics is not scraped."""
        have = self.allocatable_gpus(**labels)
        held = f"sum by (cluster, node_name) ({self.requested_gpus()})"
        known = f"count by (cluster) ({_selector('kube_pod_status_phase', self.others)})"
        # A Node that lost GPUs can have fewer than its pods still request.
        free = f"clamp_min({have} - on (cluster, node_name) group_left () {held}, 0)"
        return f"(({free} or {have}) and on (cluster) {known})"

    def price(self) -> str:
        """The hourly price of a size in its most expensive zone; empty for one without a price."""
        name = "karpenter_cloudprovider_instance_type_offering_price_estimate"
        return self.most(name, "cluster, instance_type, capacity_type")

    def cost_of(self, gpus: str) -> str:
        """The hourly cost of GPUs of Nodes: their share of the prices of their machines."""
        # For a Node without allocatable GPUs the share would be 0 / 0, which makes the sum NaN.
        offered = f"({self.allocatable_gpus()} > 0)"
        share = f"{gpus} / on (cluster, node_name) group_left (instance_type, capacity_type) {offered}"
        return f"{share} * on (cluster, instance_type, capacity_type) group_left () {self.price()}"


# Dashboards select clusters and jobs with variables; rules select everything in their Prometheus.
DASHBOARD = Scope(ours='cluster=~"$cluster",job=~"$job"', others='cluster=~"$cluster"')
RULES = Scope()


def _selector(name: str, scope: str, /, **labels: str) -> str:
    given = ",".join(filter(None, (scope, *(_matcher(label, value) for label, value in labels.items()))))
    return f"{name}{{{given}}}" if given else name


def _by(*labels: str) -> str:
    given = ", ".join(filter(None, labels))
    return f" by ({given})" if given else ""


def _matcher(label: str, value: str) -> str:
    operator = "!=" if value.startswith("!") else "=~" if value.startswith("~") else "="
    return f'{label}{operator}"{value.lstrip("!~")}"'
