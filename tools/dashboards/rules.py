"""Rendering of the chart's rules file.

Prometheus and promtool read the file unchanged. The chart replaces thresholds, durations and addresses in it; therefore
an expression ends with its threshold.
"""

from typing import Any

import yaml

from .alerts import GROUPS, Alert
from .panels import PREFIX, RUNBOOKS
from .records import RECORDS

Json = dict[str, Any]
HEAD = "# Written by `make generate` from tools/dashboards/alerts.py; change it there.\n"
LINE_CHARACTERS = 118


def render() -> str:
    """The file."""
    groups = [{"name": "gpu-provisioner-records", "rules": [{"record": r.name, "expr": r.expr} for r in RECORDS]}]
    groups += [
        {"name": name, "rules": [rule for alert in alerts for rule in _rules(alert)]} for name, alerts in GROUPS.items()
    ]
    text: str = yaml.safe_dump({"groups": groups}, sort_keys=False, width=LINE_CHARACTERS, allow_unicode=True)
    return HEAD + text


def _rules(alert: Alert) -> list[Json]:
    name = PREFIX + alert.name
    return [
        {
            "alert": name,
            "expr": alert.expr,
            "for": lasting,
            "labels": {"severity": severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": RUNBOOKS.format(alert=name),
            },
        }
        for severity, lasting in alert.severities
    ]
