"""Expressions that dashboards and rules share.

Texts of PromQL that Prometheus 2.42 parses, and no recording rule is needed for any: Azure's managed
Prometheus takes dashboards without rules. What both replicas export is never counted twice.

Source: docs/references/monitoring.md#names, docs/references/monitoring.md#alerts-and-panels,
https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md.
"""

from dataclasses import dataclass

# Ours, and kube-state-metrics' names of the resources.
GPUS, KUBE_GPUS = "~nvidia.com/gpu|amd.com/gpu", "~nvidia_com_gpu|amd_com_gpu"
# What only this program exports, and every replica of it.
MARK = "gpu_provisioner_event_loop_lag_seconds"


@dataclass(frozen=True)
class Scope:
    """Matchers that narrow what is asked: of families of ours, and of others' in the same cluster.

    Further ones are given by label: a value that must be, with `~` before it a pattern, with `!` one that must not be.
    """

    ours: str = ""
    others: str = ""

    def own(self, name: str, /, **labels: str) -> str:
        """A family of ours."""
        return _selector(name, self.ours, **labels)

    def most(self, name: str, by: str = "", /, **labels: str) -> str:
        """The greatest value that any replica shows, by labels: of gauges, which the one that knows shows."""
        return f"max{_by(by)} ({self.own(name, **labels)})"

    def all(self, name: str, by: str, /, **labels: str) -> str:
        """The sum over labels `by` of what `most` finds for each: nothing that both replicas show counts twice."""
        return f"sum({self.most(name, by, **labels)})"

    def events(self, counter: str, window: str, by: str = "", **labels: str) -> str:
        """How many events a counter has counted within the window, over all replicas."""
        return f"sum{_by(by)} ({self.grown(counter, window, **labels)})"

    def rate(self, counter: str, window: str, by: str = "") -> str:
        """Events a second, of a family that many programs export, of ours alone."""
        mark = _selector(MARK, self.ours)
        return f"sum{_by(by)} (rate({self.own(counter)}[{window}]) and on (cluster, namespace, job, instance) {mark})"

    def mean(self, histogram: str, window: str, by: str, **labels: str) -> str:
        """The mean of a histogram's observations within the window."""
        total = self.events(f"{histogram}_sum", window, by, **labels)
        return f"{total} / {self.events(f'{histogram}_count', window, by, **labels)}"

    def alone(self, name: str, /, **labels: str) -> str:
        """A family that many programs export under that name, of ours alone."""
        mark = _selector(MARK, self.ours)
        return f"({_selector(name, self.ours, **labels)} and on (cluster, namespace, job, instance) {mark})"

    def acting(self, name: str, /, **labels: str) -> str:
        """A family of ours alone, without replicas that wait: what they show of work is nobody's work."""
        waiting = f"({_selector('leader_election_master_status', self.ours)} == 0)"
        return f"({self.alone(name, **labels)} unless on (cluster, namespace, job, instance) {waiting})"

    def grown(self, counter: str, window: str, **labels: str) -> str:
        """How far counters have come within the window, the first event of a new label value included.

        `increase` alone sees no change in a counter that appears with its first event at 1, and a GPU fleet's events
        are rare: the first quota failure of a size would never be seen.
        """
        counted = self.own(counter, **labels)
        return f"(({counted} unless {counted} offset {window}) or increase({counted}[{window}]))"

    def quantile(self, share: float, histogram: str, by: str, window: str, **labels: str) -> str:
        """A quantile of a histogram's observations within the window; NaN without any."""
        buckets = self.grown(f"{histogram}_bucket", window, **labels)
        return f"histogram_quantile({share:g}, sum{_by(by, 'le')} ({buckets}))"

    def allocatable_gpus(self, **labels: str) -> str:
        """GPUs that each Node of a claim offers to pods, by Node and size."""
        by = "cluster, node_name, instance_type, capacity_type"
        return self.most("karpenter_nodes_allocatable", by, resource_type=GPUS, **labels)

    def requested_gpus(self, by: str = "") -> str:
        """GPUs that pods hold, by Node, and by one more label of theirs; from kube-state-metrics."""
        requests = _selector("kube_pod_container_resource_requests", self.others, resource=KUBE_GPUS, node="!")
        living = _selector("kube_pod_status_phase", self.others, phase="~Pending|Running")
        held = f"{requests} and on (cluster, namespace, pod) ({living} == 1)"
        return f'label_replace(sum{_by("cluster, node", by)} ({held}), "node_name", "$1", "node", "(.+)")'

    def idle_gpus(self, **labels: str) -> str:
        """GPUs that no pod holds, by Node and size; nothing at all where kube-state-metrics is not scraped."""
        have = self.allocatable_gpus(**labels)
        held = f"sum by (cluster, node_name) ({self.requested_gpus()})"
        known = f"count by (cluster) ({_selector('kube_pod_status_phase', self.others)})"
        # A Node that has lost GPUs may offer fewer than its pods still hold.
        free = f"clamp_min({have} - on (cluster, node_name) group_left () {held}, 0)"
        return f"(({free} or {have}) and on (cluster) {known})"

    def price(self) -> str:
        """What a machine of a size costs an hour, in the dearest zone; nothing without a price table."""
        name = "karpenter_cloudprovider_instance_type_offering_price_estimate"
        return self.most(name, "cluster, instance_type, capacity_type")

    def cost_of(self, gpus: str) -> str:
        """What these GPUs of Nodes cost an hour: their share of their machines' prices."""
        # Without a GPU on offer a share would be 0 / 0, and a sum with it nothing.
        offered = f"({self.allocatable_gpus()} > 0)"
        share = f"{gpus} / on (cluster, node_name) group_left (instance_type, capacity_type) {offered}"
        return f"{share} * on (cluster, instance_type, capacity_type) group_left () {self.price()}"


# A dashboard's variables choose clusters and releases; rules look at all that their Prometheus has.
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
