"""`docs/reference/alerts.md`: every alert, its severities and threshold, and its runbook."""

from tools.dashboards.alerts import GROUPS, Alert
from tools.dashboards.panels import PREFIX
from tools.dashboards.records import BUDGET_SECONDS, RECORDS

from .markdown import code, page, table

INTRODUCTION = f"""\
With `prometheusRule.enabled: true` the chart installs the alerts as a PrometheusRule of the Prometheus Operator. Any
other Prometheus reads `charts/gpu-provisioner/rules/alerts.yaml` directly. Azure Monitor managed service for
Prometheus stores rules in [rule
groups](https://learn.microsoft.com/azure/azure-monitor/essentials/prometheus-rule-groups), which have the same
names, expressions, durations, labels and annotations. Alert names begin with `{PREFIX}`, because many programs share
an Alertmanager.

An alert fires when its signal exceeds the threshold for the given duration. The chart's values can change the
threshold and the duration, and disable an alert:

```yaml
prometheusRule:
  enabled: true
  alerts:
    {PREFIX}IdleGpuSpend:
      threshold: 50
      for:
        warning: 6h
    {PREFIX}RepairsBlocked:
      enabled: false
  provisioningBudgetSeconds:
    Standard_ND96isr_H100_v5: 2400
```

`provisioningBudgetSeconds` sets the budget of a size for {PREFIX}ProvisioningSlow; the default is {BUDGET_SECONDS} s.
{PREFIX}IdleGpuSpend requires kube-state-metrics. Machines without a price are not part of it.
{PREFIX}PodsUnschedulable has a signal while a NodePool of this controller exists."""

RECORDED = "## Recording rules\n\nExpressions that the alerts use."


def render() -> str:
    """The page."""
    parts = [
        part
        for group, alerts in GROUPS.items()
        for part in (
            f"## {group.removeprefix('gpu-provisioner-').capitalize()}",
            table(["Alert", "Fires", "Threshold", "Meaning"], [_row(alert) for alert in alerts]),
        )
    ]
    records = table(["Name", "Expression"], [[code(record.name), code(record.expr)] for record in RECORDS])
    return page("Alerts", "tools/dashboards/alerts.py", INTRODUCTION, *parts, RECORDED, records)


def _row(alert: Alert) -> list[str]:
    name = PREFIX + alert.name
    calls = ", ".join(f"{severity} after {lasting}" for severity, lasting in alert.severities)
    return [
        f"[{code(name)}](../runbooks/{name}.md)",
        calls.replace(" after 0m", " immediately"),
        code(f"{alert.compare} {alert.threshold:g}"),
        alert.meaning,
    ]
