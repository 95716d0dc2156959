"""Metric families of this program, for which Karpenter has no name: sizes, phases, agent pools and ARM.

Source: docs/references/monitoring.md#names, docs/references/monitoring.md#alerts-and-panels.
"""

from typing import get_args

from provisioner.api.causes import RemovalBlocker
from provisioner.api.workload import Cause

from .family import counter, gauge, histogram
from .labels import OTHER

CREATE_REASONS = (
    "quota",
    "sku_unavailable",
    "allocation",
    "pool_limit",
    "conflict",
    "throttled",
    "auth",
    "cluster_not_running",
    "timeout",
    "network",
    "policy",
    "bring_up",
    "invalid_spec",
    OTHER,
)

# What an inferred removal waits for, other than time.
HELD_REASONS: tuple[RemovalBlocker, ...] = get_args(RemovalBlocker)
ADMISSION_REASONS = ("unregistered", "unhealthy", "unavailable", "too_large", OTHER)
# Why a machine does not take the pods that it was bought for; "fits": kube-scheduler does not bind them, "taken": pods
# of others are on it, "abandoned": the pods were deleted before it was Ready.
MISFIT_REASONS = ("resources", "label", "taint", "fits", "taken", "abandoned", OTHER)
# "Unknown": the absence of GPUs was not diagnosed.
GATE_REASONS = (*Cause, "Unknown")
# Why the retail prices could not be read; "empty": the answer has no price of a known size.
PRICE_READ_REASONS = ("network", "timeout", "throttled", "status", "body", "empty")
CREDENTIAL_REASONS = ("no_token", "unauthenticated", "forbidden")

# AKS creates a GPU pool in 3 to 30 minutes, which is +Inf in Karpenter's buckets.
PHASE_BUCKETS = (15, 30, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600)
ARM_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15)
RETRY_AFTER_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1800)

# Claims

CLAIMS = gauge(
    "gpu_provisioner_nodeclaims",
    "BETA",
    "NodeClaims by phase",
    ("phase",),
    use="`NotReady` was Ready before and is not now.",
)
CLAIM_INFO = gauge(
    "gpu_provisioner_nodeclaim_info",
    "BETA",
    "Always 1, for each NodeClaim, labelled with its agent pool, Node and offering",
    ("name", "agent_pool", "node_name", "instance_type", "zone", "capacity_type"),
    of_objects=True,
    use="Joins metrics of Nodes or sizes with NodeClaims. Without an instance, the offering is the first choice.",
)
PHASE_SECONDS = histogram(
    "gpu_provisioner_nodeclaim_phase_duration_seconds",
    "BETA",
    "How long a NodeClaim took for each phase until it was Ready",
    ("phase", "instance_type", "zone", "capacity_type"),
    buckets=PHASE_BUCKETS,
    use="Launching: from creation to Launched; Registering: to Registered; Initializing: to Initialized;"
    " Ready: from creation to Ready.",
)
NOT_READY = gauge(
    "gpu_provisioner_nodeclaims_not_ready",
    "BETA",
    "Live NodeClaims that are not Ready, by the first condition that is not True and its reason",
    ("condition", "reason"),
)
NOT_READY_OLDEST = gauge(
    "gpu_provisioner_nodeclaims_not_ready_oldest_seconds",
    "BETA",
    "Longest time that one of these NodeClaims is not Ready, since its creation or since it was Ready",
    ("condition", "reason"),
    use="Shows which NodeClaims are stuck, and why.",
)
OVERDUE = gauge(
    "gpu_provisioner_nodeclaims_overdue",
    "BETA",
    "NodeClaims with a condition whose deadline is exceeded",
    ("condition",),
)
DEADLINES = counter("gpu_provisioner_deadlines_exceeded_total", "BETA", "Deadlines that were exceeded", ("deadline",))

