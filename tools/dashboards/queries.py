"""The PromQL expressions of the dashboards and rules, read from the files that the chart ships."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import yaml

CHART = Path(__file__).parents[2] / "charts" / "gpu-provisioner"
DASHBOARDS = ("fleet", "claim")
RULES = CHART / "rules" / "alerts.yaml"
# Values of Grafana's variables for a recording of about a minute with a scrape interval of one second.
WINDOWS = {"window": "30s", "__rate_interval": "10s", "__interval": "1s", "__range": "60s", "__range_s": "60"}

Json = dict[str, Any]


class Expression(NamedTuple):
    """An expression and its location."""

    where: str
    expr: str
    legend: str = ""


class Selector(NamedTuple):
    """One vector selector: the metric's name, and the matched value of each label."""

    name: str
    matchers: dict[str, str]


def dashboard(name: str) -> Json:
    """A dashboard as shipped."""
    read: Json = json.loads((CHART / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    return read


def panels(name: str) -> list[Json]:
    """The panels of a dashboard, those of collapsed rows included, without rows."""
    shown = dashboard(name)["panels"]
    return [one for panel in shown for one in (panel["panels"] if panel["type"] == "row" else [panel])]


def of_dashboard(name: str) -> list[Expression]:
    """The expressions of a dashboard."""
    return [
        Expression(f"{name}: {panel['title']} {target['refId']}", target["expr"], target["legendFormat"])
        for panel in panels(name)
        for target in panel["targets"]
    ]


def rules() -> list[Json]:
    """All recording and alerting rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def of_rules() -> list[Expression]:
    """The expressions of all rules."""
    return [Expression(f"rule {rule.get('record') or rule['alert']}", rule["expr"]) for rule in rules()]


def filled(expression: str, values: Mapping[str, str]) -> str:
    """The expression with Grafana's variables replaced; variables without a value here match everything."""
    known = {"cluster": ".*", "job": ".*", "size": ".*", **WINDOWS, **values}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], found[0]), expression)


def nodes(expression: str) -> list[Any]:
    """The nodes of an expression's syntax tree, the root first. Raises ValueError if it cannot be parsed."""
    found: list[Any] = []
    promql_parser.walk(promql_parser.parse(filled(expression, {"claim": "x"})), found.append)
    return found


def selectors(expression: str) -> list[Selector]:
    """The vector selectors of an expression."""
    return [
        Selector(node.name or "", {matcher.name: matcher.value for matcher in node.matchers.matchers})
        for node in nodes(expression)
        if isinstance(node, promql_parser.VectorSelector)
    ]
