"""Metric families of controller-runtime, client-go and the Prometheus client, with their names.

Source: docs/references/karpenter.md#metrics.
"""

from .family import counter, gauge, histogram

QUEUE_BUCKETS = tuple(1e-8 * 10**n for n in range(12))
REQUEST_BUCKETS = tuple(0.001 * 1.5**n for n in range(20))
_TENTHS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
_SECONDS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60)
RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, *_TENTHS, *_SECONDS)

QUEUE = ("name", "controller")
BY_CONTROLLER = ("controller",)

QUEUE_DEPTH = gauge("workqueue_depth", "STABLE", "Keys in the work queue", QUEUE)
QUEUE_ADDS = counter("workqueue_adds_total", "STABLE", "Keys that were added", QUEUE)
QUEUE_WAIT = histogram(
    "workqueue_queue_duration_seconds", "STABLE", "Time that a key waits in the queue", QUEUE, buckets=QUEUE_BUCKETS
)
QUEUE_WORK = histogram(
    "workqueue_work_duration_seconds", "STABLE", "Time that a key is processed", QUEUE, buckets=QUEUE_BUCKETS
)
QUEUE_RETRIES = counter("workqueue_retries_total", "STABLE", "Keys that are retried after an error", QUEUE)
QUEUE_UNFINISHED = gauge(
    "workqueue_unfinished_work_seconds", "STABLE", "Total time that the keys in progress have been processed", QUEUE
)
QUEUE_LONGEST = gauge(
    "workqueue_longest_running_processor_seconds",
    "STABLE",
    "Time that the oldest key in progress has been processed",
    QUEUE,
)

RECONCILE_TOTAL = counter(
    "controller_runtime_reconcile_total",
    "STABLE",
    "Reconciles by result",
    (*BY_CONTROLLER, "result"),
    use="One reconcile covers all controllers of one NodeClaim; it counts for the controller that decided.",
)
RECONCILE_ERRORS = counter(
    "controller_runtime_reconcile_errors_total", "STABLE", "Reconciles that failed", BY_CONTROLLER
)
RECONCILE_SECONDS = histogram(
    "controller_runtime_reconcile_time_seconds",
    "STABLE",
    "Duration of a reconcile",
    BY_CONTROLLER,
    buckets=RECONCILE_BUCKETS,
)
ACTIVE_WORKERS = gauge("controller_runtime_active_workers", "STABLE", "Workers that are busy", BY_CONTROLLER)
WORKERS = gauge("controller_runtime_max_concurrent_reconciles", "STABLE", "Number of workers", BY_CONTROLLER)

LEADER = gauge(
    "leader_election_master_status",
    "STABLE",
    "1 while this process is the leader",
    ("name",),
    use="The sum over all replicas should be 1.",
)
REQUESTS = counter(
    "client_go_request_total", "STABLE", "Requests to the API server, by response code", ("code", "method")
)
REQUEST_SECONDS = histogram(
    "client_go_request_duration_seconds",
    "STABLE",
    "Time until the API server starts to respond",
    ("verb", "group", "version", "kind", "subresource"),
    buckets=REQUEST_BUCKETS,
)

PYTHON_INFO = gauge(
    "python_info",
    "STABLE",
    "Python platform information",
    ("version", "implementation", "major", "minor", "patchlevel"),
)
GC_COLLECTED = counter(
    "python_gc_objects_collected_total", "STABLE", "Objects that Python's garbage collector collected", ("generation",)
)
GC_UNCOLLECTABLE = counter(
    "python_gc_objects_uncollectable_total",
    "STABLE",
    "Objects that Python's garbage collector could not collect",
    ("generation",),
)
GC_RUNS = counter("python_gc_collections_total", "STABLE", "Collections of each generation", ("generation",))
PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", "STABLE", "Virtual memory")
PROCESS_RESIDENT = gauge("process_resident_memory_bytes", "STABLE", "Resident memory")
PROCESS_START = gauge(
    "process_start_time_seconds", "STABLE", "Start time of the process, in seconds since the Unix epoch"
)
PROCESS_CPU = counter("process_cpu_seconds_total", "STABLE", "CPU time")
PROCESS_FDS = gauge("process_open_fds", "STABLE", "Open files and sockets")
PROCESS_MAX_FDS = gauge("process_max_fds", "STABLE", "Limit of open files and sockets")