BRAKED_PODS = gauge(
    "gpu_provisioner_purchase_brake_pods",
    "BETA",
    "Pending pods for which no machine is bought, because those that were bought for such pods did not take them",
    use="Each waits until it, its NodePool or the node class is changed; the Event MachineDoesNotFit has the cause.",
)
MISFITS = counter(
    "gpu_provisioner_machines_misfit_total",
    "BETA",
    "Machines that did not take the pods that they were bought for",
    ("reason",),
    reasons=MISFIT_REASONS,
    use="`fits`: the Node has all that was predicted, and kube-scheduler did not bind the pods within 6 minutes.",
)

# Pools and offerings

POOLS = gauge(
    "gpu_provisioner_agent_pools",
    "BETA",
    "Agent pools of the cluster by state",
    ("state",),
    use="`unknown` is an Azure state that this version does not know; report it as an issue.",
)
LEAKED_POOLS = gauge(
    "gpu_provisioner_leaked_agent_pools",
    "BETA",
    "Managed agent pools without a NodeClaim",
    use="Each is an instance that is billed and not used.",
)
CREATE_FAILURES = counter(
    "gpu_provisioner_create_failures_total",
    "BETA",
    "Agent pools that were rejected, or whose creation failed",
    ("reason", "instance_type", "capacity_type"),
    reasons=CREATE_REASONS,
    use="`quota` and `sku_unavailable` require an operator; `allocation` passes, or requires another size.",
)
OFFERING_TRIES = counter(
    "gpu_provisioner_offering_tries_total",
    "BETA",
    "Attempts to create an agent pool",
    ("instance_type", "capacity_type"),
)
OFFERING_UNAVAILABLE = gauge(
    "gpu_provisioner_offering_unavailable_seconds",
    "BETA",
    "Remaining time for which an offering is unavailable; 0: the next attempt is allowed",
    ("instance_type", "zone", "capacity_type"),
    use="`any`: the shortage applies to all values.",
)
GPUS = gauge(
    "gpu_provisioner_gpus",
    "BETA",
    "GPUs that are billed (expected, by the agent pools' sizes) and that Nodes offer (allocatable)",
    ("state", "instance_type", "gpu_name"),
    use="expected minus allocatable is billed and unusable: Nodes that start, or without a running device plugin.",
)
GPU_DEVICES = gauge(
    "gpu_provisioner_gpu_devices",
    "ALPHA",
    "Devices that the Nodes of NodeClaims should have (expected) and offer (allocatable)",
    ("state", "nodepool", "instance_type"),
    use="As the node class states them: MIG slices and shares of a GPU count as devices. Nodes that do not exist yet"
    " are not included.",
)
GPU_GATES_CLOSED = gauge(
    "gpu_provisioner_gpu_gates_closed",
    "ALPHA",
    "Ready Nodes that lack GPUs, by the cause",
    ("reason",),
    reasons=GATE_REASONS,
    use="`Unknown`: for less than 90 seconds, or the controller may not read DaemonSets."
    " The condition Initialized of the NodeClaims has the details.",
)
READINESS_OVERDUE = gauge(
    "gpu_provisioner_readiness_rules_overdue",
    "ALPHA",
    "NodeClaims that wait for a readiness rule longer than its timeout",
)
GPU_REPAIRS = counter(
    "gpu_provisioner_gpu_repairs_total",
    "ALPHA",
    "Repairs of unhealthy machines, by the signal that was due",
    ("signal", "action"),
    use="`replace`: the NodeClaim was deleted; `restart-plugin`: the pod of the device plugin was deleted.",
)
GPU_ADMISSION_ERRORS = counter(
    "gpu_provisioner_gpu_admission_errors_total",
    "ALPHA",
    "Pods on our Nodes that the kubelet rejected with UnexpectedAdmissionError, by the class of its message",
    ("reason",),
    reasons=ADMISSION_REASONS,
    use="`unregistered`, `unhealthy`: the device plugin is down; `unavailable`: other pods use the GPUs; `too_large`:"
    " more shares than one pod may have. Each pod is counted once. Without a NodePool, pods are read only while GPUs"
    " are missing.",
)
NODE_COST = gauge(
    "gpu_provisioner_node_cost_per_hour",
    "ALPHA",
    "Price per hour of the managed agent pools",
    ("instance_type", "capacity_type"),
    use="In USD: list or retail prices, those of `--prices`, as NodeOverlays change them. Machines without a price are"
    " counted in `gpu_provisioner_nodes_without_price`.",
)
UNPRICED = gauge(
    "gpu_provisioner_nodes_without_price",
    "ALPHA",
    "Machines of the managed agent pools whose price is not known",
    ("instance_type", "capacity_type"),
    use="They are part of no cost. `--prices` or a NodeOverlay states their price.",
)

