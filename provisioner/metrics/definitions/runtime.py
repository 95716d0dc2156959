"""Families of the machinery: the names that controller-runtime, client-go and Prometheus' own clients gave them.

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

QUEUE_DEPTH = gauge("workqueue_depth", "STABLE", "Keys that wait to be worked on", QUEUE)
QUEUE_ADDS = counter("workqueue_adds_total", "STABLE", "Keys added", QUEUE)
QUEUE_WAIT = histogram(
    "workqueue_queue_duration_seconds", "STABLE", "How long a key waits", QUEUE, buckets=QUEUE_BUCKETS
)
QUEUE_WORK = histogram(
    "workqueue_work_duration_seconds", "STABLE", "How long a key is worked on", QUEUE, buckets=QUEUE_BUCKETS
)
QUEUE_RETRIES = counter("workqueue_retries_total", "STABLE", "Keys to be tried again after an error", QUEUE)
QUEUE_UNFINISHED = gauge("workqueue_unfinished_work_seconds", "STABLE", "Summed age of the work in progress", QUEUE)
QUEUE_LONGEST = gauge(
    "workqueue_longest_running_processor_seconds", "STABLE", "Age of the oldest work in progress", QUEUE
)

RECONCILE_TOTAL = counter(
    "controller_runtime_reconcile_total",
    "STABLE",
    "Passes by result",
    (*BY_CONTROLLER, "result"),
    use="One pass decides all about one machine; it counts for the rule that had the last word in it.",
)
RECONCILE_ERRORS = counter(
    "controller_runtime_reconcile_errors_total", "STABLE", "Passes that failed and are tried again", BY_CONTROLLER
)
RECONCILE_SECONDS = histogram(
    "controller_runtime_reconcile_time_seconds",
    "STABLE",
    "How long a pass takes",
    BY_CONTROLLER,
    buckets=RECONCILE_BUCKETS,
)
ACTIVE_WORKERS = gauge("controller_runtime_active_workers", "STABLE", "Workers in a pass", BY_CONTROLLER)
WORKERS = gauge("controller_runtime_max_concurrent_reconciles", "STABLE", "Workers", BY_CONTROLLER)

LEADER = gauge(
    "leader_election_master_status",
    "STABLE",
    "1 while this process leads",
    ("name",),
    use="The sum over all replicas should be 1.",
)
REQUESTS = counter("client_go_request_total", "STABLE", "Requests to the API server, by answer", ("code", "method"))
REQUEST_SECONDS = histogram(
    "client_go_request_duration_seconds",
    "STABLE",
    "Time until the API server begins to answer",
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
    "python_gc_objects_collected_total", "STABLE", "Objects that Python's garbage collector took", ("generation",)
)
GC_UNCOLLECTABLE = counter(
    "python_gc_objects_uncollectable_total", "STABLE", "Objects that it could not take", ("generation",)
)
GC_RUNS = counter("python_gc_collections_total", "STABLE", "How often each generation was collected", ("generation",))
PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", "STABLE", "Virtual memory")
PROCESS_RESIDENT = gauge("process_resident_memory_bytes", "STABLE", "Resident memory")
PROCESS_START = gauge("process_start_time_seconds", "STABLE", "When the process started, in seconds of the Unix epoch")
PROCESS_CPU = counter("process_cpu_seconds_total", "STABLE", "CPU time")
PROCESS_FDS = gauge("process_open_fds", "STABLE", "Open files and sockets")
PROCESS_MAX_FDS = gauge("process_max_fds", "STABLE", "How many there may be")
