"""The dashboard of one claim: what it says, since when, what its machine does, and how others of its size fare.

Found by the claim's name; conditions and reasons over time are those that `kubectl describe` shows now.
"""

from .panels import Color, Dashboard, Panel, Query, Row, Variable
from .promql import DASHBOARD as S
from .variables import CLUSTER, JOB, KUBE_STATE, MONEY, PRICES, WINDOW, WINDOWS

COUNT = "operator_nodeclaim_status_condition_count"
FOR = "operator_nodeclaim_status_condition_current_status_seconds"
DELETING = "operator_nodeclaim_termination_current_time_seconds"
INFO = "gpu_provisioner_nodeclaim_info"
PHASES = "gpu_provisioner_nodeclaim_phase_duration_seconds"
THIS = "$claim"
# Joins what is known of Nodes, or of sizes, with this claim's.
ITS_NODE = f"and on (cluster, node_name) {S.own(INFO, name=THIS)}"
ITS_SIZE = f"and on (instance_type) max by (instance_type) ({S.own(INFO, name=THIS)})"

CLAIM = Variable(name="claim", label="NodeClaim", query=f"label_values({S.own(COUNT)}, name)")
WORD: dict[int, tuple[str, Color]] = {0: ("False", "red"), 1: ("Unknown", "yellow"), 2: ("True", "green")}


def _word(by: str = "", **labels: str) -> str:
    """A condition's status as a number: False, Unknown, True."""
    return " or ".join(
        f"{value} * {S.most(COUNT, by, name=THIS, status=status, **labels)}" for value, (status, _) in WORD.items()
    )


NOW = Row(
    title="$claim now",
    panels=(
        Panel(
            title="Ready",
            description="Whether pods can use this machine.",
            kind="stat",
            queries=(Query(_word(type="Ready")),),
            states=WORD,
            runbooks=("ClaimStuck",),
            width=3,
            height=5,
        ),
        Panel(
            title="For",
            description="How long Ready has said this.",
            kind="stat",
            unit="s",
            queries=(Query(S.most(FOR, name=THIS, type="Ready")),),
            width=3,
            height=5,
        ),
        Panel(
            title="Conditions",
            description="What each condition says, why, and for how long. Messages: `kubectl describe nodeclaim`.",
            kind="table",
            queries=(Query(S.most(FOR, "type, status, reason", name=THIS)),),
            columns={"type": "Condition", "status": "Status", "reason": "Reason", "Value": "For"},
            units={"For": "s"},
            runbooks=("ClaimStuck", "TerminationStuck"),
            width=10,
            height=5,
        ),
        Panel(
            title="Machine",
            description="The agent pool and the Node it has, as soon as it has them.",
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

STORY = Row(
    title="Its story",
    panels=(
        Panel(
            title="Conditions over time",
            description="The way up goes Launched, Registered, Initialized, Ready; the way down Drained,"
            " VolumesDetached, InstanceTerminating.",
            kind="state-timeline",
            queries=(Query(_word("type"), "{{type}}"),),
            states=WORD,
            runbooks=("ClaimStuck", "TerminationStuck"),
            width=12,
            height=9,
        ),
        Panel(
            title="Why not True, over time",
            description="The reasons of conditions that are not True, while they are given.",
            kind="state-timeline",
            queries=(Query(S.most(COUNT, "type, reason", name=THIS, status="!True"), "{{type}}: {{reason}}"),),
            states={1: ("", "orange")},
            runbooks=("ClaimStuck", "QuotaExhausted", "SkuUnavailable", "ArmThrottled"),
            width=12,
            height=9,
        ),
        Panel(
            title="How long each condition has said the same",
            description="It falls to 0 when a condition changes its status.",
            unit="s",
            queries=(Query(S.most(FOR, "type, status", name=THIS), "{{type}} {{status}}"),),
        ),
        Panel(
            title="Deleting for",
            description="How long this claim has been on its way out.",
            unit="s",
            queries=(Query(S.most(DELETING, name=THIS), "since its deletion"),),
            steps=((1800, "red"),),
            runbooks=("TerminationStuck",),
        ),
        Panel(
            title="Its GPUs",
            description=f"Offered by its Node, and held by pods. {KUBE_STATE}",
            queries=(
                Query(f"sum({S.allocatable_gpus()} {ITS_NODE})", "offered"),
                Query(f"sum({S.requested_gpus()} {ITS_NODE})", "held by pods"),
            ),
            runbooks=("GpusUnusable", "IdleGpuSpend"),
        ),
    ),
)

OTHERS = Row(
    title="Others of its size",
    panels=(
        Panel(
            title="Time to Ready",
            description="Of the claims of this size that got there within the window: what to expect.",
            unit="s",
            queries=tuple(
                Query(
                    f"{S.quantile(share, PHASES, 'instance_type', WINDOW, phase='ready')} {ITS_SIZE}",
                    f"p{share * 100:g} {{{{instance_type}}}}",
                )
                for share in (0.5, 0.9, 0.99)
            ),
            runbooks=("ProvisioningSlow",),
        ),
        Panel(
            title="Create failures",
            description="Of this size: whether Azure fails this claim alone.",
            queries=(
                Query(
                    S.events("gpu_provisioner_create_failures_total", WINDOW, "reason, instance_type") + f" {ITS_SIZE}",
                    "{{reason}}",
                ),
            ),
            bars=True,
            runbooks=("QuotaExhausted", "SkuUnavailable"),
        ),
        Panel(
            title="Rest of its size",
            description="For how long nobody asks for what was short; at 0 one claim may try.",
            unit="s",
            queries=(
                Query(
                    S.most("gpu_provisioner_offering_cooldown_seconds", "instance_type, zone, capacity_type")
                    + f" {ITS_SIZE}",
                    "{{zone}} {{capacity_type}}",
                ),
            ),
            runbooks=("QuotaExhausted", "SkuUnavailable"),
        ),
        Panel(
            title="Price of its machine, an hour",
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
            title="Others not Ready for the same reason",
            description="How many claims wait as this one does, its own wait included.",
            kind="table",
            queries=(Query(S.most("gpu_provisioner_nodeclaims_not_ready", "condition, reason")),),
            columns={"condition": "Condition", "reason": "Reason", "Value": "Claims"},
            width=18,
            height=5,
        ),
    ),
)

STORY_OF_ONE = Dashboard(
    uid="gpu-provisioner-claim",
    title="GPU provisioner: one claim's story",
    description="What a NodeClaim says, since when, what its machine does, and how others of its size fare.",
    variables=(CLUSTER, JOB, CLAIM, WINDOWS),
    rows=(NOW, STORY, OTHERS),
    links=(("The fleet", "gpu-provisioner-fleet"),),
)