PRICE_AGE = gauge(
    "gpu_provisioner_price_list_age_seconds",
    "ALPHA",
    "Age of the list prices by which the controller decides: since the retail prices were read, else since the date of"
    " the packaged list",
    use="`--retail-prices` reads them every 12 hours; while that fails, the last ones stay in use.",
)
RETAIL_PRICES = gauge(
    "gpu_provisioner_retail_prices",
    "ALPHA",
    "Prices of the last successful read of the retail price API",
    ("capacity_type",),
    use="Of the sizes that this version knows, in the region of the cluster.",
)
PRICE_FAILURES = counter(
    "gpu_provisioner_retail_price_failures_total",
    "ALPHA",
    "Failed reads of the retail price API",
    ("reason",),
    reasons=PRICE_READ_REASONS,
    use="The next read follows an hour later. No decision waits for it.",
)
PRICE_ROWS_DROPPED = counter(
    "gpu_provisioner_retail_price_rows_dropped_total",
    "ALPHA",
    "Rows of the retail price API that could not be used",
    use="Their form, currency or unit was not the requested one, or the price was 0 or less.",
)

CONSOLIDATION_SAVING = counter(
    "gpu_provisioner_consolidation_saving_per_hour_total",
    "ALPHA",
    "Sum of the prices per hour that consolidation saves, of all its commands that were begun",
    use="By the highest price that the replacements may have; empty machines are not included.",
)

PODS_SET_ASIDE = gauge(
    "gpu_provisioner_pods_set_aside",
    "BETA",
    "Pods that the last scheduling decision left out, because they need more work than one pod or a decision may cost",
    use="Their Events `FailedScheduling` name what is too large and the limit.",
)

# Removals

GC_DELETED = counter(
    "gpu_provisioner_gc_deleted_total",
    "BETA",
    "Agent pools, Nodes and NodeClaims that were removed by inference",
    ("kind", "cause"),
)
GC_SKIPPED = counter(
    "gpu_provisioner_gc_skipped_total",
    "BETA",
    "Inferred removals that wait, by reason",
    ("reason",),
    reasons=HELD_REASONS,
    use="Counted once for each instance and reason.",
)
REMOVAL_CANDIDATES = gauge("gpu_provisioner_removal_candidates", "BETA", "Candidates for garbage collection")
REMOVALS_RESTRICTED = gauge(
    "gpu_provisioner_removals_restricted",
    "BETA",
    "1 while the circuit breaker restricts inferred removals",
    use="Requires an operator: `gpu-provisioner gc`.",
)
REPAIRS_BLOCKED = gauge(
    "gpu_provisioner_repairs_blocked", "BETA", "Repairs that are due and blocked by the limit of simultaneous repairs"
)
REPAIRS_SUSPENDED = gauge(
    "gpu_provisioner_repairs_suspended",
    "ALPHA",
    "Unhealthy machines that are kept because others of their size and image failed in the same way",
    use="Requires an operator: see the condition NodeHealthy of the NodeClaims.",
)
REPAIRS_DRY_RUN = gauge(
    "gpu_provisioner_repairs_dry_run", "ALPHA", "Repairs that are due and not made, because repair is a dry run"
)

