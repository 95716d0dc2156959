"""The expressions of dashboards and rules select only metrics and labels that exist.

`tests/monitoring` checks with a real Prometheus that they return data.
"""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest

from provisioner.metrics.definitions import FAMILIES, LABELS, Family
from tools.dashboards.alerts import ALERTS
from tools.dashboards.grafana import SCREEN_HEIGHT
from tools.dashboards.panels import PREFIX, RUNBOOKS
from tools.dashboards.queries import (
    DASHBOARDS,
    Expression,
    dashboard,
    nodes,
    of_dashboard,
    of_rules,
    panels,
    rules,
    selectors,
)

# Labels that a scrape, Azure's ingestion or Prometheus adds.
TARGET = {"cluster", "namespace", "job", "instance"}
# Families of kube-state-metrics:
# https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md
FOREIGN = {
    "kube_pod_container_resource_requests": {"namespace", "pod", "container", "node", "resource", "unit"},
    "kube_pod_status_phase": {"namespace", "pod", "phase"},
}
RECORDED = {rule["record"] for rule in rules() if "record" in rule} | {"gpu_provisioner:provisioning_budget_seconds"}
ALL = [*(expression for name in DASHBOARDS for expression in of_dashboard(name)), *of_rules()]


def series(family: Family) -> Iterator[tuple[str, set[str]]]:
    """The names of a family's series, and their labels."""
    labels = set(family.labels)
    if family.kind in ("histogram", "summary"):
        yield f"{family.name}_sum", labels
        yield f"{family.name}_count", labels
    if family.kind == "histogram":
        yield f"{family.name}_bucket", labels | {"le"}
    else:
        yield family.name, labels | ({"quantile"} if family.kind == "summary" else set())


KNOWN = {name: labels for family in FAMILIES for name, labels in series(family)} | FOREIGN


@pytest.mark.parametrize("expression", ALL, ids=lambda expression: expression.where)
def test_each_expression_selects_existing_metrics(expression: Expression) -> None:
    """Each name is a family's, each matched label is one of the family, and each value is possible."""
    found = selectors(expression.expr)
    assert found
    for name, matchers in found:
        if name in RECORDED:
            continue
        assert name in KNOWN, f"there is no {name}"
        for label, value in matchers.items():
            assert label in KNOWN[name] | TARGET, f"{name} has no label {label}"
            if name not in FOREIGN and label in LABELS and (known := LABELS[label].values) and "$" not in value:
                assert any(re.fullmatch(value, one) for one in known), f"{label} is never {value}"


def labels_of(node: Any) -> set[str]:
    """The possible labels of the series that an expression selects."""
    found: set[str] = set(TARGET)
    for name in (node.name for node in nodes(node.prettify()) if isinstance(node, promql_parser.VectorSelector)):
        found |= KNOWN.get(str(name)) or {"instance_type", "controller"}
    return found | {"node_name"}


