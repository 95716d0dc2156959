"""Agent pools, GPUs and their cost; leaked pools and idle GPUs."""

from tools.dashboards.colors import GPUS, POOL_STATES
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import KUBE_STATE, MONEY, PRICES, WINDOW

IDLE = ("IdleGpuSpend",)
LEAKED = ("LeakedAgentPools", "RemovalsRestricted")

ROW = Row(
    title="Agent pools, GPUs and cost",
    panels=(
        Panel(
            title="Agent pools",
            description="All agent pools of the cluster; the controller's by state. AKS allows 100.",
            queries=(Query(S.most("gpu_provisioner_agent_pools", "state"), "{{state}}"),),
            stacked=True,
            colors=POOL_STATES,
            runbooks=("AgentPoolsNearLimit",),
        ),
        Panel(
            title="Agent pools without a NodeClaim",
            description="Candidates of garbage collection: pools, Nodes and NodeClaims without a counterpart, which two"
            " observations and a fresh read have not confirmed yet.",
            queries=(
                Query(S.most("gpu_provisioner_leaked_agent_pools"), "leaked pools"),
                Query(S.most("gpu_provisioner_removal_candidates"), "candidates"),
            ),
            colors={"leaked pools": "red", "candidates": "orange"},
            runbooks=LEAKED,
        ),
        Panel(
            title="Garbage collection",
            description="Removed objects by cause, and delayed removals by the reason of the delay.",
            queries=(
                Query(
                    S.events("gpu_provisioner_gc_deleted_total", WINDOW, "kind, cause"), "removed {{kind}}: {{cause}}"
                ),
                Query(S.events("gpu_provisioner_gc_skipped_total", WINDOW, "reason"), "delayed: {{reason}}"),
            ),
            bars=True,
            colors={"removed .*": "purple", "delayed: .*": "orange"},
            runbooks=LEAKED,
        ),
        Panel(
            title="GPUs",
            description=f"Expected from the pools' sizes, allocatable on Nodes, requested by pods. {KUBE_STATE}",
            queries=(
                Query(
                    f"sum by (state) ({S.most('gpu_provisioner_gpus', 'cluster, state, instance_type, gpu_name')})",
                    "{{state}}",
                ),
                Query(f"sum({S.requested_gpus()} and on (cluster, node_name) {S.allocatable_gpus()})", "requested"),
            ),
            colors=GPUS,
            runbooks=("GpusUnusable", *IDLE),
        ),
        Panel(
            title="Idle GPUs, by size",
            description=f"Allocatable on a Node and not requested by a pod. {KUBE_STATE}",
            queries=(Query(f"sum by (instance_type) ({S.idle_gpus()})", "{{instance_type}}"),),
            stacked=True,
            runbooks=IDLE,
        ),
        Panel(
            title="Idle GPU hours",
            description=f"GPUs that no pod requested, summed over the time range. {KUBE_STATE}",
            kind="stat",
            unit="none",
            # The mean over all steps times the hours does not depend on the server's default step.
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
            description="The cost of GPUs that no pod requests: their share of their machines' prices."
            f" {PRICES} {KUBE_STATE}",
            kind="stat",
            unit=MONEY,
            queries=(Query(f"sum({S.cost_of(S.idle_gpus())})"),),
            steps=((10, "orange"),),
            runbooks=IDLE,
            width=4,
        ),
        Panel(
            title="Cost per hour, by size",
            description=f"All agent pools of the controller. {PRICES}",
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
            description="By the namespace of the pods that request the GPUs; a KAITO workspace's pods run in its"
            f" namespace. `idle` is the rest. {PRICES} {KUBE_STATE}",
            unit=MONEY,
            queries=(
                Query(f"sum by (namespace) ({S.cost_of(S.requested_gpus('namespace'))})", "{{namespace}}"),
                Query(f"sum({S.cost_of(S.idle_gpus())})", "idle"),
            ),
            colors={"idle": "orange"},
            stacked=True,
            width=12,
            runbooks=IDLE,
        ),
        Panel(
            title="Nodes",
            description=f"Allocatable GPUs of each Node, and the idle ones among them. {KUBE_STATE}",
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