# ARM

ARM_SECONDS = histogram(
    "gpu_provisioner_arm_request_duration_seconds",
    "BETA",
    "Duration of one ARM request, by response code",
    ("operation", "code"),
    buckets=ARM_BUCKETS,
    use="The share of code 429 is the share of throttled requests.",
)
ARM_OPERATION = histogram(
    "gpu_provisioner_arm_operation_duration_seconds",
    "BETA",
    "Duration of an agent pool operation after ARM accepted the request",
    ("operation", "result"),
    buckets=PHASE_BUCKETS,
)
ARM_THROTTLED = counter(
    "gpu_provisioner_arm_throttled_total",
    "BETA",
    "Calls that were throttled, by the client-side rate limit or by ARM",
    ("bucket", "by"),
)
ARM_RETRY_AFTER = histogram(
    "gpu_provisioner_arm_retry_after_seconds",
    "BETA",
    "Retry-After of responses with code 429",
    ("operation",),
    buckets=RETRY_AFTER_BUCKETS,
)
ARM_TOKENS = gauge(
    "gpu_provisioner_arm_rate_limit_tokens", "ALPHA", "Calls that the client-side rate limit allows now", ("bucket",)
)
ARM_WAIT = gauge(
    "gpu_provisioner_arm_rate_limit_wait_seconds",
    "ALPHA",
    "Time until the client-side rate limit allows the next call",
    ("bucket",),
)
CREDENTIAL_FAILURES = counter(
    "gpu_provisioner_credential_failures_total",
    "BETA",
    "Requests that failed because of the credential",
    ("system", "reason"),
    reasons=CREDENTIAL_REASONS,
    use="`no_token`: Entra ID issued no token; `unauthenticated`: 401; `forbidden`: 403.",
)

# The process

CACHE_LISTS = counter("gpu_provisioner_cache_lists_total", "BETA", "Completed lists", ("resource",))
CACHE_WATCHES = counter("gpu_provisioner_cache_watches_total", "BETA", "Started watches", ("resource",))
CACHE_ERRORS = counter("gpu_provisioner_cache_errors_total", "BETA", "Failed lists and watches", ("resource",))
CACHE_OBJECTS = gauge("gpu_provisioner_cache_objects", "BETA", "Objects in the cache", ("resource",))
CACHE_UNREADABLE = gauge(
    "gpu_provisioner_cache_unreadable_objects",
    "ALPHA",
    "Objects in the cache of which a part is left out: it cannot be decoded, or is too large",
    ("resource",),
    use="The log names the object and the cause.",
)
CACHE_AGE = gauge(
    "gpu_provisioner_cache_age_seconds",
    "BETA",
    "Time since the cache was last confirmed by the server",
    ("resource",),
    use="`agentpools`: since the last successful LIST of ARM; leader only.",
)
OBJECT_ERRORS = counter(
    "gpu_provisioner_object_errors_total",
    "ALPHA",
    "Errors that a single object caused, and because of which only this object was left out",
    ("kind",),
    use="The log names the object and has the traceback.",
)
EVENTS_SENT = counter("gpu_provisioner_events_sent_total", "BETA", "Events that were written")
EVENTS_DROPPED = counter(
    "gpu_provisioner_events_dropped_total", "BETA", "Events that were dropped: rate limit, or rejected"
)
LOOP_LAG = gauge(
    "gpu_provisioner_event_loop_lag_seconds",
    "BETA",
    "Longest delay of the event loop in the last minute",
    use="Above one second, code blocks the event loop.",
)
OBSERVATION_ERRORS = counter(
    "gpu_provisioner_observation_errors_total",
    "BETA",
    "Errors in metrics code, which affect nothing else",
    use="Any value above 0 is a bug; report it as an issue.",
)
