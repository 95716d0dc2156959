"""Families that are ours: what Karpenter has no name for. Sizes, phases and Azure.

Source: docs/references/monitoring.md#names, docs/references/monitoring.md#alerts-and-panels.
"""

from .family import counter, gauge, histogram
from .labels import OTHER

# AKS makes a GPU pool in 3 to 30 minutes: Karpenter's buckets put all of that into +Inf.
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

# What a removal by inference waits for, other than time.
HELD_REASONS = (
    "restricted",
    "cluster_not_running",
    "pool_busy",
    "pools_not_listed",
    "cache_not_current",
    "older_than_crd",
)
CREDENTIAL_REASONS = ("no_token", "unauthenticated", "forbidden")

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
    "1 for each NodeClaim, labelled with its agent pool, its Node and its machine, or the one it would have first",
    ("name", "agent_pool", "node_name", "instance_type", "zone", "capacity_type"),
    of_objects=True,
    use="Joins what is known of Nodes, or of sizes, with a claim.",
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
    "Age of the longest of these: since its creation, or since it was last usable",
    ("condition", "reason"),
    use="A claim that is stuck, and why.",
)
OVERDUE = gauge(
    "gpu_provisioner_nodeclaims_overdue",
    "BETA",
    "NodeClaims whose condition says now that its deadline has passed",
    ("condition",),
)
DEADLINES = counter(
    "gpu_provisioner_deadlines_exceeded_total", "BETA", "States that outlasted their deadline", ("deadline",)
)

# Pools and offerings

POOLS = gauge(
    "gpu_provisioner_agent_pools",
    "BETA",
    "Agent pools of the cluster, ours by state",
    ("state",),
    use="`unknown` is a state of Azure's that this version does not know: please report it.",
)
LEAKED_POOLS = gauge(
    "gpu_provisioner_leaked_agent_pools",
    "BETA",
    "Agent pools of ours without a NodeClaim, until they are gone",
    use="Each is a machine that is billed and serves nobody.",
)
CREATE_FAILURES = counter(
    "gpu_provisioner_create_failures_total",
    "BETA",
    "Agent pools that were refused, or failed after they were accepted",
    ("reason", "instance_type", "capacity_type"),
    reasons=CREATE_REASONS,
    use="quota and sku_unavailable need a person, allocation passes by itself or needs another size.",
)
OFFERING_TRIES = counter(
    "gpu_provisioner_offering_tries_total", "BETA", "Agent pools asked for", ("instance_type", "capacity_type")
)
OFFERING_COOLDOWN = gauge(
    "gpu_provisioner_offering_cooldown_seconds",
    "BETA",
    "Rest that is left of what was found short; 0: one claim may try it",
    ("instance_type", "zone", "capacity_type"),
    use="`any`: the shortage does not tell these apart.",
)
GPUS = gauge(
    "gpu_provisioner_gpus",
    "BETA",
    "GPUs that are paid for (expected, by the pools' sizes) and that Nodes offer (allocatable)",
    ("state", "instance_type", "gpu_name"),
    use="expected minus allocatable is paid and cannot be used: booting, or a device plugin that does not run.",
)
NODE_COST = gauge(
    "gpu_provisioner_node_cost_per_hour",
    "ALPHA",
    "What the agent pools of ours cost for an hour, by the price table that was given",
    ("instance_type", "capacity_type"),
    use="Only sizes that `--prices` names. Idle cost is not known: pods are not watched.",
)

# Removals

GC_DELETED = counter(
    "gpu_provisioner_gc_deleted_total",
    "BETA",
    "Pools, Nodes and NodeClaims that were removed without anybody asking for it",
    ("kind", "cause"),
)
GC_SKIPPED = counter(
    "gpu_provisioner_gc_skipped_total",
    "BETA",
    "Removals by inference that came to wait, by what for",
    ("reason",),
    reasons=HELD_REASONS,
    use="Counted once for each machine and reason, not with each look.",
)
REMOVAL_CANDIDATES = gauge("gpu_provisioner_removal_candidates", "BETA", "Candidates for garbage collection")
REMOVALS_RESTRICTED = gauge(
    "gpu_provisioner_removals_restricted",
    "BETA",
    "1 while too much looks like garbage to remove any",
    use="A person has to look: `gpu-provisioner gc`.",
)
REPAIRS_BLOCKED = gauge("gpu_provisioner_repairs_blocked", "BETA", "Repairs that are due and wait for others")

# ARM

ARM_SECONDS = histogram(
    "gpu_provisioner_arm_request_duration_seconds",
    "BETA",
    "How long ARM takes to answer one request, by its answer",
    ("operation", "code"),
    buckets=ARM_BUCKETS,
    use="The share of code 429 is how much ARM throttles.",
)
ARM_OPERATION = histogram(
    "gpu_provisioner_arm_operation_duration_seconds",
    "BETA",
    "How long Azure works on a pool after it accepted the request",
    ("operation", "result"),
    buckets=PHASE_BUCKETS,
)
ARM_THROTTLED = counter(
    "gpu_provisioner_arm_throttled_total",
    "BETA",
    "Calls refused for their rate: by our own budget before they were sent, or by the cloud",
    ("bucket", "by"),
)
ARM_RETRY_AFTER = histogram(
    "gpu_provisioner_arm_retry_after_seconds",
    "BETA",
    "How long Azure asked us to stay away when it refused a call for its rate",
    ("operation",),
    buckets=RETRY_AFTER_BUCKETS,
)
ARM_TOKENS = gauge("gpu_provisioner_arm_budget_tokens", "ALPHA", "Calls that could be sent at once", ("bucket",))
ARM_WAIT = gauge("gpu_provisioner_arm_budget_wait_seconds", "ALPHA", "How long the next call would wait", ("bucket",))
CREDENTIAL_FAILURES = counter(
    "gpu_provisioner_credential_failures_total",
    "BETA",
    "Requests that failed because no token could be had, or because it was not taken",
    ("system", "reason"),
    reasons=CREDENTIAL_REASONS,
    use="no_token: Entra ID gives none; unauthenticated: 401; forbidden: 403.",
)

# The process

CACHE_LISTS = counter("gpu_provisioner_cache_lists_total", "BETA", "Whole lists read", ("resource",))
CACHE_WATCHES = counter("gpu_provisioner_cache_watches_total", "BETA", "Watches opened", ("resource",))
CACHE_ERRORS = counter("gpu_provisioner_cache_errors_total", "BETA", "Lists and watches that failed", ("resource",))
CACHE_OBJECTS = gauge("gpu_provisioner_cache_objects", "BETA", "Objects in the cache", ("resource",))
CACHE_AGE = gauge(
    "gpu_provisioner_cache_age_seconds",
    "BETA",
    "Time since the cache last heard of the server",
    ("resource",),
    use="agentpools: since the newest LIST of ARM that succeeded; only the leader has it.",
)
EVENTS_SENT = counter("gpu_provisioner_events_sent_total", "BETA", "Events written")
EVENTS_DROPPED = counter("gpu_provisioner_events_dropped_total", "BETA", "Events not written: too many, or refused")
LOOP_LAG = gauge(
    "gpu_provisioner_event_loop_lag_seconds",
    "BETA",
    "The longest that the event loop was held up in the last minute",
    use="Above a second, something computes where it should wait.",
)
OBSERVATION_ERRORS = counter(
    "gpu_provisioner_observation_errors_total",
    "BETA",
    "Times that counting failed, which fails nothing else",
    use="Not 0 is a bug of ours: please report it.",
)
