"""The expressions of Karpenter's two dashboards (capacity, performance), evaluated with this program's metrics.

Panels, metrics and labels as of 21 Aug 2026, without the filters by variables. Source: karpenter-*-dashboard.json in
https://github.com/aws/karpenter-provider-aws/tree/main/website/content/en/preview/getting-started/getting-started-with-karpenter
"""

import math
from typing import NamedTuple

import pytest

from tools.monitoring.recording import Recording

NO_PODS = "no series has the name of a pod; kube-state-metrics exports those"
NODE_EXPORTER = "the metric is the node exporter's"
QUANTILES = ("0", "0.5", "0.9", "0.99", "1")


class Expression(NamedTuple):
    """An expression of a panel; `missing` is the reason why it returns no data, "" if it returns data."""

    panel: str
    expr: str
    missing: str = ""


def both(panel: str, counter: str, by: str, missing: str = "") -> list[Expression]:
    """The rate and the value of a counter, by labels."""
    return [
        Expression(panel, f"sum by ({by}) (rate({counter}[10s]))", missing),
        Expression(panel, f"sum by ({by}) ({counter})", missing),
    ]


def utilization(resource: str) -> Expression:
    """The requests of daemons and other pods as a share of each Node's allocatable resources; 0 without requests."""
    empty = "karpenter_nodes_allocatable * 0"
    requested = [
        f'(karpenter_nodes_total_{who}_requests{{resource_type="{resource}"}} or {empty})' for who in ("daemon", "pod")
    ]
    return Expression("Nodes", f'({" + ".join(requested)}) / karpenter_nodes_allocatable{{resource_type="{resource}"}}')


CAPACITY = [
    *both("Nodes created", "karpenter_nodes_created_total", "cluster, nodepool"),
    *both("Nodes terminated", "karpenter_nodes_terminated_total", "cluster, nodepool"),
    Expression(
        "Nodes eligible for disruption",
        "sum by (reason) (karpenter_voluntary_disruption_eligible_nodes)",
    ),
    *both("Node disruptions", "karpenter_nodeclaims_disrupted_total", "cluster, nodepool"),
    *both(
        "Disruption actions",
        "karpenter_voluntary_disruption_decisions_total",
        "consolidation_type, decision",
    ),
    Expression("Pod distribution", "sum by (nodepool) (karpenter_pods_state)", NO_PODS),
    Expression("Pod phase", "sum by (phase) (karpenter_pods_state)", NO_PODS),
    *(
        Expression(
            "NodePools",
            f'karpenter_nodepools_usage{{resource_type="{of}"}} / karpenter_nodepools_limit{{resource_type="{of}"}}',
        )
        for of in ("cpu", "memory")
    ),
    Expression("NodePools", 'count by (nodepool) (karpenter_nodes_allocatable{resource_type="cpu"})'),
    *(
        Expression("NodePools", f'sum by (nodepool) (karpenter_nodes_allocatable{{resource_type="{of}"}})')
        for of in ("cpu", "memory")
    ),
    Expression(
        "Share of spot Nodes",
        '(count(karpenter_nodes_allocatable{capacity_type="spot"}) or vector(0)) / count(karpenter_nodes_allocatable)',
    ),
    utilization("cpu"),
    utilization("memory"),
    Expression(
        "Nodes",
        'karpenter_nodes_total_daemon_requests{resource_type="pods"}'
        ' + karpenter_nodes_total_pod_requests{resource_type="pods"}',
        NO_PODS,
    ),
    Expression("Nodes", "sum by (node) (node_time_seconds) - sum by (node) (node_boot_time_seconds)", NODE_EXPORTER),
]
PERFORMANCE = [
    *(
        Expression("Node termination", f'max(karpenter_nodes_termination_duration_seconds{{quantile="{q}"}})')
        for q in QUANTILES
    ),
    *(Expression("Pod startup", f'max(karpenter_pods_startup_duration_seconds{{quantile="{q}"}})') for q in QUANTILES),
    *(
        Expression(
            "Reconciliation latency",
            f"histogram_quantile({q}, rate("
            'controller_runtime_reconcile_time_seconds_bucket{controller="nodeclaim.lifecycle"}[10s]))',
        )
        for q in QUANTILES
    ),
    # Karpenter's expression selects the job `karpenter`; here the job is the name of the release.
    Expression("Reconciliation rate", "sum by (controller) (rate(controller_runtime_reconcile_total[10s]))"),
]
EXPRESSIONS = [*CAPACITY, *PERFORMANCE]


def has_data(recording: Recording, expression: Expression) -> bool:
    """Whether the expression returns a number at any time."""
    found = recording.prometheus.over(expression.expr, recording.start, recording.end)
    return any(math.isfinite(float(value)) for one in found for _, value in one["values"])


def test_karpenters_dashboards_have_data(recording: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the 37 expressions returns data, or has a reason for returning none; the share is printed."""
    results = {expression: has_data(recording, expression) for expression in EXPRESSIONS}
    panels = {expression.panel for expression in EXPRESSIONS}
    filled = {expression.panel for expression, known in results.items() if known}
    with capsys.disabled():
        print(
            f"\nKarpenter's dashboards: {sum(results.values())} of {len(results)} expressions return data, in"
            f" {len(filled)} of {len(panels)} panels; none for: {', '.join(sorted(panels - filled))}"
        )
    assert len(EXPRESSIONS) == 37
    assert [expression for expression, known in results.items() if known is bool(expression.missing)] == []
