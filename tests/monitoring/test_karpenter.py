"""The expressions of Karpenter's two dashboards (capacity, performance), evaluated with this program's metrics.

Panels, metrics and labels as of 21 Aug 2026, without the filters by variables. Source: karpenter-*-dashboard.json in
https://github.com/aws/karpenter-provider-aws/tree/main/website/content/en/preview/getting-started/getting-started-with-karpenter
"""

import math
from typing import NamedTuple

import pytest

from tools.monitoring.recording import Recording

NO_NODEPOOLS = "there are no NodePools: other controllers create the claims"
NO_DISRUPTION = "there is no voluntary disruption: no consolidation, no drift"
NO_PODS = "the controller does not watch all pods; kube-state-metrics exports them"
NODE_EXPORTER = "the metric is the node exporter's"
QUANTILES = ("0", "0.5", "0.9", "0.99", "1")


class Question(NamedTuple):
    """An expression of a panel; `missing` is the reason why it returns no data, "" if it returns data."""

    panel: str
    expr: str
    missing: str = ""


def both(panel: str, counter: str, by: str, missing: str = "") -> list[Question]:
    """The rate and the value of a counter, by labels."""
    return [
        Question(panel, f"sum by ({by}) (rate({counter}[10s]))", missing),
        Question(panel, f"sum by ({by}) ({counter})", missing),
    ]


def utilization(resource: str) -> Question:
    """The requests of daemons and other pods as a share of each Node's allocatable resources; 0 without requests."""
    empty = "karpenter_nodes_allocatable * 0"
    asked = [
        f'(karpenter_nodes_total_{who}_requests{{resource_type="{resource}"}} or {empty})' for who in ("daemon", "pod")
    ]
    return Question("Nodes", f'({" + ".join(asked)}) / karpenter_nodes_allocatable{{resource_type="{resource}"}}')


CAPACITY = [
    *both("Nodes created", "karpenter_nodes_created_total", "cluster, nodepool"),
    *both("Nodes terminated", "karpenter_nodes_terminated_total", "cluster, nodepool"),
    Question(
        "Nodes eligible for disruption",
        "sum by (reason) (karpenter_voluntary_disruption_eligible_nodes)",
        NO_DISRUPTION,
    ),
    *both("Node disruptions", "karpenter_nodeclaims_disrupted_total", "cluster, nodepool"),
    *both(
        "Disruption actions",
        "karpenter_voluntary_disruption_decisions_total",
        "consolidation_type, decision",
        NO_DISRUPTION,
    ),
    Question("Pod distribution", "sum by (nodepool) (karpenter_pods_state)", NO_PODS),
    Question("Pod phase", "sum by (phase) (karpenter_pods_state)", NO_PODS),
    *(
        Question(
            "NodePools",
            f'karpenter_nodepools_usage{{resource_type="{of}"}} / karpenter_nodepools_limit{{resource_type="{of}"}}',
            NO_NODEPOOLS,
        )
        for of in ("cpu", "memory")
    ),
    Question("NodePools", 'count by (nodepool) (karpenter_nodes_allocatable{resource_type="cpu"})'),
    *(
        Question("NodePools", f'sum by (nodepool) (karpenter_nodes_allocatable{{resource_type="{of}"}})')
        for of in ("cpu", "memory")
    ),
    Question(
        "Share of spot Nodes",
        '(count(karpenter_nodes_allocatable{capacity_type="spot"}) or vector(0)) / count(karpenter_nodes_allocatable)',
    ),
    utilization("cpu"),
    utilization("memory"),
    Question(
        "Nodes",
        'karpenter_nodes_total_daemon_requests{resource_type="pods"}'
        ' + karpenter_nodes_total_pod_requests{resource_type="pods"}',
        NO_PODS,
    ),
    Question("Nodes", "sum by (node) (node_time_seconds) - sum by (node) (node_boot_time_seconds)", NODE_EXPORTER),
]
PERFORMANCE = [
    *(
        Question("Node termination", f'max(karpenter_nodes_termination_duration_seconds{{quantile="{q}"}})')
        for q in QUANTILES
    ),
    *(
        Question("Pod startup", f'max(karpenter_pods_startup_duration_seconds{{quantile="{q}"}})', NO_PODS)
        for q in QUANTILES
    ),
    *(
        Question(
            "Reconciliation latency",
            f"histogram_quantile({q}, rate("
            'controller_runtime_reconcile_time_seconds_bucket{controller="nodeclaim.lifecycle"}[10s]))',
        )
        for q in QUANTILES
    ),
    # Karpenter's expression selects the job `karpenter`; here the job is the name of the release.
    Question("Reconciliation rate", "sum by (controller) (rate(controller_runtime_reconcile_total[10s]))"),
]
QUESTIONS = [*CAPACITY, *PERFORMANCE]


def answered(recording: Recording, question: Question) -> bool:
    """Whether the expression returns a number at any time."""
    found = recording.prometheus.over(question.expr, recording.start, recording.end)
    return any(math.isfinite(float(value)) for one in found for _, value in one["values"])


def test_karpenters_dashboards_are_answered_as_far_as_they_can_be(
    recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the 37 expressions returns data, or has a reason for returning none; the share is printed."""
    answers = {question: answered(recording, question) for question in QUESTIONS}
    panels = {question.panel for question in QUESTIONS}
    filled = {question.panel for question, known in answers.items() if known}
    with capsys.disabled():
        print(
            f"\nKarpenter's dashboards: {sum(answers.values())} of {len(answers)} expressions return data, in"
            f" {len(filled)} of {len(panels)} panels; none for: {', '.join(sorted(panels - filled))}"
        )
    assert len(QUESTIONS) == 37
    assert [question for question, known in answers.items() if known is bool(question.missing)] == []
