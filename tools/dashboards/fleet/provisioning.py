"""Provisioning: phases, durations, failures and unavailable offerings."""

from tools.dashboards.colors import FAILURES
from tools.dashboards.colors import PHASES as PHASE_COLORS
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import WINDOW

PHASES = "gpu_provisioner_nodeclaim_phase_duration_seconds"
NOT_READY = "gpu_provisioner_nodeclaims_not_ready"
SINCE = "operator_nodeclaim_status_condition_current_status_seconds"
SIZE = "~$size"
SHORT = ("QuotaExhausted", "SkuUnavailable")

ROW = Row(
    title="Provisioning",
    panels=(
        Panel(
            title="NodeClaims by phase",
            description="`NotReady`: the machine was usable before and is not usable now.",
            queries=(Query(S.most("gpu_provisioner_nodeclaims", "phase"), "{{phase}}"),),
            stacked=True,
            colors=PHASE_COLORS,
        ),
        Panel(
            title="NodeClaims not Ready, by reason",
            description="By the first condition that is not True, with its reason and the age of the oldest.",
            kind="table",
            queries=(
                Query(S.most(NOT_READY, "condition, reason")),
                Query(S.most(f"{NOT_READY}_oldest_seconds", "condition, reason")),
            ),
            columns={"condition": "Condition", "reason": "Reason", "Value #A": "NodeClaims", "Value #B": "Oldest"},
            units={"Oldest": "s"},
            runbooks=("ClaimStuck", *SHORT),
        ),
        Panel(
            title="NodeClaims by name",
            description="Each NodeClaim that is Ready, or its conditions that are not True. The name links to its"
            " dashboard.",
            kind="table",
            queries=(
                Query(
                    f"{S.most(SINCE, 'name, type, status, reason', type='Ready', status='True')}"
                    f" or {S.most(SINCE, 'name, type, status, reason', type='!Ready', status='!True')}"
                ),
            ),
            columns={
                "name": "NodeClaim",
                "type": "Condition",
                "status": "Status",
                "reason": "Reason",
                "Value": "Since",
            },
            units={"Since": "s"},
            opens="NodeClaim",
            runbooks=("ClaimStuck",),
        ),
        Panel(
            title="Longest time not Ready, by reason",
            description="For the oldest NodeClaim that is not Ready: since its creation, or since it was last usable.",
            unit="s",
            queries=(Query(S.most(f"{NOT_READY}_oldest_seconds", "condition, reason"), "{{condition}}: {{reason}}"),),
            steps=((1200, "red"),),
            runbooks=("ClaimStuck",),
        ),
        Panel(
            title="Time to Ready, by size",
            description="From creation to Ready, for the NodeClaims that became Ready within the window.",
            unit="s",
            queries=tuple(
                Query(
                    S.quantile(share, PHASES, "instance_type", WINDOW, phase="Ready", instance_type=SIZE),
                    f"p{share * 100:g} {{{{instance_type}}}}",
                )
                for share in (0.5, 0.9, 0.99)
            ),
            steps=((1200, "red"),),
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Duration by phase",
            description="Mean duration of launch (Azure), registration (Node) and initialization (GPUs).",
            unit="s",
            queries=(Query(S.mean(PHASES, WINDOW, "phase", phase="!Ready", instance_type=SIZE), "{{phase}}"),),
            stacked=True,
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Failed creations, by reason",
            description="Agent pools that Azure rejected, or that failed after Azure accepted them. `quota` and"
            " `sku_unavailable` need an operator.",
            queries=(
                Query(
                    S.events("gpu_provisioner_create_failures_total", WINDOW, "reason", instance_type=SIZE),
                    "{{reason}}",
                ),
            ),
            bars=True,
            colors=FAILURES,
            runbooks=SHORT,
        ),
        Panel(
            title="Unavailable offerings",
            description="Time until an unavailable offering is retried; at 0 one NodeClaim retries it. `any`: all zones"
            " or capacity types are unavailable.",
            unit="s",
            queries=(
                Query(
                    S.most("gpu_provisioner_offering_unavailable_seconds", "instance_type, zone, capacity_type"),
                    "{{instance_type}} {{zone}} {{capacity_type}}",
                ),
            ),
            runbooks=SHORT,
        ),
        Panel(
            title="Exceeded deadlines",
            description="NodeClaims with a condition that exceeds its deadline, and how often a deadline was exceeded.",
            queries=(
                Query(S.most("gpu_provisioner_nodeclaims_overdue", "condition"), "overdue: {{condition}}"),
                Query(
                    S.events("gpu_provisioner_deadlines_exceeded_total", WINDOW, "deadline"),
                    "exceeded in the window: {{deadline}}",
                ),
            ),
            colors={"overdue: .*": "red", "exceeded in the window: .*": "orange"},
            runbooks=("ClaimStuck", "TerminationStuck"),
        ),
    ),
)
