"""The controller: leader election, errors, queue, caches, and resource usage."""

from tools.dashboards.colors import CODES, FAILURES, RESULTS
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.promql import MARK
from tools.dashboards.variables import RATE, WINDOW

ROW = Row(
    title="Controller",
    panels=(
        Panel(
            title="Leader",
            description="Whether each replica is the leader. A gap is a change of the leader.",
            kind="state-timeline",
            queries=(Query(f"max by (instance) ({S.alone('leader_election_master_status')})", "{{instance}}"),),
            states={0: ("standby", "blue"), 1: ("leader", "green")},
            runbooks=("NoLeader", "Down"),
        ),
        Panel(
            title="Reconciliations, by controller and result",
            description="A reconciliation decides one step for one machine. `controller` is the rule that decided.",
            unit="ops",
            queries=(
                Query(
                    S.rate("controller_runtime_reconcile_total", RATE, "controller, result"),
                    "{{controller}} {{result}}",
                ),
            ),
            colors=RESULTS,
            runbooks=("ControllerErrors",),
        ),
        Panel(
            title="Errors, by controller",
            description="Failed reconciliations, which are retried, and failed requests to Azure, by Karpenter's names."
            " A NodeClaimNotFoundError proves that an agent pool is deleted.",
            unit="ops",
            queries=(
                Query(
                    S.rate("controller_runtime_reconcile_errors_total", RATE, "controller"), "reconcile: {{controller}}"
                ),
                Query(
                    S.rate("karpenter_cloudprovider_errors_total", RATE, "controller, error"),
                    "Azure: {{controller}} {{error}}",
                ),
            ),
            colors=FAILURES,
            runbooks=("ControllerErrors", "CredentialFailing"),
        ),
        Panel(
            title="Work queue",
            description="Keys in the leader's work queue, and retries of failed reconciliations per second.",
            queries=(
                Query(f"sum by (name) ({S.acting('workqueue_depth')})", "waiting in {{name}}"),
                Query(S.rate("workqueue_retries_total", RATE, "name"), "retries of {{name}}"),
            ),
            steps=((50, "red"),),
            runbooks=("QueueBacklog", "ControllerErrors"),
        ),
        Panel(
            title="Event loop delay",
            description="The longest blocking of the event loop in the last minute. It delays the renewal of the Lease"
            " and all timeouts.",
            unit="s",
            queries=(Query(S.most("gpu_provisioner_event_loop_lag_seconds", "instance"), "{{instance}}"),),
            steps=((1, "red"),),
            runbooks=("EventLoopBlocked",),
        ),
        Panel(
            title="Cache age",
            description="Time since the last update of each cache. `agentpools` is listed from ARM by the leader only.",
            unit="s",
            queries=(Query(S.most("gpu_provisioner_cache_age_seconds", "resource"), "{{resource}}"),),
            steps=((300, "red"),),
            runbooks=("CacheStale",),
        ),
        Panel(
            title="Objects that are left out",
            description="Objects of which a part is too large or cannot be decoded, and pods that need too much work.",
            queries=(
                Query(S.most("gpu_provisioner_cache_unreadable_objects", "resource"), "{{resource}}"),
                Query(S.most("gpu_provisioner_pods_set_aside"), "pods of the last decision"),
            ),
            runbooks=("ObjectsSetAside",),
        ),
        Panel(
            title="Requests to the API server, by status code",
            description="A 409 is retried; a 403 or a 422 needs a change of permissions, policies or the object.",
            unit="reqps",
            queries=(Query(S.rate("client_go_request_total", RATE, "code"), "{{code}}"),),
            colors=CODES,
            runbooks=("ControllerErrors", "CredentialFailing"),
        ),
        Panel(
            title="Rejected credentials",
            description="Requests that failed because no token was issued, or because the token was rejected.",
            queries=(
                Query(
                    S.events("gpu_provisioner_credential_failures_total", WINDOW, "system, reason") + " or vector(0)",
                    "{{system}} {{reason}}",
                ),
            ),
            colors=FAILURES,
            runbooks=("CredentialFailing",),
        ),
        Panel(
            title="Kubernetes Events",
            description="Kubernetes Events that were sent, and those dropped by the rate limit or after an error.",
            queries=(
                Query(S.events("gpu_provisioner_events_sent_total", WINDOW), "sent"),
                Query(S.events("gpu_provisioner_events_dropped_total", WINDOW), "dropped"),
            ),
            colors={"sent": "green", "dropped": "red"},
        ),
        Panel(
            title="Internal errors",
            description="Failures to update metrics, and agent pools in a state that is unknown to this version. Report"
            " a value above 0 as a bug.",
            queries=(
                Query(
                    S.events("gpu_provisioner_observation_errors_total", WINDOW) + " or vector(0)", "metric not updated"
                ),
                Query(
                    S.most("gpu_provisioner_agent_pools", state="unknown") + " or vector(0)",
                    "pools in an unknown state",
                ),
            ),
            colors=FAILURES,
        ),
        Panel(
            title="Replicas",
            description="Version and uptime of each replica.",
            kind="table",
            queries=(
                Query(
                    f"max by (instance, version, goarch) ({S.alone('karpenter_build_info')}) * on (instance)"
                    f" group_left () max by (instance) (time() - {S.alone('process_start_time_seconds')})"
                ),
            ),
            columns={"instance": "Replica", "version": "Version", "goarch": "Architecture", "Value": "Uptime"},
            units={"Uptime": "s"},
            runbooks=("Down",),
        ),
        Panel(
            title="Restarts",
            description="Restarts of the container within the window, by Pod.",
            queries=(
                Query(
                    f"sum by (instance) (changes({S.own('process_start_time_seconds')}[{WINDOW}])"
                    f" and on (cluster, namespace, job, instance) {S.own(MARK)})",
                    "{{instance}}",
                ),
            ),
            colors=FAILURES,
            runbooks=("Restarting", "Down", "NoLeader"),
        ),
        Panel(
            title="CPU",
            description="CPU cores in use.",
            queries=(Query(S.rate("process_cpu_seconds_total", RATE, "instance"), "{{instance}}"),),
            width=12,
        ),
        Panel(
            title="Memory",
            description="Resident memory; the chart's default limit is 512 MiB.",
            unit="bytes",
            queries=(Query(f"max by (instance) ({S.alone('process_resident_memory_bytes')})", "{{instance}}"),),
            width=12,
        ),
    ),
)
