"""Recording rules that the alerts use. Dashboards use none, because Azure managed Prometheus may have no rules."""

from dataclasses import dataclass

from .promql import RULES as R

# Labels of one installation.
BY = "cluster, namespace, job"
# Provisioning time budget of a size that has none in the chart's values.
BUDGET_SECONDS = 1200
BUDGETS = "gpu_provisioner:provisioning_budget_seconds"
READY, IDLE, FAILED = (
    "gpu_provisioner:ready_seconds:p99_1h",
    "gpu_provisioner:idle_cost_per_hour:sum",
    "gpu_provisioner:reconcile_errors:ratio_rate10m",
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One recording rule."""

    name: str
    expr: str


FAILURES, PASSES = (
    R.rate(f"controller_runtime_{family}_total", "10m", f"{BY}, controller")
    for family in ("reconcile_errors", "reconcile")
)
RECORDS = (
    Record(
        name=READY,
        expr=R.quantile(
            0.99, "gpu_provisioner_nodeclaim_phase_duration_seconds", f"{BY}, instance_type", "1h", phase="Ready"
        ),
    ),
    Record(name=IDLE, expr=f"sum by (cluster) ({R.cost_of(R.idle_gpus())})"),
    Record(name=FAILED, expr=f"({FAILURES} or {PASSES} * 0) / {PASSES}"),
)
