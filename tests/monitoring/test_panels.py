"""The expressions of every panel and rule, evaluated by a real Prometheus over the recording of the scenario."""

import math
from typing import Any

import pytest

from tools.dashboards.alerts import ALERTS
from tools.dashboards.panels import PREFIX
from tools.dashboards.queries import DASHBOARDS, Expression, dashboard, filled, of_dashboard
from tools.dashboards.records import RECORDS
from tools.monitoring.recording import Recording
from tools.monitoring.scenario import CLAIMS

Json = dict[str, Any]
# Grafana's function in the query of a variable.
LABEL_VALUES = "label_values("


def with_data(recording: Recording, expression: str) -> list[Json]:
    """The series of the expression over the recording that contain a number."""
    found = recording.prometheus.over(expression, recording.start, recording.end)
    return [one for one in found if any(math.isfinite(float(value)) for _, value in one["values"])]


@pytest.mark.parametrize(
    "expression", [one for name in DASHBOARDS for one in of_dashboard(name)], ids=lambda a: a.where
)
def test_each_panel_returns_data(recording: Recording, expression: Expression) -> None:
    """For the fleet, or for at least one claim: not every claim lacks quota or is deleted."""
    claims = CLAIMS if "$claim" in expression.expr else ("",)
    assert any(with_data(recording, filled(expression.expr, {"claim": claim})) for claim in claims)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_watches_something(recording: Recording, name: str) -> None:
    """The signal of each alert has values. `test_rules.py` checks when the threshold is exceeded.

    The signal of `Down` has no series while the program runs, and one series ten minutes after its end.
    """
    if name == "Down":
        (gone,) = recording.prometheus.instant(ALERTS[name].signal, recording.end + 600)
        assert gone["value"][1] == "1"
        assert recording.prometheus.instant(ALERTS[name].signal, recording.end) == []
    else:
        assert with_data(recording, ALERTS[name].signal)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_each_recording_rule_records(recording: Recording, record: Any) -> None:
    """Prometheus evaluated it during the scenario."""
    assert with_data(recording, record.name)


def test_prometheus_evaluated_every_rule(recording: Recording) -> None:
    """No evaluation failed, for example with a many-to-many match."""
    failed = {rule["name"]: rule["lastError"] for rule in recording.prometheus.rules() if rule.get("lastError")}
    assert failed == {}
    assert {rule["health"] for rule in recording.prometheus.rules()} == {"ok"}


def test_the_faults_of_the_scenario_make_their_alerts_pending(recording: Recording) -> None:
    """Alerts without a fault are not pending."""
    noticed = {one["metric"]["alertname"] for one in with_data(recording, f'ALERTS{{alertname=~"{PREFIX}.+"}}')}
    expected = {"QuotaExhausted", "SkuUnavailable", "GpusUnusable", "LeakedAgentPools", "IdleGpuSpend"}
    assert {PREFIX + name for name in expected} <= noticed
    calm = {
        "ClaimStuck",
        "TerminationStuck",
        "RemovalsRestricted",
        "CredentialFailing",
        "AgentPoolsNearLimit",
        "CacheStale",
    }
    assert not {PREFIX + name for name in calm} & noticed


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_variable_has_values_to_choose_from(recording: Recording, name: str) -> None:
    """As Grafana lists them. The label `cluster` exists only where Prometheus adds it."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] != "query" or variable["name"] == "cluster":
            continue
        query = variable["definition"].removeprefix(LABEL_VALUES).removesuffix(")")
        selected, _, label = query.rpartition(", ")
        found = {one["metric"].get(label) for one in with_data(recording, filled(selected, {}))}
        assert found - {None, ""}, variable["name"]
