"""Metric families with Karpenter's names and labels, so that its dashboards work.

They count what Karpenter counts; `use` states any difference.

Source: docs/references/karpenter.md#metrics, https://karpenter.sh/docs/reference/metrics/ (stability levels).
"""

from provisioner.api.causes import CAUSE_OF, CAUSES

from .family import counter, gauge, histogram, summary, untyped

POOL = ("nodepool",)
# Karpenter's buckets end at 10 s; an ARM call may take 15 s.
CALL_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60)
HOUR, DAY = 3600.0, 86400.0
LIFETIME_BUCKETS = (
    *(60.0 * minutes for minutes in (15, 30, 45)),
    *(HOUR * hours for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(DAY * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
STATUS_BUCKETS = tuple(0.5 * 2.0**n for n in range(15))
DECISION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# The reasons of voluntary disruption, as Karpenter writes them in counters.
VOLUNTARY = tuple(CAUSES[cause].disrupted for cause in CAUSE_OF.values())
# Karpenter's buckets end at ten minutes; a pod may wait half an hour for a GPU machine.
POD_BUCKETS = (0.5, 1, 2, 5, 10, 15, 30, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600)

BUILD_INFO = gauge(
    "karpenter_build_info",
    "STABLE",
    "Always 1, labelled with the running version",
    ("version", "goversion", "goarch", "commit"),
    use="`goversion` is the version of Python.",
)
NODECLAIMS_CREATED = counter(
    "karpenter_nodeclaims_created_total",
    "STABLE",
    "NodeClaims that the controller manages for the first time",
    ("reason", "nodepool", "min_values_relaxed"),
    reasons=("provisioned",),
    use="Counted with the first status, also of a NodeClaim that another controller or a user created.",
)
NODECLAIMS_TERMINATED = counter(
    "karpenter_nodeclaims_terminated_total",
    "STABLE",
    "NodeClaims that were terminated together with their instances",
    ("nodepool", "capacity_type", "zone"),
)
NODECLAIMS_DISRUPTED = counter(
    "karpenter_nodeclaims_disrupted_total",
    "ALPHA",
    "NodeClaims that the controller deleted, by reason",
    ("reason", "nodepool", "capacity_type"),
    reasons=sorted({row.disrupted for row in CAUSES.values() if row.disrupted}),
    use="NodeClaims that users or other controllers delete are not counted.",
)
NODECLAIMS_UNHEALTHY = counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "ALPHA",
    "NodeClaims that were deleted because their Node was unhealthy",
    ("condition", "nodepool", "capacity_type", "image_id"),
    use="`condition` is `ready`: the Node was not Ready for longer than the toleration duration.",
)
NODECLAIMS_TERMINATION = histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    "BETA",
    "Time from the deletion of a NodeClaim to its removal",
    POOL,
    buckets=tuple(2.0**n for n in range(12)),
)
INSTANCE_TERMINATION = histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "BETA",
    "Time from the accepted DELETE of an agent pool to the proof of its absence",
    POOL,
    buckets=tuple(2.0**n for n in range(11)),
    use="From InstanceTerminating True to the removal of the NodeClaim, or until that condition is no longer True.",
)
NODES_CREATED = counter("karpenter_nodes_created_total", "STABLE", "Nodes that were registered", ("nodepool", "zone"))
NODES_TERMINATED = counter(
    "karpenter_nodes_terminated_total",
    "STABLE",
    "Nodes that were terminated together with their instances",
    ("nodepool", "zone"),
)
NODES_DRAINED = counter("karpenter_nodes_drained_total", "ALPHA", "Nodes whose drain completed", POOL)
NODES_TERMINATION = summary(
    "karpenter_nodes_termination_duration_seconds",
    "BETA",
    "Time from the deletion of a Node to its removal",
    POOL,
    use="Quantiles cover the last hour; without Nodes in that time they are NaN.",
)
NODES_LIFETIME = histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    "ALPHA",
    "Time from the creation of a Node to its removal",
    POOL,
    buckets=LIFETIME_BUCKETS,
)
EVICTION_REQUESTS = counter(
    "karpenter_nodes_eviction_requests_total",
    "ALPHA",
    "Requests to evict a pod, by response",
    ("code",),
    use="200: accepted; 404: the pod no longer exists; 429: a PodDisruptionBudget blocks the eviction.",
)
PODS_DRAINED = counter(
    "karpenter_pods_drained_total",
    "ALPHA",
    "Pods that were evicted or deleted to drain a Node",
    ("reason",),
    reasons=("", "Forceful Termination"),
    use="Empty for an eviction; `Forceful Termination` for a deletion that bypasses PodDisruptionBudgets.",
)
NODES_ALLOCATABLE = gauge(
    "karpenter_nodes_allocatable",
    "BETA",
    "Allocatable resources of a Node",
    (
        *("node_name", "nodepool", "instance_type", "capacity_type", "zone", "region", "arch", "os", "managed"),
        "resource_type",
    ),
    of_objects=True,
    use="Nodes of NodeClaims only; the resources include GPUs.",
)
CALL_SECONDS = histogram(
    "karpenter_cloudprovider_duration_seconds",
    "BETA",
    "Duration of cloud provider calls",
    ("controller", "method", "provider"),
    buckets=CALL_BUCKETS,
    use="A List includes waits for the client-side rate limit; see gpu_provisioner_arm_request_duration_seconds.",
)
CALL_ERRORS = counter(
    "karpenter_cloudprovider_errors_total",
    "BETA",
    "Errors of cloud provider calls, by Karpenter's error name",
    ("controller", "method", "provider", "error"),
    use="A GET that proves the absence of an agent pool counts as NodeClaimNotFoundError.",
)
SCHEDULING_DURATION = histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    "STABLE",
    "Duration of a scheduling decision",
    ("controller",),
    buckets=DECISION_BUCKETS,
)
UNSCHEDULABLE_PODS = untyped(
    "karpenter_scheduler_unschedulable_pods_count",
    "ALPHA",
    "Pods for which the last decision found no machine",
    ("controller",),
)
IGNORED_PODS = untyped(
    "karpenter_scheduler_ignored_pods_count",
    "ALPHA",
    "Pods without a Node for which no machine is bought, such as those that kube-scheduler has not tried to place",
)
QUEUE_DEPTH = gauge(
    "karpenter_scheduler_queue_depth",
    "BETA",
    "Pods of the last scheduling decision",
    ("controller",),
)
UNFINISHED_WORK = gauge(
    "karpenter_scheduler_unfinished_work_seconds",
    "ALPHA",
    "Time since a scheduling decision was due that is not written yet; 0 if none is due",
    ("controller",),
    use="Includes reads, writes and waits for caches; there is no label `scheduling_id`.",
)
NODEPOOLS_USAGE = gauge(
    "karpenter_nodepools_usage",
    "ALPHA",
    "Resources of all machines of a NodePool",
    ("resource_type", "nodepool"),
    of_objects=True,
    use="Of NodePools of this controller only; `nodes` counts machines.",
)
NODEPOOLS_LIMIT = gauge(
    "karpenter_nodepools_limit",
    "ALPHA",
    "Limits of a NodePool",
    ("resource_type", "nodepool"),
    of_objects=True,
    use="Of NodePools of this controller only.",
)
NODEPOOLS_COST = untyped(
    "karpenter_nodepools_cost_total",
    "ALPHA",
    "Price per hour of the agent pools of a NodePool",
    POOL,
    of_objects=True,
    use="Prices as in `gpu_provisioner_node_cost_per_hour`; machines without a price are counted there.",
)
NODEPOOLS_ALLOWED_DISRUPTIONS = gauge(
    "karpenter_nodepools_allowed_disruptions",
    "ALPHA",
    "Machines of a NodePool that its budgets allow to be disrupted at the same time",
    (*POOL, "reason"),
    reasons=tuple(CAUSE_OF),
    of_objects=True,
    use="Without a budget for the reason there is no series.",
)
NODEPOOLS_CONSUMING_BUDGETS = gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    "ALPHA",
    "Machines of a NodePool that use its budgets: those that are removed or replaced, or are not Ready",
    (*POOL, "reason"),
    reasons=tuple(CAUSE_OF),
    of_objects=True,
    use="Only where `karpenter_nodepools_allowed_disruptions` has a series.",
)
DISRUPTION_EVALUATION = histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "BETA",
    "Duration of the search for machines to disrupt",
    ("reason", "consolidation_type"),
    reasons=VOLUNTARY,
    buckets=DECISION_BUCKETS,
    use="`empty`: for one NodePool; `drifted`: for static and for dynamic NodePools, each. One search covers both types"
    " of consolidation, with an empty `consolidation_type`.",
)
DISRUPTION_DECISIONS = counter(
    "karpenter_voluntary_disruption_decisions_total",
    "STABLE",
    "Disruption commands that were begun",
    ("decision", "reason", "consolidation_type"),
    reasons=VOLUNTARY,
)
DISRUPTION_ELIGIBLE = gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    "BETA",
    "Machines that nothing but budgets keeps from being disrupted",
    ("reason",),
    reasons=VOLUNTARY,
    use="`empty` and `underutilized`: in the last search.",
)
DISRUPTION_FAILED_VALIDATIONS = counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    "ALPHA",
    "Machines that were selected for disruption and that the validation of the command kept",
    ("consolidation_type",),
)
DISRUPTION_FAILURES = counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    "BETA",
    "Disruption commands that were undone",
    ("decision", "reason", "consolidation_type"),
    reasons=VOLUNTARY,
    use="Each command counts once; Karpenter counts its replacements, with the decision as `consolidation_type`.",
)
PODS_DECISION = histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    "ALPHA",
    "Time from the creation of a pod to the first decision about it",
    buckets=(0.5, 1, 1.5, 2, 3, 5, 10, 15, 30, 60, 300),
    use="Karpenter counts from the moment at which it first sees the pod.",
)
PODS_BOUND = histogram(
    "karpenter_pods_bound_duration_seconds",
    "ALPHA",
    "Time from the creation of a pod until it was bound to a Node",
    buckets=POD_BUCKETS,
    use="All pods that were seen without a Node while a NodePool exists, DaemonSets included.",
)
PODS_STARTUP = summary(
    "karpenter_pods_startup_duration_seconds",
    "STABLE",
    "Time from the creation of a pod until it was Ready",
    use="The pods of `karpenter_pods_bound_duration_seconds`; quantiles cover the last hour.",
)
PODS_PROVISIONING_BOUND = histogram(
    "karpenter_pods_provisioning_bound_duration_seconds",
    "ALPHA",
    "Time from the first decision with a machine or Node for a pod until the pod was bound",
    buckets=POD_BUCKETS,
    use="Only pods of scheduling decisions.",
)
PODS_PROVISIONING_STARTUP = histogram(
    "karpenter_pods_provisioning_startup_duration_seconds",
    "ALPHA",
    "Time from the first decision with a machine or Node for a pod until the pod was Ready",
    buckets=POD_BUCKETS,
    use="Only pods of scheduling decisions.",
)
PRICE = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "BETA",
    "Price per hour of an instance",
    ("instance_type", "capacity_type", "zone"),
    use="Of existing Nodes, in USD: the mean of their prices, which NodeOverlays can change for each NodePool. Spot"
    " machines without a price of their own count with the price on demand.",
)
CONDITION_LABELS = ("namespace", "name", "type", "status", "reason", "karpenter_sh_nodepool", "kaito_sh_kaitonodeclass")
CLASS_LABELS = ("karpenter_sh_nodepool", "kaito_sh_kaitonodeclass")
CONDITION_COUNT = untyped(
    "operator_nodeclaim_status_condition_count",
    "BETA",
    "Always 1, for each condition of each NodeClaim",
    CONDITION_LABELS,
    of_objects=True,
)
CONDITION_SECONDS = gauge(
    "operator_nodeclaim_status_condition_current_status_seconds",
    "BETA",
    "Time since each condition of each NodeClaim changed its status",
    CONDITION_LABELS,
    of_objects=True,
)
CONDITION_TRANSITION = histogram(
    "operator_nodeclaim_status_condition_transition_seconds",
    "BETA",
    "Time that a condition had a status before it changed; labels are those before the change",
    ("type", "status", *CLASS_LABELS),
    buckets=STATUS_BUCKETS,
)
CONDITION_TRANSITIONS = counter(
    "operator_nodeclaim_status_condition_transitions_total",
    "BETA",
    "Status changes of conditions, by the new status and reason",
    ("type", "status", "reason", *CLASS_LABELS),
)
TERMINATION_CURRENT = gauge(
    "operator_nodeclaim_termination_current_time_seconds",
    "BETA",
    "Time since the deletion of a NodeClaim",
    ("namespace", "name", *CLASS_LABELS),
    of_objects=True,
)
TERMINATION_DURATION = histogram(
    "operator_nodeclaim_termination_duration_seconds",
    "BETA",
    "Time from the deletion of a NodeClaim to its removal",
    CLASS_LABELS,
    buckets=STATUS_BUCKETS,
)
