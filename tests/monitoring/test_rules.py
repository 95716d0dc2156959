"""The rules under promtool: they are valid, and each alert fires exactly for its cause."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.dashboards.alerts import ALERTS, Alert
from tools.dashboards.panels import PREFIX, RUNBOOKS
from tools.dashboards.queries import RULES
from tools.monitoring.prometheus import promtool

from .firing import FIRING
from .not_firing import NOT_FIRING
from .series import Firing, NotFiring, Series

Json = dict[str, Any]


def ran(folder: Path, test: Json) -> str:
    """promtool's output for one test with one value per minute; "" if it passes."""
    written = folder / "test.yaml"
    text = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [{"interval": "1m", **test}]}
    written.write_text(yaml.safe_dump(text), encoding="utf-8")
    done = promtool("test", "rules", written)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series(given: Series) -> list[Json]:
    """Series in the format of promtool's tests."""
    return [{"series": name, "values": values} for name, values in given.items()]


def expected(row: Firing, alert: Alert, severity: str) -> Json:
    """An alert with all its labels and annotations."""
    name = PREFIX + alert.name
    return {
        "exp_labels": {**row.target, **row.labels, "severity": severity},
        "exp_annotations": {
            "summary": row.summary,
            "description": row.description or alert.description,
            "runbook_url": RUNBOOKS.format(alert=name),
        },
    }


def test_promtool_accepts_the_rules() -> None:
    """`promtool check rules` reports nothing about names, expressions, durations and templates."""
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stderr


def test_each_alert_has_rows_of_both_kinds() -> None:
    """Each alert has a row in which it fires, for every severity, and a row in which it does not."""
    assert {row.alert for row in FIRING} == {row.alert for row in NOT_FIRING} == set(ALERTS)
    for name, alert in ALERTS.items():
        fired = {severity for row in FIRING if row.alert == name for severity in row.severities}
        assert fired == {severity for severity, _ in alert.severities}, name


@pytest.mark.parametrize("row", FIRING, ids=lambda row: f"{row.alert}: {row.summary}")
def test_an_alert_fires(row: Firing, tmp_path: Path) -> None:
    """With these labels and annotations, and with no other severity."""
    alert = ALERTS[row.alert]
    wanted = [expected(row, alert, severity) for severity in row.severities]
    rule = {"eval_time": f"{row.at}m", "alertname": PREFIX + row.alert, "exp_alerts": wanted}
    assert ran(tmp_path, {"input_series": series(row.series), "alert_rule_test": [rule]}) == ""


@pytest.mark.parametrize("row", NOT_FIRING, ids=lambda row: f"{row.alert}, as {row.why}")
def test_an_alert_does_not_fire(row: NotFiring, tmp_path: Path) -> None:
    """Evaluated every five minutes for three hours."""
    rules = [
        {"eval_time": f"{minute}m", "alertname": PREFIX + row.alert, "exp_alerts": []}
        for minute in range(0, row.until, 5)
    ]
    assert ran(tmp_path, {"input_series": series(row.series), "alert_rule_test": rules}) == ""


def test_an_unexpected_alert_is_reported(tmp_path: Path) -> None:
    """promtool fails on an alert that fires although none is expected."""
    row = next(row for row in FIRING if row.alert == "QueueBacklog")
    rule = {"eval_time": f"{row.at}m", "alertname": f"{PREFIX}QueueBacklog", "exp_alerts": []}
    assert "exp" in ran(tmp_path, {"input_series": series(row.series), "alert_rule_test": [rule]})
