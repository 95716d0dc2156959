"""Claims go: how long it takes, what holds them up, which ones we removed ourselves."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import WINDOW

CLAIM, POOL = (
    "karpenter_nodeclaims_termination_duration_seconds",
    "karpenter_nodeclaims_instance_termination_duration_seconds",
)
STUCK = ("TerminationStuck",)

ROW = Row(
    title="Claims go",
    panels=(
        Panel(
            title="Longest removals",
            description="How long claims have been deleting, the ten oldest.",
            unit="s",
            queries=(
                Query(f"topk(10, {S.most('operator_nodeclaim_termination_current_time_seconds', 'name')})", "{{name}}"),
            ),
            steps=((1800, "red"),),
            runbooks=STUCK,
        ),
        Panel(
            title="How long removals take",
            description="From a claim's deletion to its end, and of that the deletion of the agent pool alone.",
            unit="s",
            queries=tuple(
                Query(S.quantile(share, family, "", WINDOW), f"p{share * 100:g} {what}")
                for family, what in ((CLAIM, "claim"), (POOL, "agent pool"))
                for share in (0.5, 0.99)
            ),
            runbooks=STUCK,
        ),
        Panel(
            title="Evictions, by answer",
            description="429: a disruption budget does not let the pod go. 200: it was asked to leave.",
            queries=(Query(S.events("karpenter_nodes_eviction_requests_total", WINDOW, "code"), "{{code}}"),),
            bars=True,
            runbooks=STUCK,
        ),
        Panel(
            title="What came and went",
            description="Within the window.",
            queries=(
                Query(S.events("karpenter_nodeclaims_created_total", WINDOW), "claims taken on"),
                Query(S.events("karpenter_nodeclaims_terminated_total", WINDOW), "claims gone"),
                Query(S.events("karpenter_nodes_created_total", WINDOW), "Nodes registered"),
                Query(S.events("karpenter_nodes_terminated_total", WINDOW), "Nodes gone"),
            ),
        ),
        Panel(
            title="Claims that we deleted ourselves",
            description="By reason: garbage_collected, unhealthy, spot_interrupted. Their owners make new ones.",
            queries=(Query(S.events("karpenter_nodeclaims_disrupted_total", WINDOW, "reason"), "{{reason}}"),),
            bars=True,
            runbooks=("RepairsBlocked",),
        ),
        Panel(
            title="Repairs that wait",
            description="Nodes that should be replaced while too many others are sick, or on their way.",
            queries=(Query(S.most("gpu_provisioner_repairs_blocked"), "blocked"),),
            runbooks=("RepairsBlocked",),
        ),
    ),
)
