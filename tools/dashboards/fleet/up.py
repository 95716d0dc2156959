"""Claims become machines: how many, how fast, and why not."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import WINDOW

PHASES = "gpu_provisioner_nodeclaim_phase_duration_seconds"
NOT_READY = "gpu_provisioner_nodeclaims_not_ready"
SINCE = "operator_nodeclaim_status_condition_current_status_seconds"
SIZE = "~$size"
SHORT = ("QuotaExhausted", "SkuUnavailable")

ROW = Row(
    title="Claims become machines",
    panels=(
        Panel(
            title="Claims by phase",
            description="Where claims are in their life. `unready` were usable once and are not now.",
            queries=(Query(S.most("gpu_provisioner_nodeclaims", "phase"), "{{phase}}"),),
            stacked=True,
        ),
        Panel(
            title="Why claims are not Ready",
            description="Live claims by the first condition that is not True, and its reason; the oldest of each.",
            kind="table",
            queries=(
                Query(S.most(NOT_READY, "condition, reason")),
                Query(S.most(f"{NOT_READY}_oldest_seconds", "condition, reason")),
            ),
            columns={"condition": "Condition", "reason": "Reason", "Value #A": "Claims", "Value #B": "Oldest"},
            units={"Oldest": "s"},
            runbooks=("ClaimStuck", *SHORT),
        ),
        Panel(
            title="Each claim",
            description="Every claim: that it is Ready, or each condition that is not True. Its name opens its story.",
            kind="table",
            queries=(
                Query(
                    f"{S.most(SINCE, 'name, type, status, reason', type='Ready', status='True')}"
                    f" or {S.most(SINCE, 'name, type, status, reason', type='!Ready', status='!True')}"
                ),
            ),
            columns={"name": "Claim", "type": "Condition", "status": "Status", "reason": "Reason", "Value": "For"},
            units={"For": "s"},
            opens="Claim",
            runbooks=("ClaimStuck",),
        ),
        Panel(
            title="Longest wait, by reason",
            description="Age of the oldest claim that is not Ready: since its creation, or since it was last usable.",
            unit="s",
            queries=(Query(S.most(f"{NOT_READY}_oldest_seconds", "condition, reason"), "{{condition}}: {{reason}}"),),
            steps=((1200, "red"),),
            runbooks=("ClaimStuck",),
        ),
        Panel(
            title="Time to Ready, by size",
            description="From a claim's creation to Ready, of the claims that got there within the window.",
            unit="s",
            queries=tuple(
                Query(
                    S.quantile(share, PHASES, "instance_type", WINDOW, phase="ready", instance_type=SIZE),
                    f"p{share * 100:g} {{{{instance_type}}}}",
                )
                for share in (0.5, 0.9, 0.99)
            ),
            steps=((1200, "red"),),
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Where the time goes",
            description="Mean of each stretch of the way up: launch is Azure's, register the Node's, initialize the"
            " GPUs'.",
            unit="s",
            queries=(Query(S.mean(PHASES, WINDOW, "phase", phase="!ready", instance_type=SIZE), "{{phase}}"),),
            stacked=True,
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Create failures, by reason",
            description="Agent pools that Azure refused, or that failed after it had accepted them. `quota` and"
            " `sku_unavailable` need a person.",
            queries=(
                Query(
                    S.events("gpu_provisioner_create_failures_total", WINDOW, "reason", instance_type=SIZE),
                    "{{reason}}",
                ),
            ),
            bars=True,
            runbooks=SHORT,
        ),
        Panel(
            title="What rests",
            description="Sizes that were short, and for how long nobody asks for them; at 0 one claim may try. `any`:"
            " the shortage does not tell these apart.",
            unit="s",
            queries=(
                Query(
                    S.most("gpu_provisioner_offering_cooldown_seconds", "instance_type, zone, capacity_type"),
                    "{{instance_type}} {{zone}} {{capacity_type}}",
                ),
            ),
            runbooks=SHORT,
        ),
        Panel(
            title="Overdue",
            description="Claims that say of a condition that it takes too long, and how often that was said anew.",
            queries=(
                Query(S.most("gpu_provisioner_nodeclaims_overdue", "condition"), "now: {{condition}}"),
                Query(
                    S.events("gpu_provisioner_deadlines_exceeded_total", WINDOW, "deadline"),
                    "in the window: {{deadline}}",
                ),
            ),
            runbooks=("ClaimStuck", "TerminationStuck"),
        ),
    ),
)
