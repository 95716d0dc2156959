"""The dashboard of the fleet: provisioning, NodePools, disruption, Azure, cost, termination and the controller.

The first row shows the current state, the other rows show causes. Source:
docs/references/monitoring.md#alerts-and-panels.
"""

from tools.dashboards.panels import Dashboard
from tools.dashboards.variables import CLUSTER, JOB, SIZES, WINDOWS

from . import azure, controller, cost, disruption, gpus, nodepools, provisioning, summary, termination

FLEET = Dashboard(
    uid="gpu-provisioner-fleet",
    title="GPU provisioner: fleet",
    description="Provisioning, cost and termination of GPU machines, Azure's API, and the controller.",
    variables=(CLUSTER, JOB, SIZES, WINDOWS),
    rows=(
        summary.ROW,
        provisioning.ROW,
        nodepools.ROW,
        disruption.ROW,
        azure.ROW,
        cost.ROW,
        gpus.ROW,
        termination.ROW,
        controller.ROW,
    ),
    links=(("NodeClaim", "gpu-provisioner-claim"),),
)
