"""Alerts, their runbooks, and the chart's values that change them."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import helm_python
import pytest

from provisioner.cli.definitions import COMMANDS
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
    """The rendered alerts of that name."""
    return [rule for rule in shipped(values) if rule["alert"] == PREFIX + name]


def with_alert(name: str, **other: object) -> Json:
    """Values with everything enabled and one alert changed."""
    return with_value(EVERYTHING, "prometheusRule.alerts", {PREFIX + name: other})


# --- alerts ----------------------------------------------------------------------------------------------------------


def test_each_alert_has_its_runbook_and_its_name_in_the_chart() -> None:
    """There is no runbook and no name without an alert."""
    names = [PREFIX + name for name in ALERTS]
    assert sorted(BOOKS) == sorted(names)
    assert schema_of("prometheusRule.alerts")["propertyNames"]["enum"] == names
    assert {rule["alert"] for rule in rules() if "alert" in rule} == set(names)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_complete(name: str) -> None:
    """A summary of one line, a description, severities, a runbook, and the threshold at the end of the expression."""
    alert = ALERTS[name]
    assert 20 <= len(alert.summary) <= 160
    assert not alert.summary.endswith(".")
    assert alert.description.endswith(".")
    assert alert.meaning.endswith(".")
    assert re.search(rf" [<>] {re.escape(f'{alert.threshold:g}')}$", alert.expr)
    written = [rule for rule in rules() if rule.get("alert") == PREFIX + name]
    assert [(rule["labels"]["severity"], rule["for"]) for rule in written] == list(alert.severities)
    assert {rule["annotations"]["runbook_url"] for rule in written} == {RUNBOOKS.format(alert=PREFIX + name)}


def test_the_chart_and_the_rules_file_have_the_same_alerts() -> None:
    """With the same URLs of runbooks."""
    assert defaults()["prometheusRule"]["runbookUrl"] == RUNBOOKS
    assert shipped(EVERYTHING) == [rule for rule in rules() if "alert" in rule]


# --- runbooks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOOKS)
def test_a_runbook_has_all_sections(name: str) -> None:
    """In order, and none is empty."""
    lines = BOOKS[name].splitlines()
    assert lines[0] == f"# {name}"
    assert [line for line in lines if line.startswith("## ")] == HEADS
    for part in re.split(r"^## .*$", BOOKS[name], flags=re.MULTILINE)[1:]:
        assert len(part.strip()) > 10
    assert "```console\n$ " in BOOKS[name]


COMMAND_LINES = sorted({line for text in BOOKS.values() for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE)})


@cache
def help_of(*command: str) -> str:
    """The output of a help command."""
    done = subprocess.run([*command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [line for line in COMMAND_LINES if line.startswith(("kubectl", "gpu-provisioner"))])
def test_each_command_of_a_runbook_exists(line: str) -> None:
    """The help of the installed program contains every flag."""
    program, *words = shlex.split(line.partition(" -- ")[0])
    verbs = words[:2] if words[0] in ("auth", "top") else words[:1]
    if program == "gpu-provisioner":
        assert verbs[0] in COMMANDS
    usage = help_of(str(BIN / program), *verbs, "--help")
    usage += help_of(str(BIN / program), "options") if program == "kubectl" else ""
    for flag in (word for word in words if word.startswith("--")):
        assert re.search(rf"{re.escape(flag.partition('=')[0])}\b", usage), flag


def test_runbooks_use_only_kubectl_az_and_this_program() -> None:
    others = {line.split()[0] for line in COMMAND_LINES} - {"kubectl", "gpu-provisioner"}
    assert others == {"az"}


# --- the chart -------------------------------------------------------------------------------------------------------


def test_a_threshold_can_be_changed() -> None:
    """Only the end of the expression changes, for integers and fractions."""
    for threshold in (50, 0.5, 0):
        (changed,) = alerts(with_alert("IdleGpuSpend", threshold=threshold), "IdleGpuSpend")
        (shipped_one,) = alerts(EVERYTHING, "IdleGpuSpend")
        assert changed == {**shipped_one, "expr": f"{ALERTS['IdleGpuSpend'].signal} > {threshold:g}"}


def test_a_duration_can_be_changed_for_one_severity() -> None:
    """The other severity of the alert keeps its duration."""
    changed = alerts(with_alert("LeakedAgentPools", **{"for": {"critical": "3h"}}), "LeakedAgentPools")
    assert [(rule["labels"]["severity"], rule["for"]) for rule in changed] == [("warning", "15m"), ("critical", "3h")]


def test_an_alert_can_be_disabled() -> None:
    """With all its severities; other alerts are unchanged."""
    off = shipped(with_alert("QuotaExhausted", enabled=False))
    assert off == [rule for rule in shipped(EVERYTHING) if rule["alert"] != f"{PREFIX}QuotaExhausted"]
    assert shipped(with_alert("QuotaExhausted", enabled=True)) == shipped(EVERYTHING)


def test_a_size_can_have_its_own_budget() -> None:
    """The budget is a recording rule whose name is part of the alert's expression."""
    values = with_value(EVERYTHING, "prometheusRule.provisioningBudgetSeconds", {"Standard_ND96isr_H100_v5": 2400})
    group = named(render(values), "PrometheusRule")["spec"]["groups"][-1]
    (rule,) = group["rules"]
    assert rule["labels"] == {"instance_type": "Standard_ND96isr_H100_v5"}
    assert rule["expr"] == "vector(2400)"
    assert rule["record"] in ALERTS["ProvisioningSlow"].expr


def test_the_urls_of_runbooks_and_grafana_can_be_changed() -> None:
    """In alerts and in dashboards."""
    values = with_value(EVERYTHING, "prometheusRule.runbookUrl", "https://books.example/{alert}")
    values = with_value(values, "prometheusRule.grafanaUrl", "https://grafana.example/")
    (alert,) = alerts(values, "Down")
    assert alert["annotations"]["runbook_url"] == f"https://books.example/{PREFIX}Down"
    assert alert["annotations"]["dashboard_url"] == "https://grafana.example/d/gpu-provisioner-fleet"
    boards = named(render(values), "ConfigMap")["data"]
    assert sorted(boards) == ["claim.json", "fleet.json"]
    assert f'"https://books.example/{PREFIX}Down"' in boards["fleet.json"]
    assert not any(RUNBOOKS.partition("{")[0] in text for text in boards.values())


def test_the_dashboards_are_installed_unchanged() -> None:
    """Helm does not evaluate the braces of the legends."""
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
def test_an_invalid_change_of_an_alert_is_rejected(changed: Json, words: str) -> None:
    """An unknown alert, field, severity or duration."""
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render(with_value(EVERYTHING, "prometheusRule.alerts", changed))
    assert words in str(refused.value)
