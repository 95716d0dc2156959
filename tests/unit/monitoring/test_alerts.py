"""Alerts, their runbooks, and what the chart lets people change of them, against each other."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import helm_python
import pytest

from provisioner.cli.main import COMMANDS
from tests.unit.charts.chart_values import EVERYTHING, Json, defaults, named, render, schema_of, with_value
from tools.dashboards.alerts import ALERTS
from tools.dashboards.panels import PREFIX, RUNBOOKS
from tools.dashboards.queries import rules

ROOT = Path(__file__).parents[3]
BOOKS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "runbooks").glob("*.md"))}
HEADS = ["## What it means", "## What users notice", "## Look", "## Do", "## Escalate"]
BIN = Path(sys.executable).parent


def shipped(values: Json) -> list[Json]:
    """The alerts that the chart renders."""
    groups = named(render(values), "PrometheusRule")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def alerts(values: Json, name: str) -> list[Json]:
    """Those of that name."""
    return [rule for rule in shipped(values) if rule["alert"] == PREFIX + name]


def with_alert(name: str, **other: object) -> Json:
    """Everything on, and one alert changed."""
    return with_value(EVERYTHING, "prometheusRule.alerts", {PREFIX + name: other})


# --- what belongs together -------------------------------------------------------------------------------------------


def test_each_alert_has_its_runbook_and_its_name_in_the_chart() -> None:
    """And no runbook or name is left over from an alert that is gone."""
    names = [PREFIX + name for name in ALERTS]
    assert sorted(BOOKS) == sorted(names)
    assert schema_of("prometheusRule.alerts")["propertyNames"]["enum"] == names
    assert {rule["alert"] for rule in rules() if "alert" in rule} == set(names)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_where_to_read_on(name: str) -> None:
    """A summary with no more than a line, a description that ends, a severity, a runbook, an end for the threshold."""
    alert = ALERTS[name]
    assert 20 <= len(alert.summary) <= 160
    assert not alert.summary.endswith(".")
    assert alert.description.endswith(".")
    assert alert.meaning.endswith(".")
    assert re.search(rf" [<>] {re.escape(f'{alert.threshold:g}')}$", alert.expr)
    written = [rule for rule in rules() if rule.get("alert") == PREFIX + name]
    assert [(rule["labels"]["severity"], rule["for"]) for rule in written] == list(alert.severities)
    assert {rule["annotations"]["runbook_url"] for rule in written} == {RUNBOOKS.format(alert=PREFIX + name)}


def test_the_charts_address_of_runbooks_is_the_files() -> None:
    """Whoever takes the plain file and whoever takes the chart are led to the same page."""
    assert defaults()["prometheusRule"]["runbookUrl"] == RUNBOOKS
    assert shipped(EVERYTHING) == [rule for rule in rules() if "alert" in rule]


# --- runbooks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOOKS)
def test_a_runbook_answers_the_five_questions(name: str) -> None:
    """What it means, who notices, how to look, what to do, whom to call: in this order, none of them empty."""
    lines = BOOKS[name].splitlines()
    assert lines[0] == f"# {name}"
    assert [line for line in lines if line.startswith("## ")] == HEADS
    for part in re.split(r"^## .*$", BOOKS[name], flags=re.MULTILINE)[1:]:
        assert len(part.strip()) > 10
    assert "```console\n$ " in BOOKS[name]


COMMAND_LINES = sorted({line for text in BOOKS.values() for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE)})


@cache
def told_by(*command: str) -> str:
    """What a program says of its flags."""
    done = subprocess.run([*command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [line for line in COMMAND_LINES if line.startswith(("kubectl", "gpu-provisioner"))])
def test_each_command_of_a_runbook_exists(line: str) -> None:
    """The installed programs know the command, and every flag of it."""
    program, *words = shlex.split(line.partition(" -- ")[0])
    verbs = words[:2] if words[0] in ("auth", "top") else words[:1]
    if program == "gpu-provisioner":
        assert verbs[0] in COMMANDS
    told = told_by(str(BIN / program), *verbs, "--help")
    told += told_by(str(BIN / program), "options") if program == "kubectl" else ""
    for flag in (word for word in words if word.startswith("--")):
        assert re.search(rf"{re.escape(flag.partition('=')[0])}\b", told), flag


def test_other_commands_of_runbooks_are_azures() -> None:
    """Nothing has to be installed beyond kubectl, ours and az."""
    others = {line.split()[0] for line in COMMAND_LINES} - {"kubectl", "gpu-provisioner"}
    assert others == {"az"}


# --- the chart -------------------------------------------------------------------------------------------------------


def test_a_threshold_of_ones_own_takes_the_place_of_the_shipped_one() -> None:
    """Nothing else of the expression changes, whatever the number looks like."""
    for threshold in (50, 0.5, 0):
        (changed,) = alerts(with_alert("IdleGpuSpend", threshold=threshold), "IdleGpuSpend")
        (shipped_one,) = alerts(EVERYTHING, "IdleGpuSpend")
        assert changed == {**shipped_one, "expr": f"{ALERTS['IdleGpuSpend'].signal} > {threshold:g}"}


def test_a_duration_is_changed_for_its_severity_alone() -> None:
    """An alert with two severities keeps the other's."""
    changed = alerts(with_alert("LeakedAgentPools", **{"for": {"critical": "3h"}}), "LeakedAgentPools")
    assert [(rule["labels"]["severity"], rule["for"]) for rule in changed] == [("warning", "15m"), ("critical", "3h")]


