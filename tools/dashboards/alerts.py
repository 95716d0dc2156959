"""Alerting rules.

An alert is a signal, a comparison and a threshold. The signal returns series in a healthy fleet too, so that a test can
verify that its metrics exist.

Source: docs/references/monitoring.md#alerts-and-panels, docs/references/reliability.md#threats,
docs/references/rules.md#every-state-has-a-deadline.
"""

from dataclasses import dataclass
from typing import Literal

from .promql import RULES as R
from .records import BUDGET_SECONDS, BUDGETS, BY, FAILED, IDLE, READY

Severity = Literal["info", "warning", "critical"]

WAITING = "gpu_provisioner_nodeclaims_not_ready"
REQUESTS = "gpu_provisioner_arm_request_duration_seconds_count"
# Condition reasons of claims whose offerings are unavailable.
QUOTA = "QuotaExceeded"
UNAVAILABLE = (
    "~AllocationFailed|ZonalAllocationFailed|Overconstrained.*AllocationRequest|SkuNotAvailable|VMSizeNotSupported"
)
PAID, OFFERED = (
    R.most("gpu_provisioner_gpus", f"{BY}, instance_type, gpu_name", state=state)
    for state in ("expected", "allocatable")
)
CLAIMS_WITH_REASON = (
    '{{ range printf `max by (name) (operator_nodeclaim_status_condition_count{status!="True",reason=%q}) > 0`'
    " $labels.reason | query | sortByLabel `name` }}{{ .Labels.name }} {{ end }}"
)


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`meaning` is shown in the documentation; `summary` and `description` are annotations with Prometheus templates.

    `severities`: each severity with its `for` duration, the lowest severity first.
    """

    name: str
    meaning: str
    signal: str
    compare: Literal[">", "<"] = ">"
    threshold: float = 0
    severities: tuple[tuple[Severity, str], ...]
    summary: str
    description: str

    @property
    def expr(self) -> str:
        """The expression of the rule; it ends with the threshold, which the chart can replace."""
        return f"{self.signal} {self.compare} {self.threshold:g}"


CLAIMS = (
    Alert(
        name="ClaimStuck",
        meaning="A NodeClaim is not Ready; its workload has no GPU.",
        signal=R.most(f"{WAITING}_oldest_seconds", f"{BY}, condition, reason"),
        threshold=1200,
        severities=(("warning", "0m"),),
        summary="A NodeClaim has not been Ready for {{ $value | humanizeDuration }}: {{ $labels.condition }} has the"
        " reason {{ $labels.reason }}",
        description="Its workload has no GPU. NodeClaims with this reason: "
        + CLAIMS_WITH_REASON
        + "- `kubectl describe nodeclaim` shows the cause and the remedy.",
    ),
    Alert(
        name="ProvisioningSlow",
        meaning="Machines of a size exceed their provisioning time budget (ratio to the budget, p99 of the last hour).",
        signal=f"({READY} / on (instance_type) group_left () {BUDGETS} or {READY} / {BUDGET_SECONDS})",
        threshold=1,
        severities=(("warning", "15m"),),
        summary="Provisioning {{ $labels.instance_type }} takes {{ printf `%.1f` $value }} times its budget",
        description="The value is the 99th percentile of the NodeClaims that became Ready in the last hour. The"
        " dashboard shows which phase is slow: launch (Azure), registration (Node) or initialization (GPUs).",
    ),
    Alert(
        name="QuotaExhausted",
        meaning="NodeClaims are waiting for quota.",
        signal=f"max by ({BY}, reason) (max_over_time({R.own(WAITING, reason=QUOTA)}[15m]))",
        severities=(("info", "5m"), ("warning", "1h")),
        summary="{{ $value }} NodeClaims are waiting for quota",
        description="The subscription's quota for a GPU VM family is exhausted. NodeClaims: "
        + CLAIMS_WITH_REASON
        + "- request more quota or delete NodeClaims. `az vm list-usage` shows the VM family.",
    ),
    Alert(
        name="SkuUnavailable",
        meaning="NodeClaims are waiting for a size that Azure has no capacity for, or does not offer.",
        signal=f"max by ({BY}, reason) (max_over_time({R.own(WAITING, reason=UNAVAILABLE)}[15m]))",
        severities=(("info", "5m"), ("warning", "1h")),
        summary="{{ $value }} NodeClaims are waiting for an unavailable size: {{ $labels.reason }}",
        description="Azure has no capacity for the size, or does not offer it to this subscription in this location."
        " NodeClaims: " + CLAIMS_WITH_REASON + "- the controller retries; another zone or size may be available now.",
    ),
    Alert(
        name="PurchaseBrake",
        meaning="Machines that were bought for pods did not take them; no other is bought for these pods.",
        signal=f"max by ({BY}) ({R.own('gpu_provisioner_purchase_brake_pods')})",
        severities=(("warning", "5m"),),
        summary="{{ $value }} pods did not run on the machines that were bought for them",
        description="No other machine is bought for these pods. The Event MachineDoesNotFit of each pod and NodePool"
        " states how its Node differs from what was predicted.",
    ),
    Alert(
        name="PodsUnschedulable",
        meaning="Pods are pending, and no Node and no machine of a NodePool can take them.",
        signal=R.most("karpenter_scheduler_unschedulable_pods_count", BY),
        severities=(("warning", "30m"),),
        summary="No machine of a NodePool can take {{ $value }} pending pods",
        description="The Event FailedScheduling of each pod names the cause: a taint, a requirement, a limit of the"
        " NodePool, or a missing quota. `kubectl get events -A --field-selector reason=FailedScheduling` lists them.",
    ),
    Alert(
        name="ReplacementsUndone",
        meaning="Replacements of machines were undone at least twice in 30 hours.",
        # The attempts are at most 12 hours apart, besides the time that a replacement takes.
        signal=f"sum by ({BY}, reason) ({R.grown('karpenter_voluntary_disruption_queue_failures_total', '30h')})",
        threshold=1,
        severities=(("warning", "0m"),),
        summary="{{ $value | humanize }} replacements of machines were undone in 30 hours: {{ $labels.reason }}",
        description="The old machines are kept and cost as before; drifted ones keep their old version or image. The"
        " Events with the reason ReplacementFailed name the NodeClaims and the cause. `kubectl get events -A"
        " --field-selector reason=ReplacementFailed` lists them.",
    ),
    Alert(
        name="TerminationStuck",
        meaning="The termination of a NodeClaim does not complete; its machine may still be billed.",
        signal=R.most("operator_nodeclaim_termination_current_time_seconds", f"{BY}, name"),
        threshold=1800,
        severities=(("warning", "0m"),),
        summary="NodeClaim {{ $labels.name }} has been deleting for {{ $value | humanizeDuration }}",
        description="Its machine may still be billed. Usual causes: a PodDisruptionBudget blocks an eviction, a volume"
        " remains attached, or Azure does not delete the agent pool. `kubectl describe nodeclaim {{ $labels.name }}`"
        " shows the cause.",
    ),
    Alert(
        name="GpusUnusable",
        meaning="GPUs are billed and not allocatable on their Nodes.",
        # A size without any allocatable GPU has no series for it.
        signal=f"({PAID} - ({OFFERED} or {PAID} * 0))",
        severities=(("warning", "1h"),),
        summary="{{ $value }} {{ $labels.gpu_name }} GPUs are billed and not allocatable",
        description="Nodes of size {{ $labels.instance_type }} do not report all their GPUs as allocatable: the device"
        " plugin or the driver is not running, or devices are unhealthy.",
    ),
    Alert(
        name="GpusMissing",
        meaning="Ready Nodes lack GPUs, by the cause.",
        signal=R.most("gpu_provisioner_gpu_gates_closed", f"{BY}, reason"),
        severities=(("warning", "15m"),),
        summary="{{ $value }} Ready Nodes lack GPUs: {{ $labels.reason }}",
        description="Their NodeClaims are not Ready, and their workloads wait or have failed. `kubectl describe"
        " nodeclaim` shows the cause and the remedy: the device plugin, a taint, or the machine.",
    ),
    Alert(
        name="GpuAdmissionErrors",
        meaning="The kubelet rejects pods, because devices that the scheduler counted are gone (pods in an hour).",
        signal=f"sum by ({BY}, reason) ({R.grown('gpu_provisioner_gpu_admission_errors_total', '1h')})",
        threshold=5,
        severities=(("warning", "0m"),),
        summary="The kubelet rejected {{ $value | humanize }} pods in an hour: {{ $labels.reason }}",
        description="The pods stay Failed, and Jobs count them for their backoffLimit. The Event"
        " UnexpectedAdmissionError of the NodeClaims names pods and cause. `kubectl get events -A --field-selector"
        " reason=UnexpectedAdmissionError` lists them.",
    ),
    Alert(
        name="ReadinessRuleOverdue",
        meaning="Readiness rules were not satisfied in time; their taints keep pods off the Nodes.",
        signal=R.most("gpu_provisioner_readiness_rules_overdue", BY),
        severities=(("warning", "5m"),),
        summary="{{ $value }} NodeClaims wait for a readiness rule that is overdue",
        description="The machines are billed and take no pods. `kubectl describe nodeclaim` shows the rule and what it"
        " waits for.",
    ),
)

COST = (
    Alert(
        name="LeakedAgentPools",
        meaning="Agent pools without a NodeClaim are billed.",
        signal=R.most("gpu_provisioner_leaked_agent_pools", BY),
        severities=(("warning", "15m"), ("critical", "1h")),
        summary="{{ $value }} agent pools have no NodeClaim and are billed",
        description="Garbage collection usually removes them within minutes. `gpu-provisioner gc` lists them and what"
        " each is waiting for.",
    ),
    Alert(
        name="IdleGpuSpend",
        meaning="GPUs that no pod requests cost more than the threshold per hour.",
        signal=IDLE,
        threshold=10,
        severities=(("warning", "2h"),),
        summary="GPUs that no pod requests cost {{ printf `%.2f` $value }} per hour",
        description="The value is in USD. The table of Nodes on the fleet"
        " dashboard shows where the idle GPUs are. Delete their NodeClaims or scale down the workloads that created"
        " them.",
    ),
    Alert(
        name="AgentPoolsNearLimit",
        meaning="The cluster has almost as many agent pools as AKS allows.",
        signal=f"sum by ({BY}) ({R.most('gpu_provisioner_agent_pools', f'{BY}, state')})",
        threshold=90,
        severities=(("warning", "15m"),),
        summary="The cluster has {{ $value }} agent pools of the 100 that AKS allows",
        description="At the limit, new NodeClaims wait (PoolLimitReached). Find out what creates the agent pools before"
        " the limit is reached.",
    ),
    Alert(
        name="RemovalsRestricted",
        meaning="The circuit breaker restricts garbage collection: too many machines would be removed at once.",
        signal=R.most("gpu_provisioner_removals_restricted", BY),
        severities=(("critical", "0m"),),
        summary="Garbage collection is restricted: too many machines would be removed at once",
        description="Many machines lost their NodeClaims or Nodes at the same time, for example after a restore, the"
        " deletion of the CRD, or a stop of the cluster. `gpu-provisioner gc` lists them. `gpu-provisioner gc"
        " --confirm` allows their removal; they are kept if their NodeClaims are restored.",
    ),
    Alert(
        name="RepairsBlocked",
        meaning="Unhealthy Nodes are not repaired, because too many Nodes are unhealthy or terminating.",
        signal=R.most("gpu_provisioner_repairs_blocked", BY),
        severities=(("warning", "30m"),),
        summary="{{ $value }} unhealthy Nodes are not repaired: too many Nodes are unhealthy or terminating",
        description="Their workloads have no GPU. Many unhealthy Nodes usually have a common cause: image, driver,"
        " network or zone.",
    ),
    Alert(
        name="RepairsSuspended",
        meaning="Unhealthy machines are kept, because other machines of their size and image failed in the same way.",
        signal=R.most("gpu_provisioner_repairs_suspended", BY),
        severities=(("warning", "5m"),),
        summary="{{ $value }} unhealthy machines are kept: others of their size and image failed as well",
        description="A node image or a driver usually does not work on this size, and another machine would fail too."
        " The condition NodeHealthy of the NodeClaims names the size and the image.",
    ),
)

AZURE = (
    Alert(
        name="ArmThrottled",
        meaning="ARM throttles requests (share of the requests).",
        signal=f"sum by ({BY}) (rate({R.own(REQUESTS, code='429')}[10m]))"
        f" / sum by ({BY}) (rate({R.own(REQUESTS)}[10m]))",
        threshold=0.05,
        severities=(("warning", "10m"),),
        summary="ARM throttles {{ $value | humanizePercentage }} of the controller's requests",
        description="Provisioning and termination are delayed. Other clients may be using the subscription's limits in"
        " this region.",
    ),
    Alert(
        name="CredentialFailing",
        meaning="Azure or the API server rejects the controller's credentials (failures in 15 min).",
        signal=f"sum by ({BY}, system, reason) (" + R.grown("gpu_provisioner_credential_failures_total", "15m") + ")",
        threshold=2,
        severities=(("critical", "5m"),),
        summary="Requests of the controller to {{ $labels.system }} fail to authenticate: {{ $labels.reason }}",
        description="The controller cannot create or remove machines. Check the identity, the federated credential, the"
        " role and the clock; `gpu-provisioner check` names the cause.",
    ),
)

CONTROLLER = (
    Alert(
        name="Down",
        meaning="Prometheus scrapes no controller.",
        signal="absent(gpu_provisioner_event_loop_lag_seconds)",
        severities=(("critical", "5m"),),
        summary="Prometheus scrapes no gpu-provisioner",
        description="The controller is not running, or its metrics are not scraped. If it is not running, no machine is"
        " created or removed. No other alert of this group can fire.",
    ),
    Alert(
        name="NoLeader",
        meaning="Replicas are running, and none is the leader.",
        signal=f"max by ({BY}) ({R.alone('leader_election_master_status')})",
        compare="<",
        threshold=1,
        severities=(("critical", "5m"),),
        summary="No replica of gpu-provisioner is the leader",
        description="Replicas are running and none holds the Lease: no machine is created or removed.",
    ),
    Alert(
        name="Restarting",
        meaning="A replica was restarted again and again (restarts within half an hour).",
        signal=f"max by ({BY}, instance) ({R.restarts('30m')})",
        threshold=2,
        severities=(("critical", "5m"),),
        summary="{{ $labels.instance }} restarted {{ $value }} times within half an hour",
        description="The controller ends soon after each start, so that machines are created and removed late or not at"
        " all. `kubectl describe pod` shows the reason: OOMKilled, a failed liveness probe, or an exit code with the"
        " cause at the end of `kubectl logs --previous`.",
    ),
    Alert(
        name="ControllerErrors",
        meaning="Reconciliations fail (share of the reconciliations).",
        signal=FAILED,
        threshold=0.1,
        severities=(("warning", "15m"),),
        summary="{{ $value | humanizePercentage }} of the reconciliations of {{ $labels.controller }} fail",
        description="The API server rejects requests or does not respond, or the controller has a bug. Provisioning and"
        " termination are delayed. The controller's log has the error.",
    ),
    Alert(
        name="QueueBacklog",
        meaning="Keys are waiting in the work queue.",
        signal=f"max by ({BY}, name) ({R.acting('workqueue_depth')})",
        threshold=50,
        severities=(("warning", "15m"),),
        summary="{{ $value }} keys are waiting in the work queue {{ $labels.name }}",
        description="The controller does not keep up, and all its actions are delayed. Reconciliations are slow, or"
        " fail and are retried.",
    ),
    Alert(
        name="EventLoopBlocked",
        meaning="The event loop was blocked (seconds).",
        signal=R.most("gpu_provisioner_event_loop_lag_seconds", f"{BY}, instance"),
        threshold=1,
        severities=(("warning", "5m"),),
        summary="The event loop of {{ $labels.instance }} was blocked for {{ $value | humanizeDuration }}",
        description="The process computes for too long, or is short of CPU. It may lose the Lease, and requests may"
        " time out.",
    ),
    Alert(
        name="CacheStale",
        meaning="A cache was not updated (seconds).",
        signal=R.most("gpu_provisioner_cache_age_seconds", f"{BY}, resource"),
        threshold=300,
        severities=(("warning", "5m"),),
        summary="The cache of {{ $labels.resource }} is {{ $value | humanizeDuration }} old",
        description="The server does not respond, or rejects the requests. Steps that depend on this cache wait.",
    ),
    Alert(
        name="ObjectsSetAside",
        meaning="Objects are left out because they are too large or cannot be evaluated.",
        signal="({} or {} or {})".format(
            R.most("gpu_provisioner_cache_unreadable_objects", f"{BY}, resource"),
            R.most("gpu_provisioner_pods_set_aside", BY),
            R.events("gpu_provisioner_object_errors_total", "15m", f"{BY}, kind"),
        ),
        severities=(("warning", "5m"),),
        summary="{{ printf `%.0f` $value }} objects{{ with $labels.resource }} of the cache of {{ . }}{{ end }}"
        "{{ with $labels.kind }} of kind {{ . }}{{ end }} are left out",
        description="Each is too large, or caused an error; everything else is served. The controller's log and an"
        " Event name the object and the cause.",
    ),
)

GROUPS: dict[str, tuple[Alert, ...]] = {
    "gpu-provisioner-nodeclaims": CLAIMS,
    "gpu-provisioner-cost": COST,
    "gpu-provisioner-azure": AZURE,
    "gpu-provisioner-controller": CONTROLLER,
}
ALERTS: dict[str, Alert] = {alert.name: alert for group in GROUPS.values() for alert in group}
