"""The dashboard of the whole fleet: do claims get machines, what do they cost, do they go again, is the program well.

The rows follow a person on call, what is wrong now before why; the panels are those of
docs/references/monitoring.md#alerts-and-panels.
"""

from tools.dashboards.panels import Dashboard
from tools.dashboards.variables import CLUSTER, JOB, SIZES, WINDOWS

from . import azure, down, money, now, program, up

FLEET = Dashboard(
    uid="gpu-provisioner-fleet",
    title="GPU provisioner: fleet",
    description="Do claims get machines, what do they cost, do they go again, is the controller well.",
    variables=(CLUSTER, JOB, SIZES, WINDOWS),
    rows=(now.ROW, up.ROW, azure.ROW, money.ROW, down.ROW, program.ROW),
    links=(("One claim's story", "gpu-provisioner-claim"),),
)
