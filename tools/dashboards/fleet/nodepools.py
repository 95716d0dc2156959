"""NodePools and the pods that wait for their machines."""

from tools.dashboards.colors import PODS
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import MONEY, PRICES, WINDOW

DECISION = "karpenter_scheduler_scheduling_duration_seconds"
FIRST = "karpenter_pods_scheduling_decision_duration_seconds"
BOUND = "karpenter_pods_provisioning_bound_duration_seconds"
STARTUP = "karpenter_pods_provisioning_startup_duration_seconds"
USAGE, LIMIT = "karpenter_nodepools_usage", "karpenter_nodepools_limit"
BY_POOL, BY_RESOURCE = "cluster, nodepool", "cluster, nodepool, resource_type"
UNSCHEDULABLE = ("PodsUnschedulable", "PurchaseBrake")

ROW = Row(
    title="NodePools and pending pods",
    panels=(
        Panel(
            title="Pending pods",
            description="Pods of the last scheduling decision, those among them that no machine can take, pods"
            " without a Node that are ignored, such as those with a scheduling gate, and pods whose constraints are too"
            " large.",
            queries=(
                Query(S.most("karpenter_scheduler_queue_depth"), "pending"),
                Query(S.most("karpenter_scheduler_unschedulable_pods_count"), "unschedulable"),
                Query(S.most("karpenter_scheduler_ignored_pods_count"), "ignored"),
                Query(S.most("gpu_provisioner_pods_set_aside"), "set aside"),
            ),
            colors=PODS,
            runbooks=UNSCHEDULABLE,
        ),
        Panel(
            title="Time until pods run",
            description="From the first decision with a place for a pod until the pod was bound, and until it was"
            " Ready: mostly the time that Azure takes for a machine.",
            unit="s",
            queries=tuple(
                Query(S.quantile(share, family, "", WINDOW), f"p{share * 100:g} {what}")
                for family, what in ((BOUND, "bound"), (STARTUP, "Ready"))
                for share in (0.5, 0.9)
            ),
        ),
        Panel(
            title="Duration of scheduling decisions",
            description="The decisions themselves, from the creation of a pod to the first decision about it, and the"
            " time since a decision was due that is not written yet.",
            unit="s",
            queries=(
                Query(S.quantile(0.9, DECISION, "", WINDOW), "p90 decision"),
                Query(S.quantile(0.9, FIRST, "", WINDOW), "p90 pod to first decision"),
                Query(S.most("karpenter_scheduler_unfinished_work_seconds"), "not written yet"),
            ),
            colors={"not written yet": "orange"},
        ),
        Panel(
            title="Usage of NodePool limits",
            description="The machines' resources as a share of the limits of their NodePool; at 1 no machine is added.",
            unit="percentunit",
            queries=(
                Query(f"{S.most(USAGE, BY_RESOURCE)} / {S.most(LIMIT, BY_RESOURCE)}", "{{nodepool}} {{resource_type}}"),
            ),
            steps=((1, "red"),),
            runbooks=UNSCHEDULABLE,
        ),
        Panel(
            title="Machines, by NodePool",
            description="NodeClaims of each NodePool, those without a Node included.",
            queries=(Query(S.most(USAGE, BY_POOL, resource_type="nodes"), "{{nodepool}}"),),
            stacked=True,
        ),
        Panel(
            title="Cost per hour, by NodePool",
            description=f"The agent pools of each NodePool's NodeClaims. {PRICES}",
            unit=MONEY,
            queries=(Query(S.most("karpenter_nodepools_cost_total", BY_POOL), "{{nodepool}}"),),
            stacked=True,
        ),
    ),
)
