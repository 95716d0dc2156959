"""Termination: durations, blocked evictions, and NodeClaims that the controller deleted."""

from tools.dashboards.colors import CODES, FAILURES
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import WINDOW

CLAIM, POOL = (
    "karpenter_nodeclaims_termination_duration_seconds",
    "karpenter_nodeclaims_instance_termination_duration_seconds",
)
STUCK = ("TerminationStuck",)

ROW = Row(
    title="Termination",
    panels=(
        Panel(
            title="Longest terminations",
            description="Time since the deletion timestamp, for the ten oldest.",
            unit="s",
            queries=(
                Query(f"topk(10, {S.most('operator_nodeclaim_termination_current_time_seconds', 'name')})", "{{name}}"),
            ),
            steps=((1800, "red"),),
            runbooks=STUCK,
        ),
        Panel(
            title="Termination duration",
            description="From the deletion timestamp of a NodeClaim to its end, and the deletion of its agent pool.",
            unit="s",
            queries=tuple(
                Query(S.quantile(share, family, "", WINDOW), f"p{share * 100:g} {what}")
                for family, what in ((CLAIM, "NodeClaim"), (POOL, "agent pool"))
                for share in (0.5, 0.99)
            ),
            runbooks=STUCK,
        ),
        Panel(
            title="Evictions, by status code",
            description="200: the eviction was accepted. 429: a PodDisruptionBudget blocks it.",
            queries=(Query(S.events("karpenter_nodes_eviction_requests_total", WINDOW, "code"), "{{code}}"),),
            bars=True,
            colors=CODES,
            runbooks=STUCK,
        ),
        Panel(
            title="Created and terminated",
            description="NodeClaims and Nodes within the window.",
            queries=(
                Query(S.events("karpenter_nodeclaims_created_total", WINDOW), "NodeClaims created"),
                Query(S.events("karpenter_nodeclaims_terminated_total", WINDOW), "NodeClaims terminated"),
                Query(S.events("karpenter_nodes_created_total", WINDOW), "Nodes registered"),
                Query(S.events("karpenter_nodes_terminated_total", WINDOW), "Nodes terminated"),
            ),
            colors={".* (created|registered)": "green", ".* terminated": "purple"},
        ),
        Panel(
            title="NodeClaims deleted by the controller",
            description="By reason. Users and other controllers are not counted.",
            queries=(Query(S.events("karpenter_nodeclaims_disrupted_total", WINDOW, "reason"), "{{reason}}"),),
            bars=True,
            runbooks=("RepairsBlocked",),
        ),
        Panel(
            title="Blocked repairs",
            description="Unhealthy Nodes that are not repaired, because too many Nodes are unhealthy or terminating.",
            queries=(Query(S.most("gpu_provisioner_repairs_blocked"), "blocked"),),
            colors=FAILURES,
            runbooks=("RepairsBlocked",),
        ),
    ),
)
