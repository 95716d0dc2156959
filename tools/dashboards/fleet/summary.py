"""The current state in eight numbers."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import MONEY, PRICES

NOT_READY = "gpu_provisioner_nodeclaims_not_ready"


def number(title: str, description: str, expr: str, **more: object) -> Panel:
    """A panel with one number."""
    return Panel(title=title, description=description, kind="stat", queries=(Query(expr),), width=3, height=4, **more)  # type: ignore[arg-type]


ROW = Row(
    title="Overview",
    panels=(
        number("NodeClaims", "All NodeClaims.", S.all("gpu_provisioner_nodeclaims", "cluster, phase")),
        number(
            "Not Ready",
            "NodeClaims that are not being deleted and have no usable machine.",
            f"{S.all(NOT_READY, 'cluster, condition, reason')} or vector(0)",
            steps=((1, "yellow"), (5, "orange")),
            runbooks=("ClaimStuck",),
        ),
        number(
            "Longest not Ready",
            "The longest time that a NodeClaim has not been Ready. AKS usually takes 3 to 8 minutes.",
            f"{S.most('gpu_provisioner_nodeclaims_not_ready_oldest_seconds')} or vector(0)",
            unit="s",
            steps=((600, "yellow"), (1200, "red")),
            runbooks=("ClaimStuck",),
        ),
        number(
            "Allocatable GPUs",
            "The allocatable share of the billed GPUs. The other Nodes boot, or have no running device plugin.",
            f"{S.all('gpu_provisioner_gpus', 'cluster, instance_type', state='allocatable')}"
            f" / {S.all('gpu_provisioner_gpus', 'cluster, instance_type', state='expected')}",
            unit="percentunit",
            runbooks=("GpusUnusable",),
        ),
        number(
            "Leaked agent pools",
            "Agent pools of the controller without a NodeClaim, which are billed. Usually removed within minutes.",
            S.most("gpu_provisioner_leaked_agent_pools"),
            steps=((1, "orange"),),
            runbooks=("LeakedAgentPools",),
        ),
        number(
            "Cost per hour",
            f"The current cost of all agent pools of the controller. {PRICES}",
            S.all("gpu_provisioner_node_cost_per_hour", "cluster, instance_type, capacity_type"),
            unit=MONEY,
        ),
        number(
            "Inferred removals",
            "RESTRICTED by the circuit breaker: too many machines would be removed at once.",
            S.most("gpu_provisioner_removals_restricted"),
            states={0: ("allowed", "green"), 1: ("RESTRICTED", "red")},
            runbooks=("RemovalsRestricted",),
        ),
        number(
            "Leaders",
            "Replicas that hold the Lease. Without a leader, nothing is created or removed.",
            f"sum({S.alone('leader_election_master_status')})",
            states={0: ("none", "red"), 1: ("one", "green")},
            runbooks=("NoLeader",),
        ),
    ),
)
