"""The controller itself: who leads, what fails, what waits, what it costs to run."""

from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.promql import MARK
from tools.dashboards.variables import RATE, WINDOW

ROW = Row(
    title="The controller",
    panels=(
        Panel(
            title="Who leads",
            description="Each replica, and whether it acts. A gap is a change of leaders.",
            kind="state-timeline",
            queries=(Query(f"max by (instance) ({S.alone('leader_election_master_status')})", "{{instance}}"),),
            states={0: ("waits", "blue"), 1: ("leads", "green")},
            runbooks=("NoLeader", "Down"),
        ),
        Panel(
            title="Passes, by controller and result",
            description="A pass decides one step for one machine. `controller` is the rule that acted.",
            unit="ops",
            queries=(
                Query(
                    S.rate("controller_runtime_reconcile_total", RATE, "controller, result"),
                    "{{controller}} {{result}}",
                ),
            ),
            runbooks=("ControllerErrors",),
        ),
        Panel(
            title="Errors, by controller",
            description="Passes that failed and are tried again, and failed calls of Azure, by Karpenter's names. A"
            " NodeClaimNotFoundError is how a removal is proved.",
            unit="ops",
            queries=(
                Query(S.rate("controller_runtime_reconcile_errors_total", RATE, "controller"), "pass: {{controller}}"),
                Query(
                    S.rate("karpenter_cloudprovider_errors_total", RATE, "controller, error"),
                    "Azure: {{controller}} {{error}}",
                ),
            ),
            runbooks=("ControllerErrors", "CredentialFailing"),
        ),
        Panel(
            title="Queue",
            description="Keys that wait for the replica that leads, and tries after a failed pass, a second.",
            queries=(
                Query(f"sum by (name) ({S.acting('workqueue_depth')})", "waiting in {{name}}"),
                Query(S.rate("workqueue_retries_total", RATE, "name"), "retries of {{name}}"),
            ),
            steps=((50, "red"),),
            runbooks=("QueueBacklog", "ControllerErrors"),
        ),
        Panel(
            title="Event loop",
            description="The longest that the event loop was held up in the last minute. A second is much: the lease"
            " and every deadline live on it.",
            unit="s",
            queries=(Query(S.most("gpu_provisioner_event_loop_lag_seconds", "instance"), "{{instance}}"),),
            steps=((1, "red"),),
            runbooks=("EventLoopBlocked",),
        ),
        Panel(
            title="Age of what the program knows",
            description="Time since a cache last heard of its server. `agentpools` is Azure's, and only the leader's.",
            unit="s",
            queries=(Query(S.most("gpu_provisioner_cache_age_seconds", "resource"), "{{resource}}"),),
            steps=((300, "red"),),
            runbooks=("CacheStale",),
        ),
        Panel(
            title="Requests to the API server, by answer",
            description="Many 409 are harmless; 403 and 422 are not.",
            unit="reqps",
            queries=(Query(S.rate("client_go_request_total", RATE, "code"), "{{code}}"),),
            runbooks=("ControllerErrors", "CredentialFailing"),
        ),
        Panel(
            title="Credentials",
            description="Requests that failed because no token could be had, or because it was not taken.",
            queries=(
                Query(
                    S.events("gpu_provisioner_credential_failures_total", WINDOW, "system, reason") + " or vector(0)",
                    "{{system}} {{reason}}",
                ),
            ),
            runbooks=("CredentialFailing",),
        ),
        Panel(
            title="Events",
            description="Kubernetes Events written, and those left out for being too many, or refused.",
            queries=(
                Query(S.events("gpu_provisioner_events_sent_total", WINDOW), "sent"),
                Query(S.events("gpu_provisioner_events_dropped_total", WINDOW), "left out"),
            ),
        ),
        Panel(
            title="Mistakes of our own",
            description="Times that counting failed, which fails nothing else, and pools in a state that this version"
            " does not know. Not 0: please report it.",
            queries=(
                Query(
                    S.events("gpu_provisioner_observation_errors_total", WINDOW) + " or vector(0)", "counting failed"
                ),
                Query(
                    S.most("gpu_provisioner_agent_pools", state="unknown") + " or vector(0)",
                    "pools in an unknown state",
                ),
            ),
        ),
        Panel(
            title="Replicas",
            description="What runs, and for how long. A short time is a restart.",
            kind="table",
            queries=(
                Query(
                    f"max by (instance, version, goarch) ({S.alone('karpenter_build_info')}) * on (instance)"
                    f" group_left () max by (instance) (time() - {S.alone('process_start_time_seconds')})"
                ),
            ),
            columns={"instance": "Replica", "version": "Version", "goarch": "Architecture", "Value": "Up for"},
            units={"Up for": "s"},
            runbooks=("Down",),
        ),
        Panel(
            title="Restarts",
            description="How often a replica began anew within the window, in the same Pod.",
            queries=(
                Query(
                    f"sum by (instance) (changes({S.own('process_start_time_seconds')}[{WINDOW}])"
                    f" and on (cluster, namespace, job, instance) {S.own(MARK)})",
                    "{{instance}}",
                ),
            ),
            runbooks=("Down", "NoLeader"),
        ),
        Panel(
            title="CPU",
            description="Cores in use.",
            queries=(Query(S.rate("process_cpu_seconds_total", RATE, "instance"), "{{instance}}"),),
            width=12,
        ),
        Panel(
            title="Memory",
            description="Resident; the chart's limit is 512 MiB.",
            unit="bytes",
            queries=(Query(f"max by (instance) ({S.alone('process_resident_memory_bytes')})", "{{instance}}"),),
            width=12,
        ),
    ),
)
