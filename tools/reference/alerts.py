"""`docs/reference/alerts.md`: every alert, when it calls, and where its runbook is."""

from tools.dashboards.alerts import GROUPS, Alert
from tools.dashboards.panels import PREFIX
from tools.dashboards.records import BUDGET_SECONDS, RECORDS

from .markdown import code, page, table

INTRODUCTION = f"""\
With `prometheusRule.enabled: true` the chart installs them as a PrometheusRule of the Prometheus Operator. Any other
Prometheus reads `charts/gpu-provisioner/rules/alerts.yaml` as it stands. Azure's managed Prometheus keeps rules as
resources of Azure, [rule groups](https://learn.microsoft.com/azure/azure-monitor/essentials/prometheus-rule-groups),
which take the same names, expressions, durations, labels and annotations. Names begin with `{PREFIX}`, because an
Alertmanager is shared.

An alert calls when what it watches has been beyond its threshold for so long. Both, and whether there is the alert at
all, can be changed in the chart's values:

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

`provisioningBudgetSeconds` is what {PREFIX}ProvisioningSlow compares with, size by size; other sizes may take
{BUDGET_SECONDS} s. {PREFIX}IdleGpuSpend needs a price table and kube-state-metrics, and is silent without."""

RECORDED = "## Recorded\n\nExpressions that alerts share, under names of their own."


def render() -> str:
    """The page."""
    parts = [
        part
        for group, alerts in GROUPS.items()
        for part in (
            f"## {group.removeprefix('gpu-provisioner-').capitalize()}",
            table(["Alert", "Calls", "Beyond", "What is wrong"], [_row(alert) for alert in alerts]),
        )
    ]
    records = table(["Name", "Expression"], [[code(record.name), code(record.expr)] for record in RECORDS])
    return page("Alerts", "tools/dashboards/alerts.py", INTRODUCTION, *parts, RECORDED, records)


def _row(alert: Alert) -> list[str]:
    name = PREFIX + alert.name
    calls = ", ".join(f"{severity} after {lasting}" for severity, lasting in alert.severities)
    return [
        f"[{code(name)}](../runbooks/{name}.md)",
        calls.replace(" after 0m", " at once"),
        code(f"{alert.compare} {alert.threshold:g}"),
        alert.meaning,
    ]
