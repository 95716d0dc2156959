"""Families that are Karpenter's: its names and labels, where the thing is the same, so that its dashboards work.

What is named here is counted as Karpenter counts it, or its `use` says how ours differs.

Source: docs/references/karpenter.md#metrics, https://karpenter.sh/docs/reference/metrics/ (stability levels).
"""

from .family import counter, gauge, histogram, summary, untyped

POOL = ("nodepool",)
# Karpenter's end at 10 s, and an ARM call may take 15.
CALL_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60)
HOUR, DAY = 3600.0, 86400.0
LIFETIME_BUCKETS = (
    *(60.0 * minutes for minutes in (15, 30, 45)),
    *(HOUR * hours for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(DAY * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
STATUS_BUCKETS = tuple(0.5 * 2.0**n for n in range(15))

BUILD_INFO = gauge(
    "karpenter_build_info",
    "STABLE",
    "1, labelled with the version that runs",
    ("version", "goversion", "goarch", "commit"),
    use="Which version runs where. goversion names Python's.",
)
NODECLAIMS_CREATED = counter(
    "karpenter_nodeclaims_created_total",
    "STABLE",
    "NodeClaims that were taken on",
    ("reason", "nodepool", "min_values_relaxed"),
    reasons=("provisioned",),
    use="Counted when the claim gets our finalizer: their owners make them.",
)
NODECLAIMS_TERMINATED = counter(
    "karpenter_nodeclaims_terminated_total",
    "STABLE",
    "NodeClaims that are gone, their machines with them",
    ("nodepool", "capacity_type", "zone"),
)
NODECLAIMS_DISRUPTED = counter(
    "karpenter_nodeclaims_disrupted_total",
    "ALPHA",
    "NodeClaims that were deleted by us, by reason",
    ("reason", "nodepool", "capacity_type"),
    reasons=("garbage_collected", "unhealthy", "spot_interrupted"),
    use="A claim that its owner deletes is not counted.",
)
NODECLAIMS_UNHEALTHY = counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "ALPHA",
    "NodeClaims that were deleted to replace a Node that stopped working",
    ("condition", "nodepool", "capacity_type", "image_id"),
    use="How often repair removes a Node. condition is ready: the Node was not Ready for too long.",
)
NODECLAIMS_TERMINATION = histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    "BETA",
    "From a NodeClaim's deletion to its end",
    POOL,
    buckets=tuple(2.0**n for n in range(12)),
)
INSTANCE_TERMINATION = histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "BETA",
    "From the accepted DELETE of an agent pool to the proof that it is gone",
    POOL,
    buckets=tuple(2.0**n for n in range(11)),
    use="From InstanceTerminating True to the claim's end, or to the word that only objects are left.",
)
NODES_CREATED = counter(
    "karpenter_nodes_created_total", "STABLE", "Nodes that were registered with their NodeClaim", ("nodepool", "zone")
)
NODES_TERMINATED = counter(
    "karpenter_nodes_terminated_total", "STABLE", "Nodes that are gone, their machines with them", ("nodepool", "zone")
)
NODES_DRAINED = counter("karpenter_nodes_drained_total", "ALPHA", "Nodes that were drained to their end", POOL)
NODES_TERMINATION = summary(
    "karpenter_nodes_termination_duration_seconds",
    "BETA",
    "From a Node's deletion to its end",
    POOL,
    use="Quantiles are of the last hour's Nodes; without any they are NaN.",
)
NODES_LIFETIME = histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    "ALPHA",
    "From a Node's creation to its end",
    POOL,
    buckets=LIFETIME_BUCKETS,
)
EVICTION_REQUESTS = counter(
    "karpenter_nodes_eviction_requests_total",
    "ALPHA",
    "Requests to evict a pod, by answer",
    ("code",),
    use="429: a budget does not let the pod go. 200 is an eviction that was accepted, 404 a pod that is gone already.",
)
PODS_DRAINED = counter(
    "karpenter_pods_drained_total",
    "ALPHA",
    "Pods that were asked to leave a Node",
    ("reason",),
    reasons=("", "Forceful Termination"),
    use="Empty for an eviction, the other for a deletion past budgets.",
)
NODES_ALLOCATABLE = gauge(
    "karpenter_nodes_allocatable",
    "BETA",
    "Resources that a Node has for pods",
    (
        *("node_name", "nodepool", "instance_type", "capacity_type", "zone", "region", "arch", "os", "managed"),
        "resource_type",
    ),
    of_objects=True,
    use="Of claims' Nodes only; GPUs are among its resources.",
)
CALL_SECONDS = histogram(
    "karpenter_cloudprovider_duration_seconds",
    "BETA",
    "Duration of cloud provider calls",
    ("controller", "method", "provider"),
    buckets=CALL_BUCKETS,
    use="A List may wait for its turn between two pages; see gpu_provisioner_arm_request_duration_seconds.",
)
CALL_ERRORS = counter(
    "karpenter_cloudprovider_errors_total",
    "BETA",
    "Errors of cloud provider calls, by Karpenter's name for them",
    ("controller", "method", "provider", "error"),
    use="A GET that proves a pool gone counts too, as NodeClaimNotFoundError: each removal ends with one.",
)
PRICE = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "BETA",
    "Price of a machine for an hour, from the price table that was given",
    ("instance_type", "capacity_type", "zone"),
    use="Only what `--prices` names, in its currency: nothing is asked of Azure.",
)
CONDITION_LABELS = ("namespace", "name", "type", "status", "reason", "karpenter_sh_nodepool", "kaito_sh_kaitonodeclass")
CLASS_LABELS = ("karpenter_sh_nodepool", "kaito_sh_kaitonodeclass")
CONDITION_COUNT = untyped(
    "operator_nodeclaim_status_condition_count",
    "BETA",
    "1 for each condition of each NodeClaim",
    CONDITION_LABELS,
    of_objects=True,
)
CONDITION_SECONDS = gauge(
    "operator_nodeclaim_status_condition_current_status_seconds",
    "BETA",
    "How long each condition of each NodeClaim has had its status",
    CONDITION_LABELS,
    of_objects=True,
)
CONDITION_TRANSITION = histogram(
    "operator_nodeclaim_status_condition_transition_seconds",
    "BETA",
    "How long a condition had a status before it changed; the labels are those before",
    ("type", "status", *CLASS_LABELS),
    buckets=STATUS_BUCKETS,
)
CONDITION_TRANSITIONS = counter(
    "operator_nodeclaim_status_condition_transitions_total",
    "BETA",
    "Changes of conditions, by what they became",
    ("type", "status", "reason", *CLASS_LABELS),
)
TERMINATION_CURRENT = gauge(
    "operator_nodeclaim_termination_current_time_seconds",
    "BETA",
    "How long a NodeClaim has been deleting",
    ("namespace", "name", *CLASS_LABELS),
    of_objects=True,
)
TERMINATION_DURATION = histogram(
    "operator_nodeclaim_termination_duration_seconds",
    "BETA",
    "From a NodeClaim's deletion to its end",
    CLASS_LABELS,
    buckets=STATUS_BUCKETS,
)
