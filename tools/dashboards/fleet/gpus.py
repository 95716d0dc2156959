"""The GPUs of the machines: missing devices and their causes, rejected pods, repairs and readiness rules."""

from tools.dashboards.colors import FAILURES, GPUS
from tools.dashboards.panels import Panel, Query, Row
from tools.dashboards.promql import DASHBOARD as S
from tools.dashboards.variables import WINDOW

BY_SIZE = "cluster, state, nodepool, instance_type"

ROW = Row(
    title="GPUs and repair",
    panels=(
        Panel(
            title="Devices of Nodes",
            description="What the Nodes of NodeClaims should offer by size and node class, and what is allocatable. MIG"
            " slices and shares of a GPU count as devices.",
            queries=(
                Query(
                    f"sum by (state) ({S.most('gpu_provisioner_gpu_devices', BY_SIZE)})",
                    "{{state}}",
                ),
            ),
            colors=GPUS,
            runbooks=("GpusMissing",),
        ),
        Panel(
            title="Ready Nodes without all their GPUs",
            description="By the cause that the controller found. `Unknown`: for less than 90 seconds, or it may not"
            " read DaemonSets.",
            queries=(Query(S.most("gpu_provisioner_gpu_gates_closed", "reason"), "{{reason}}"),),
            stacked=True,
            runbooks=("GpusMissing",),
        ),
        Panel(
            title="Pods rejected by the kubelet",
            description="UnexpectedAdmissionError: the devices that the scheduler counted were gone.",
            queries=(Query(S.events("gpu_provisioner_gpu_admission_errors_total", WINDOW, "reason"), "{{reason}}"),),
            bars=True,
            runbooks=("GpuAdmissionErrors",),
        ),
        Panel(
            title="Repairs",
            description="Replaced machines and restarted device plugins, by the signal that was due.",
            queries=(
                Query(
                    S.events("gpu_provisioner_gpu_repairs_total", WINDOW, "signal, action"), "{{action}}: {{signal}}"
                ),
            ),
            bars=True,
            runbooks=("RepairsBlocked", "RepairsSuspended"),
        ),
        Panel(
            title="Machines that are kept",
            description="Suspended: machines of the same size and image failed in the same way. Dry run: repairs that"
            " are due and not made. Rule overdue: a readiness rule was not satisfied in time.",
            queries=(
                Query(S.most("gpu_provisioner_repairs_suspended"), "suspended"),
                Query(S.most("gpu_provisioner_repairs_dry_run"), "dry run"),
                Query(S.most("gpu_provisioner_readiness_rules_overdue"), "rule overdue"),
            ),
            colors=FAILURES,
            runbooks=("RepairsSuspended", "ReadinessRuleOverdue"),
        ),
    ),
)
