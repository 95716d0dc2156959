"""Agent pools, GPUs and what they cost; what is held by nobody."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import KUBE_STATE, MONEY, PRICES, WINDOW

IDLE = ("IdleGpuSpend",)
LEAKED = ("LeakedAgentPools", "RemovalsBraked")

ROW = Row(
    title="Pools, GPUs and money",
    panels=(
        Panel(
            title="Agent pools",
            description="Of the cluster, ours by state; AKS allows 100.",
            queries=(Query(S.most("gpu_provisioner_agent_pools", "state"), "{{state}}"),),
            stacked=True,
            runbooks=("AgentPoolsNearLimit",),
        ),
        Panel(
            title="Leaked pools and suspects",
            description="Suspected: pools, Nodes and claims whose counterparts are gone, before two looks and a fresh"
            " read have confirmed it.",
            queries=(
                Query(S.most("gpu_provisioner_leaked_agent_pools"), "leaked pools"),
                Query(S.most("gpu_provisioner_removals_suspected"), "suspected"),
            ),
            runbooks=LEAKED,
        ),
        Panel(
            title="The collector",
            description="What was removed without anybody asking for it, and what such removals came to wait for.",
            queries=(
                Query(
                    S.events("gpu_provisioner_gc_deleted_total", WINDOW, "kind, cause"), "removed {{kind}}: {{cause}}"
                ),
                Query(S.events("gpu_provisioner_gc_skipped_total", WINDOW, "reason"), "waits: {{reason}}"),
            ),
            bars=True,
            runbooks=LEAKED,
        ),
        Panel(
            title="GPUs: paid, offered, held",
            description=f"Expected by the pools' sizes, allocatable on Nodes, held by pods. {KUBE_STATE}",
            queries=(
                Query(
                    f"sum by (state) ({S.most('gpu_provisioner_gpus', 'cluster, state, instance_type, gpu_name')})",
                    "{{state}}",
                ),
                Query(f"sum({S.requested_gpus()} and on (cluster, node_name) {S.allocatable_gpus()})", "held by pods"),
            ),
            runbooks=("GpusUnusable", *IDLE),
        ),
        Panel(
            title="Idle GPUs, by size",
            description=f"Offered by a Node and held by no pod. {KUBE_STATE}",
            queries=(Query(f"sum by (instance_type) ({S.idle_gpus()})", "{{instance_type}}"),),
            stacked=True,
            runbooks=IDLE,
        ),
        Panel(
            title="Idle GPU hours",
            description=f"GPUs that no pod held, summed over the time shown. {KUBE_STATE}",
            kind="stat",
            unit="none",
            # Their mean over all looks, times the hours: right whatever the server's own step is.
            queries=(
                Query(
                    f"sum(sum_over_time({S.idle_gpus()}[$__range:]))"
                    " / scalar(count_over_time(vector(1)[$__range:])) * $__range_s / 3600"
                ),
            ),
            runbooks=IDLE,
            width=4,
        ),
        Panel(
            title="Idle cost per hour",
            description=f"What GPUs that no pod holds cost: their share of their machines. {PRICES} {KUBE_STATE}",
            kind="stat",
            unit=MONEY,
            queries=(Query(f"sum({S.cost_of(S.idle_gpus())})"),),
            steps=((10, "orange"),),
            runbooks=IDLE,
            width=4,
        ),
        Panel(
            title="Cost per hour, by size",
            description=f"All agent pools of ours. {PRICES}",
            unit=MONEY,
            queries=(
                Query(
                    S.most("gpu_provisioner_node_cost_per_hour", "instance_type, capacity_type"),
                    "{{instance_type}} {{capacity_type}}",
                ),
            ),
            stacked=True,
            width=12,
        ),
        Panel(
            title="Cost per hour, by namespace",
            description="Of the pods that hold the GPUs: a KAITO workspace's pods run in its namespace. What nobody"
            f" holds is idle. {PRICES} {KUBE_STATE}",
            unit=MONEY,
            queries=(
                Query(f"sum by (namespace) ({S.cost_of(S.requested_gpus('namespace'))})", "{{namespace}}"),
                Query(f"sum({S.cost_of(S.idle_gpus())})", "idle"),
            ),
            stacked=True,
            width=12,
            runbooks=IDLE,
        ),
        Panel(
            title="Nodes",
            description=f"GPUs that each Node offers, and those of them that are idle. {KUBE_STATE}",
            kind="table",
            queries=(
                Query(f"max by (node_name, instance_type, capacity_type) ({S.allocatable_gpus()})"),
                Query(f"max by (node_name, instance_type, capacity_type) ({S.idle_gpus()})"),
            ),
            columns={
                "node_name": "Node",
                "instance_type": "Size",
                "capacity_type": "Capacity",
                "Value #A": "GPUs",
                "Value #B": "Idle",
            },
            width=24,
            height=7,
        ),
    ),
)
