"""For what a person is called, and in which words.

An alert is a signal, a comparison and a threshold, so that each can be looked at by itself: the signal returns
data in a fleet that is well, the comparison picks what is wrong. The words say what is wrong, for whom, and what to do
first; everything else stands in its runbook.

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
# Reasons that claims give while a size cannot be had: a person's business, and Azure's.
QUOTA = "QuotaExceeded"
UNAVAILABLE = (
    "~AllocationFailed|ZonalAllocationFailed|Overconstrained.*AllocationRequest|SkuNotAvailable|VMSizeNotSupported"
)
PAID, OFFERED = (
    R.most("gpu_provisioner_gpus", f"{BY}, instance_type, gpu_name", state=state)
    for state in ("expected", "allocatable")
)
CLAIMS_SAYING = (
    '{{ range printf `max by (name) (operator_nodeclaim_status_condition_count{status!="True",reason=%q}) > 0`'
    " $labels.reason | query | sortByLabel `name` }}{{ .Labels.name }} {{ end }}"
)


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`meaning` is for readers of a list, `summary` and `description` for who is called, with Prometheus' templates.

    `severities`: how bad, and for how long it must be so first (Prometheus' durations), the mildest first.
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
        """What Prometheus evaluates; it ends with the threshold, so that the chart can put another one there."""
        return f"{self.signal} {self.compare} {self.threshold:g}"


CLAIMS = (
    Alert(
        name="ClaimStuck",
        meaning="A claim is not Ready: its users have no GPU.",
        signal=R.most(f"{WAITING}_oldest_seconds", f"{BY}, condition, reason"),
        threshold=1200,
        severities=(("warning", "0m"),),
        summary="A NodeClaim has not been Ready for {{ $value | humanizeDuration }}: {{ $labels.condition }} says"
        " {{ $labels.reason }}",
        description="Its users have no GPU. Claims that say so: "
        + CLAIMS_SAYING
        + "- `kubectl describe nodeclaim` tells the cause and the remedy.",
    ),
    Alert(
        name="ProvisioningSlow",
        meaning="Machines of a size take longer than they may (a share of its budget, p99 of the last hour).",
        signal=f"({READY} / on (instance_type) group_left () {BUDGETS} or {READY} / {BUDGET_SECONDS})",
        threshold=1,
        severities=(("warning", "15m"),),
        summary="{{ $labels.instance_type }} machines take {{ printf `%.1f` $value }} times as long as they may",
        description="Of the claims that became Ready within the last hour the slowest took that much. Their users"
        " waited. See which stretch is slow: Azure's, the Node's or the GPUs'.",
    ),
    Alert(
        name="QuotaExhausted",
        meaning="Claims wait for quota.",
        signal=f"max by ({BY}, reason) (max_over_time({R.own(WAITING, reason=QUOTA)}[15m]))",
        severities=(("info", "5m"), ("warning", "1h")),
        summary="{{ $value }} NodeClaims wait for quota",
        description="The subscription's quota for a GPU size is used up; its claims wait and will not pass by"
        " themselves: " + CLAIMS_SAYING + "- raise the quota, or delete claims. `az vm list-usage` shows the family.",
    ),
    Alert(
        name="SkuUnavailable",
        meaning="Claims wait for machines that Azure does not have, or does not offer.",
        signal=f"max by ({BY}, reason) (max_over_time({R.own(WAITING, reason=UNAVAILABLE)}[15m]))",
        severities=(("info", "5m"), ("warning", "1h")),
        summary="{{ $value }} NodeClaims wait for machines that Azure does not have: {{ $labels.reason }}",
        description="Azure has no such machine free, or does not offer it to this subscription here. Claims: "
        + CLAIMS_SAYING
        + "- they are tried again by themselves; another zone or size may be had now.",
    ),
    Alert(
        name="TerminationStuck",
        meaning="A claim does not go: its machine may be billed on.",
        signal=R.most("operator_nodeclaim_termination_current_time_seconds", f"{BY}, name"),
        threshold=1800,
        severities=(("warning", "0m"),),
        summary="NodeClaim {{ $labels.name }} has been deleting for {{ $value | humanizeDuration }}",
        description="Its machine may still be billed. Mostly a disruption budget keeps a pod, a volume stays attached,"
        " or Azure does not delete the agent pool: `kubectl describe nodeclaim {{ $labels.name }}` says which.",
    ),
    Alert(
        name="GpusUnusable",
        meaning="GPUs are paid for that Nodes do not offer.",
        # A size of which no GPU is offered has no series of them.
        signal=f"({PAID} - ({OFFERED} or {PAID} * 0))",
        severities=(("warning", "1h"),),
        summary="{{ $value }} {{ $labels.gpu_name }} GPUs are paid for and cannot be used",
        description="Machines of size {{ $labels.instance_type }} exist whose Nodes do not offer all their GPUs: the"
        " device plugin or the driver does not run, or devices are unhealthy.",
    ),
)

MONEY = (
    Alert(
        name="LeakedAgentPools",
        meaning="Agent pools without a claim are billed.",
        signal=R.most("gpu_provisioner_leaked_agent_pools", BY),
        severities=(("warning", "15m"), ("critical", "1h")),
        summary="{{ $value }} agent pools have no NodeClaim and are billed",
        description="They should have been removed within minutes. `gpu-provisioner gc` lists them and what each waits"
        " for.",
    ),
    Alert(
        name="IdleGpuSpend",
        meaning="GPUs that no pod holds cost more than that an hour.",
        signal=IDLE,
        threshold=10,
        severities=(("warning", "2h"),),
        summary="GPUs that no pod holds cost {{ printf `%.2f` $value }} an hour",
        description="In the price table's currency. The dashboard's table of Nodes shows whose they are; their owners"
        " may delete claims or scale down.",
    ),
    Alert(
        name="AgentPoolsNearLimit",
        meaning="The cluster has nearly as many agent pools as AKS allows.",
        signal=f"sum by ({BY}) ({R.most('gpu_provisioner_agent_pools', f'{BY}, state')})",
        threshold=90,
        severities=(("warning", "15m"),),
        summary="The cluster has {{ $value }} agent pools of the 100 that AKS allows",
        description="Beyond the limit new claims wait in line (PoolLimitReached). Find out who makes so many, before"
        " users wait.",
    ),
    Alert(
        name="RemovalsBraked",
        meaning="So much looks like garbage that none of it is removed.",
        signal=R.most("gpu_provisioner_removals_braked", BY),
        severities=(("critical", "0m"),),
        summary="So much looks like garbage that nothing is removed until a person has looked",
        description="Many machines have lost their NodeClaims or Nodes at once: a restore, a deleted CRD, a cluster"
        " that was stopped? `gpu-provisioner gc` lists them; `gc --confirm` lets them go, the claims' return keeps"
        " them.",
    ),
    Alert(
        name="RepairsBlocked",
        meaning="Broken Nodes are not replaced, because too many are broken or going.",
        signal=R.most("gpu_provisioner_repairs_blocked", BY),
        severities=(("warning", "30m"),),
        summary="{{ $value }} broken Nodes are not replaced, because too many are broken or going",
        description="Their users have no GPU. What breaks many Nodes at once is seldom the machines: look for what they"
        " share.",
    ),
)

AZURE = (
    Alert(
        name="ArmThrottled",
        meaning="ARM refuses requests for their rate (their share).",
        signal=f"sum by ({BY}) (rate({R.own(REQUESTS, code='429')}[10m]))"
        f" / sum by ({BY}) (rate({R.own(REQUESTS)}[10m]))",
        threshold=0.05,
        severities=(("warning", "10m"),),
        summary="ARM refuses {{ $value | humanizePercentage }} of our requests for their rate",
        description="Machines come and go later than they could. Somebody else may be using up the subscription's"
        " limits in this region.",
    ),
    Alert(
        name="CredentialFailing",
        meaning="Azure or the API server does not let the controller in (failures in 15 min).",
        signal=f"sum by ({BY}, system, reason) (" + R.grown("gpu_provisioner_credential_failures_total", "15m") + ")",
        threshold=2,
        severities=(("critical", "5m"),),
        summary="The controller is not let in at {{ $labels.system }}: {{ $labels.reason }}",
        description="No machine is made or removed there meanwhile. Identity, federation, role or clock are wrong;"
        " `gpu-provisioner check` names which.",
    ),
)

PROGRAM = (
    Alert(
        name="Down",
        meaning="No controller is scraped.",
        signal="absent(gpu_provisioner_event_loop_lag_seconds)",
        severities=(("critical", "5m"),),
        summary="No gpu-provisioner is scraped",
        description="The controller does not run, or its metrics do not arrive: no claim gets a machine, no machine is"
        " removed, and none of these alerts can tell.",
    ),
    Alert(
        name="NoLeader",
        meaning="Replicas run, and none acts.",
        signal=f"max by ({BY}) ({R.alone('leader_election_master_status')})",
        compare="<",
        threshold=1,
        severities=(("critical", "5m"),),
        summary="No replica of gpu-provisioner leads",
        description="Replicas run, and none holds the lease: no claim gets a machine, and none is removed.",
    ),
    Alert(
        name="ControllerErrors",
        meaning="Passes fail (their share).",
        signal=FAILED,
        threshold=0.1,
        severities=(("warning", "15m"),),
        summary="{{ $value | humanizePercentage }} of the passes of {{ $labels.controller }} fail",
        description="The API server refuses or does not answer, or the controller has a fault: claims come and go late."
        " Its log names the error.",
    ),
    Alert(
        name="QueueBacklog",
        meaning="Keys wait to be worked on.",
        signal=f"max by ({BY}, name) ({R.acting('workqueue_depth')})",
        threshold=50,
        severities=(("warning", "15m"),),
        summary="{{ $value }} keys wait in the queue {{ $labels.name }}",
        description="The controller cannot keep up: everything it does comes late. Its passes are slow, or fail and"
        " return.",
    ),
    Alert(
        name="EventLoopBlocked",
        meaning="The event loop was held up for so many seconds.",
        signal=R.most("gpu_provisioner_event_loop_lag_seconds", f"{BY}, instance"),
        threshold=1,
        severities=(("warning", "5m"),),
        summary="{{ $labels.instance }} was held up for {{ $value | humanizeDuration }}",
        description="Something computes where it should wait, or the CPU is short: the lease may be lost, and timeouts"
        " strike without cause.",
    ),
    Alert(
        name="CacheStale",
        meaning="What is known of a server's objects is so many seconds old.",
        signal=R.most("gpu_provisioner_cache_age_seconds", f"{BY}, resource"),
        threshold=300,
        severities=(("warning", "5m"),),
        summary="What the controller knows of {{ $labels.resource }} is {{ $value | humanizeDuration }} old",
        description="It does not act on what it cannot know: claims wait. The server does not answer, or refuses.",
    ),
)

GROUPS: dict[str, tuple[Alert, ...]] = {
    "gpu-provisioner-claims": CLAIMS,
    "gpu-provisioner-money": MONEY,
    "gpu-provisioner-azure": AZURE,
    "gpu-provisioner-program": PROGRAM,
}
ALERTS: dict[str, Alert] = {alert.name: alert for group in GROUPS.values() for alert in group}