@pytest.mark.parametrize("expression", ALL, ids=lambda expression: expression.where)
def test_each_label_of_a_grouping_or_a_legend_exists(expression: Expression) -> None:
    """Grouping by a missing label would merge all series, and a legend would be empty."""
    whole, *parts = nodes(expression.expr)
    for node in (whole, *parts):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            assert set(node.modifier.labels) <= labels_of(node.expr)
    shown = set(re.findall(r"\{\{(\w+)\}\}", expression.legend))
    assert shown <= labels_of(whole)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_panel_is_described(name: str) -> None:
    """A unique title, a description, a unit; names of several series; column headings of a table."""
    titles = [panel["title"] for panel in panels(name)]
    assert len(titles) == len(set(titles))
    for panel in panels(name):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        if panel["type"] == "table":
            assert panel["transformations"][-1]["options"]["renameByName"], panel["title"]
        elif len(panel["targets"]) > 1 or panel["type"] == "state-timeline":
            assert all(target["legendFormat"] != "__auto" for target in panel["targets"]), panel["title"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_panel_describes_its_prerequisites(name: str) -> None:
    """kube-state-metrics, or prices."""
    needs = {"kube_": "kube-state-metrics"} | dict.fromkeys(
        ("price_estimate", "cost_per_hour", "cost_total"), "list prices"
    )
    for panel in panels(name):
        names = {selector.name for target in panel["targets"] for selector in selectors(target["expr"])}
        for part, words in needs.items():
            if any(part in metric for metric in names):
                assert words in panel["description"], panel["title"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap_and_ids_are_unique(name: str) -> None:
    """Grafana would move overlapping panels."""
    taken: set[tuple[int, int]] = set()
    rows = [panel for panel in dashboard(name)["panels"] if panel["type"] == "row"]
    everything = [*rows, *panels(name)]
    for panel in dashboard(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in everything}) == len(everything)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_datasource_is_a_variable(name: str) -> None:
    """One file works in Azure Managed Grafana and in any other Grafana."""
    made = dashboard(name)
    assert made["templating"]["list"][0]["type"] == "datasource"
    for panel in panels(name):
        assert {part["datasource"]["uid"] for part in (panel, *panel["targets"])} == {"${datasource}"}
    expression = " ".join(one.expr for one in of_dashboard(name))
    chosen = {variable["name"] for variable in made["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z_]\w*)", expression)) - {"__rate_interval", "__range", "__range_s"}
    assert used <= chosen
    assert chosen - used <= {"datasource"}


def test_each_alert_has_a_panel_that_links_to_its_runbook() -> None:
    linked = {link["url"] for name in DASHBOARDS for panel in panels(name) for link in panel["links"]}
    assert linked == {RUNBOOKS.format(alert=PREFIX + name) for name in ALERTS}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_rows_below_the_first_screen_are_collapsed(name: str) -> None:
    """A collapsed row contains its panels and is one unit high; what is expanded fills the first screen."""
    rows = [panel for panel in dashboard(name)["panels"] if panel["type"] == "row"]
    assert [row["collapsed"] for row in rows] == [row["gridPos"]["y"] >= SCREEN_HEIGHT for row in rows]
    assert {row["collapsed"] for row in rows} == {True, False}
    for row in rows:
        assert bool(row["panels"]) is row["collapsed"]
    folded = [row["gridPos"]["y"] for row in rows if row["collapsed"]]
    assert folded == [*range(folded[0], folded[0] + len(folded))]


# The possible values of labels in legends, by the color that they have in every panel.
MEANINGS = {
    "phase": {"Ready": "green", "NotReady": "orange", "Failed": "red", "Launching": "blue", "Draining": "purple"},
    "state": {"running": "green", "failed": "red", "creating": "blue", "deleting": "purple", "allocatable": "green"},
    "result": {"success": "green", "succeeded": "green", "error": "red", "failed": "red", "requeue_after": "blue"},
    "code": {"200": "green", "201": "green", "403": "red", "503": "red", "429": "orange", "404": "blue"},
    "status": {"True": "green", "False": "red", "Unknown": "yellow"},
}
COLORED = [
    (panel, target["legendFormat"], label)
    for name in DASHBOARDS
    for panel in panels(name)
    if panel["type"] == "timeseries"
    for target in panel["targets"]
    for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    if label in MEANINGS and not panel["title"].startswith("Duration by phase")
]


def color_of(panel: Any, series: str) -> str:
    """The fixed color of a series; "" if it has none."""
    found = ""
    for override in panel["fieldConfig"]["overrides"]:
        matcher, (changed, *_) = override["matcher"], override["properties"]
        if matcher["id"] == "byRegexp" and re.match(matcher["options"].strip("/"), series):
            found = changed["value"]["fixedColor"]
    return found


@pytest.mark.parametrize(
    ("panel", "legend", "label"), COLORED, ids=[f"{p['title']}: {label}" for p, _, label in COLORED]
)
def test_a_color_has_the_same_meaning_in_every_panel(panel: Any, legend: str, label: str) -> None:
    """Ready is green, failed is red, whatever else is in the panel."""
    values = LABELS[label].values or tuple(MEANINGS[label])
    possible = {value for value in MEANINGS[label] if value in values}
    series = {value: re.sub(r"\{\{\w+\}\}", "x", legend.replace(f"{{{{{label}}}}}", value)) for value in possible}
    if label == "state":
        gpus = {"expected", "allocatable"}
        series = {
            v: text for v, text in series.items() if (v in gpus) is panel["title"].startswith(("GPUs", "Devices"))
        }
    assert {value: color_of(panel, text) for value, text in series.items()} == {
        value: MEANINGS[label][value] for value in series
    }


def test_colors_are_checked() -> None:
    """Panels with phases, states, results, codes and statuses."""
    assert {label for _, _, label in COLORED} == set(MEANINGS)