def test_an_alert_can_be_switched_off() -> None:
    """It is gone, whatever its severity, and no other is."""
    off = shipped(with_alert("QuotaExhausted", enabled=False))
    assert off == [rule for rule in shipped(EVERYTHING) if rule["alert"] != f"{PREFIX}QuotaExhausted"]
    assert shipped(with_alert("QuotaExhausted", enabled=True)) == shipped(EVERYTHING)


def test_a_size_may_be_given_its_own_time() -> None:
    """The budget is recorded under the name that the alert compares with."""
    values = with_value(EVERYTHING, "prometheusRule.provisioningBudgetSeconds", {"Standard_ND96isr_H100_v5": 2400})
    group = named(render(values), "PrometheusRule")["spec"]["groups"][-1]
    (rule,) = group["rules"]
    assert rule["labels"] == {"instance_type": "Standard_ND96isr_H100_v5"}
    assert rule["expr"] == "vector(2400)"
    assert rule["record"] in ALERTS["ProvisioningSlow"].expr


def test_alerts_and_dashboards_lead_where_the_values_say() -> None:
    """To runbooks of one's own, and to one's own Grafana."""
    values = with_value(EVERYTHING, "prometheusRule.runbookUrl", "https://books.example/{alert}")
    values = with_value(values, "prometheusRule.grafanaUrl", "https://grafana.example/")
    (alert,) = alerts(values, "Down")
    assert alert["annotations"]["runbook_url"] == f"https://books.example/{PREFIX}Down"
    assert alert["annotations"]["dashboard_url"] == "https://grafana.example/d/gpu-provisioner-fleet"
    boards = named(render(values), "ConfigMap")["data"]
    assert sorted(boards) == ["claim.json", "fleet.json"]
    assert f'"https://books.example/{PREFIX}Down"' in boards["fleet.json"]
    assert not any(RUNBOOKS.partition("{")[0] in text for text in boards.values())


def test_the_dashboards_arrive_as_they_are_written() -> None:
    """What Grafana's sidecar finds is the file, legends with their braces and all."""
    boards = named(render(EVERYTHING), "ConfigMap")["data"]
    folder = ROOT / "charts" / "gpu-provisioner" / "dashboards"
    assert boards == {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"GpuProvisionerStuck": {"threshold": 1}}, "value must be one of"),
        ({"GpuProvisionerDown": {"treshold": 1}}, "additional properties 'treshold' not allowed"),
        ({"GpuProvisionerDown": {"for": {"critical": "soon"}}}, "'soon' does not match pattern"),
        ({"GpuProvisionerDown": {"for": {"fatal": "1m"}}}, "value must be one of"),
    ],
)
def test_a_change_that_would_do_nothing_is_refused(changed: Json, words: str) -> None:
    """A misspelt alert, field, severity or duration is named before anything is installed."""
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render(with_value(EVERYTHING, "prometheusRule.alerts", changed))
    assert words in str(refused.value)
