"""Every panel and every rule over the recording: real metrics of the real program, in a real Prometheus."""

import math
from typing import Any

import pytest

from tools.dashboards.alerts import ALERTS
from tools.dashboards.panels import PREFIX
from tools.dashboards.queries import DASHBOARDS, Asked, dashboard, filled, of_dashboard
from tools.dashboards.records import RECORDS
from tools.monitoring.recording import Recording
from tools.monitoring.scenario import CLAIMS

Json = dict[str, Any]
# What a variable's query asks Grafana for: the values of a label.
LABEL_VALUES = "label_values("


def with_data(recording: Recording, expression: str) -> list[Json]:
    """The series that it returns in the course of the recording, with a number in each."""
    found = recording.prometheus.over(expression, recording.start, recording.end)
    return [one for one in found if any(math.isfinite(float(value)) for _, value in one["values"])]


@pytest.mark.parametrize("asked", [one for name in DASHBOARDS for one in of_dashboard(name)], ids=lambda a: a.where)
def test_each_panel_returns_data(recording: Recording, asked: Asked) -> None:
    """Of the fleet, or of one of its claims: some are never short of quota, and some are never deleted."""
    claims = CLAIMS if "$claim" in asked.expr else ("",)
    assert any(with_data(recording, filled(asked.expr, {"claim": claim})) for claim in claims)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_watches_something(recording: Recording, name: str) -> None:
    """What is compared with the threshold has values, whether beyond it or not. When it is beyond: `test_rules.py`.

    Only absence cannot be seen of a program that is there, and whoever asks for it later sees nothing else.
    """
    if name == "Down":
        (gone,) = recording.prometheus.instant(ALERTS[name].signal, recording.end + 600)
        assert gone["value"][1] == "1"
        assert recording.prometheus.instant(ALERTS[name].signal, recording.end) == []
    else:
        assert with_data(recording, ALERTS[name].signal)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_each_recording_rule_records(recording: Recording, record: Any) -> None:
    """Prometheus itself has evaluated it all the while."""
    assert with_data(recording, record.name)


def test_prometheus_evaluated_every_rule(recording: Recording) -> None:
    """None failed, many-to-many matches and the like included, at any state of the fleet."""
    failed = {rule["name"]: rule["lastError"] for rule in recording.prometheus.rules() if rule.get("lastError")}
    assert failed == {}
    assert {rule["health"] for rule in recording.prometheus.rules()} == {"ok"}


def test_what_went_wrong_was_noticed(recording: Recording) -> None:
    """The faults of the scenario put their alerts into waiting, and what did not go wrong none."""
    noticed = {one["metric"]["alertname"] for one in with_data(recording, f'ALERTS{{alertname=~"{PREFIX}.+"}}')}
    expected = {"QuotaExhausted", "SkuUnavailable", "GpusUnusable", "LeakedAgentPools", "IdleGpuSpend"}
    assert {PREFIX + name for name in expected} <= noticed
    calm = {
        "ClaimStuck",
        "TerminationStuck",
        "RemovalsBraked",
        "CredentialFailing",
        "AgentPoolsNearLimit",
        "CacheStale",
    }
    assert not {PREFIX + name for name in calm} & noticed


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_variable_has_values_to_choose_from(recording: Recording, name: str) -> None:
    """As Grafana would list them; the cluster's name is only there where somebody adds one."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] != "query" or variable["name"] == "cluster":
            continue
        asked = variable["definition"].removeprefix(LABEL_VALUES).removesuffix(")")
        selected, _, label = asked.rpartition(", ")
        found = {one["metric"].get(label) for one in with_data(recording, filled(selected, {}))}
        assert found - {None, ""}, variable["name"]
