"""Voluntary disruption: commands, candidates, budgets, and replacements that were undone."""

from provisioner.metrics.definitions import karpenter
from tools.dashboards.colors import FAILURES
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import MONEY, WINDOW

VOLUNTARY = "karpenter_voluntary_disruption"
CONDITIONS = "operator_nodeclaim_status_condition_count"
BEING_REPLACED = S.most(CONDITIONS, "cluster, name, reason", type="DisruptionReason", status="True")
BUDGET = "cluster, nodepool, reason"
DELETED = f"~{'|'.join(karpenter.VOLUNTARY)}"
UNDONE = ("ReplacementsUndone",)

ROW = Row(
    title="Disruption",
    panels=(
        Panel(
            title="Disruption commands, by reason",
            description="`delete`: the pods have room on other machines, or there are none. `replace`: replacements are"
            " created first.",
            queries=(
                Query(S.events(f"{VOLUNTARY}_decisions_total", WINDOW, "decision, reason"), "{{decision}} {{reason}}"),
            ),
            bars=True,
        ),
        Panel(
            title="Machines eligible for disruption",
            description="Machines that nothing but budgets, and the order of the commands, keeps from being disrupted.",
            queries=(Query(S.most(f"{VOLUNTARY}_eligible_nodes", "cluster, reason"), "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            title="Disruption budgets, by NodePool",
            description="Machines that may be disrupted at the same time, and those that use this: machines that are"
            " removed or replaced, or are not Ready. A NodePool without a budget for a reason allows all.",
            queries=(
                Query(S.most("karpenter_nodepools_allowed_disruptions", BUDGET), "allowed {{nodepool}} {{reason}}"),
                Query(S.most("karpenter_nodepools_nodes_consuming_budgets", BUDGET), "used {{nodepool}} {{reason}}"),
            ),
        ),
        Panel(
            title="Machines being disrupted",
            description="Machines that wait for their replacements, and NodeClaims that were deleted in the window.",
            queries=(
                Query(f"count by (reason) ({BEING_REPLACED})", "being replaced: {{reason}}"),
                Query(
                    S.events("karpenter_nodeclaims_disrupted_total", WINDOW, "reason", reason=DELETED),
                    "deleted in the window: {{reason}}",
                ),
            ),
            colors={"being replaced: .*": "blue", "deleted in the window: .*": "purple"},
        ),
        Panel(
            title="Undone replacements",
            description="Commands that were undone because a replacement was not Initialized, and machines that the"
            " validation of a command kept.",
            queries=(
                Query(S.events(f"{VOLUNTARY}_queue_failures_total", WINDOW, "reason"), "undone: {{reason}}"),
                Query(
                    S.events(f"{VOLUNTARY}_failed_validations_total", WINDOW, "consolidation_type"),
                    "kept by validation: {{consolidation_type}}",
                ),
            ),
            bars=True,
            colors={**FAILURES, "kept by validation: .*": "yellow"},
            runbooks=UNDONE,
        ),
        Panel(
            title="Saving per hour by consolidation",
            description="The prices per hour that the commands in the window save, by the highest price that their"
            " replacements may have.",
            unit=MONEY,
            queries=(Query(S.events("gpu_provisioner_consolidation_saving_per_hour_total", WINDOW), "saving"),),
            bars=True,
            colors={"saving": "green"},
        ),
        Panel(
            title="Duration of searches",
            description="How long the search for machines to disrupt takes, 99th percentile.",
            unit="s",
            queries=(
                Query(
                    S.quantile(0.99, f"{VOLUNTARY}_decision_evaluation_duration_seconds", "reason", WINDOW),
                    "{{reason}}",
                ),
            ),
        ),
    ),
)
