"""What is wrong now, in eight numbers."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import MONEY, PRICES

NOT_READY = "gpu_provisioner_nodeclaims_not_ready"


def number(title: str, description: str, expr: str, **more: object) -> Panel:
    """One number."""
    return Panel(title=title, description=description, kind="stat", queries=(Query(expr),), width=3, height=4, **more)  # type: ignore[arg-type]


ROW = Row(
    title="Now",
    panels=(
        number("Claims", "NodeClaims that exist.", S.all("gpu_provisioner_nodeclaims", "cluster, phase")),
        number(
            "Not Ready",
            "Live claims whose users wait for a machine, or have lost the use of one.",
            f"{S.all(NOT_READY, 'cluster, condition, reason')} or vector(0)",
            steps=((1, "yellow"), (5, "orange")),
            runbooks=("ClaimStuck",),
        ),
        number(
            "Oldest not Ready",
            "How long the user who waits longest has waited. AKS usually takes 3 to 8 minutes.",
            f"{S.most('gpu_provisioner_nodeclaims_not_ready_oldest_seconds')} or vector(0)",
            unit="s",
            steps=((600, "yellow"), (1200, "red")),
            runbooks=("ClaimStuck",),
        ),
        number(
            "GPUs usable",
            "The share of the GPUs paid for that Nodes offer to pods. The rest boots, or has no running device plugin.",
            f"{S.all('gpu_provisioner_gpus', 'cluster, instance_type', state='allocatable')}"
            f" / {S.all('gpu_provisioner_gpus', 'cluster, instance_type', state='expected')}",
            unit="percentunit",
            runbooks=("GpusUnusable",),
        ),
        number(
            "Leaked pools",
            "Agent pools of ours without a claim: billed, and of use to nobody. They should go within minutes.",
            S.most("gpu_provisioner_leaked_agent_pools"),
            steps=((1, "orange"),),
            runbooks=("LeakedAgentPools",),
        ),
        number(
            "Cost per hour",
            f"What the agent pools of ours cost now. {PRICES}",
            S.all("gpu_provisioner_node_cost_per_hour", "cluster, instance_type, capacity_type"),
            unit=MONEY,
        ),
        number(
            "Removals held back",
            "BRAKED while so much looks like garbage that none of it is removed until a person has looked.",
            S.most("gpu_provisioner_removals_braked"),
            states={0: ("none", "green"), 1: ("BRAKED", "red")},
            runbooks=("RemovalsBraked",),
        ),
        number(
            "Leaders",
            "Replicas that act. One is right: with none nothing is made or removed.",
            f"sum({S.alone('leader_election_master_status')})",
            states={0: ("none", "red"), 1: ("one", "green")},
            runbooks=("NoLeader",),
        ),
    ),
)
