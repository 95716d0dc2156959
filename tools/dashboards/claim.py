"""The dashboard of one NodeClaim: its conditions over time, its machine, and other NodeClaims of the same size."""

from .colors import FAILURES, GPUS, Color
from .colors import STATUSES as STATUS_COLORS
from .panels import Dashboard, Panel, Query, Row, Variable
from .promql import DASHBOARD as S
from .variables import CLUSTER, JOB, KUBE_STATE, MONEY, PRICES, WINDOW, WINDOWS

COUNT = "operator_nodeclaim_status_condition_count"
FOR = "operator_nodeclaim_status_condition_current_status_seconds"
DELETING = "operator_nodeclaim_termination_current_time_seconds"
INFO = "gpu_provisioner_nodeclaim_info"
PHASES = "gpu_provisioner_nodeclaim_phase_duration_seconds"
THIS = "$claim"
# Restrict series of Nodes, or of sizes, to those of this claim.
ITS_NODE = f"and on (cluster, node_name) {S.own(INFO, name=THIS)}"
ITS_SIZE = f"and on (instance_type) max by (instance_type) ({S.own(INFO, name=THIS)})"

CLAIM = Variable(name="claim", label="NodeClaim", query=f"label_values({S.own(COUNT)}, name)")
STATUSES: dict[int, tuple[str, Color]] = {0: ("False", "red"), 1: ("Unknown", "yellow"), 2: ("True", "green")}


def _status(by: str = "", **labels: str) -> str:
    """A condition's status as a key of `STATUSES`."""
    return " or ".join(
        f"{value} * {S.most(COUNT, by, name=THIS, status=status, **labels)}" for value, (status, _) in STATUSES.items()
    )


NOW = Row(
    title="NodeClaim $claim",
    panels=(
        Panel(
            title="Ready",
            description="Whether pods can use the machine of this NodeClaim.",
            kind="stat",
            queries=(Query(_status(type="Ready")),),
            states=STATUSES,
            runbooks=("ClaimStuck",),
            width=3,
            height=5,
        ),
        Panel(
            title="Time in this status",
            description="How long Ready has had this status.",
            kind="stat",
            unit="s",
            queries=(Query(S.most(FOR, name=THIS, type="Ready")),),
            width=3,
            height=5,
        ),
        Panel(
            title="Conditions",
            description="Status, reason and age of each condition. `kubectl describe nodeclaim` shows the messages.",
            kind="table",
            queries=(Query(S.most(FOR, "type, status, reason", name=THIS)),),
            columns={"type": "Condition", "status": "Status", "reason": "Reason", "Value": "Since"},
            units={"Since": "s"},
            runbooks=("ClaimStuck", "TerminationStuck"),
            width=10,
            height=5,
        ),
        Panel(
            title="Machine",
            description="The agent pool and the Node, once they exist.",
            kind="table",
            queries=(Query(S.most(INFO, "instance_type, capacity_type, zone, agent_pool, node_name", name=THIS)),),
            columns={
                "instance_type": "Size",
                "capacity_type": "Capacity",
                "zone": "Zone",
                "agent_pool": "Agent pool",
                "node_name": "Node",
            },
            width=8,
            height=5,
        ),
    ),
)

HISTORY = Row(
    title="History",
    panels=(
        Panel(
            title="Conditions over time",
            description="Provisioning: Launched, Registered, Initialized, Ready. Termination: Drained, VolumesDetached,"
            " InstanceTerminating.",
            kind="state-timeline",
            queries=(Query(_status("type"), "{{type}}"),),
            states=STATUSES,
            runbooks=("ClaimStuck", "TerminationStuck"),
            width=12,
            height=9,
        ),
        Panel(
            title="Reasons over time",
            description="The reasons of conditions that are not True.",
            kind="state-timeline",
            queries=(Query(S.most(COUNT, "type, reason", name=THIS, status="!True"), "{{type}}: {{reason}}"),),
            states={1: ("", "orange")},
            runbooks=("ClaimStuck", "QuotaExhausted", "SkuUnavailable", "ArmThrottled"),
            width=12,
            height=9,
        ),
        Panel(
            title="Time in each status, by condition",
            description="Time since the last transition; 0 when the status changes.",
            unit="s",
            colors=STATUS_COLORS,
            queries=(Query(S.most(FOR, "type, status", name=THIS), "{{type}} {{status}}"),),
        ),
        Panel(
            title="Termination time",
            description="Time since the deletion timestamp of this NodeClaim.",
            unit="s",
            queries=(Query(S.most(DELETING, name=THIS), "since the deletion"),),
            steps=((1800, "red"),),
            runbooks=("TerminationStuck",),
        ),
        Panel(
            title="GPUs",
            description=f"Allocatable on the Node, and requested by pods. {KUBE_STATE}",
            queries=(
                Query(f"sum({S.allocatable_gpus()} {ITS_NODE})", "allocatable"),
                Query(f"sum({S.requested_gpus()} {ITS_NODE})", "requested"),
            ),
            colors=GPUS,
            runbooks=("GpusUnusable", "IdleGpuSpend"),
        ),
    ),
)

OTHERS = Row(
    title="NodeClaims of the same size",
    panels=(
        Panel(
            title="Time to Ready",
            description="For the NodeClaims of this size that became Ready within the window.",
            unit="s",
            queries=tuple(
                Query(
                    f"{S.quantile(share, PHASES, 'instance_type', WINDOW, phase='Ready')} {ITS_SIZE}",
                    f"p{share * 100:g} {{{{instance_type}}}}",
                )
                for share in (0.5, 0.9, 0.99)
            ),
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Failed creations",
            description="Failures of this size, which show whether other NodeClaims are affected.",
            queries=(
                Query(
                    S.events("gpu_provisioner_create_failures_total", WINDOW, "reason, instance_type") + f" {ITS_SIZE}",
                    "{{reason}}",
                ),
            ),
            bars=True,
            colors=FAILURES,
            runbooks=("QuotaExhausted", "SkuUnavailable"),
        ),
        Panel(
            title="Unavailable offerings",
            description="Time until an unavailable offering of this size is retried; at 0 one NodeClaim retries it.",
            unit="s",
            queries=(
                Query(
                    S.most("gpu_provisioner_offering_unavailable_seconds", "instance_type, zone, capacity_type")
                    + f" {ITS_SIZE}",
                    "{{zone}} {{capacity_type}}",
                ),
            ),
            runbooks=("QuotaExhausted", "SkuUnavailable"),
        ),
        Panel(
            title="Price per hour",
            description=PRICES,
            kind="stat",
            unit=MONEY,
            queries=(
                Query(
                    f"max({S.price()} and on (cluster, instance_type, capacity_type) {S.own(INFO, name=THIS)})",
                ),
            ),
            width=6,
            height=5,
        ),
        Panel(
            title="NodeClaims not Ready, by reason",
            description="The number of NodeClaims that are not Ready, this one included.",
            kind="table",
            queries=(Query(S.most("gpu_provisioner_nodeclaims_not_ready", "condition, reason")),),
            columns={"condition": "Condition", "reason": "Reason", "Value": "NodeClaims"},
            width=18,
            height=5,
        ),
    ),
)

NODECLAIM = Dashboard(
    uid="gpu-provisioner-claim",
    title="GPU provisioner: NodeClaim",
    description="Conditions of one NodeClaim over time, its machine, and other NodeClaims of the same size.",
    variables=(CLUSTER, JOB, CLAIM, WINDOWS),
    rows=(NOW, HISTORY, OTHERS),
    links=(("Fleet", "gpu-provisioner-fleet"),),
)
