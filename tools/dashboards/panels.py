"""The model of a dashboard: rows of panels, each with its queries. `grafana.py` renders it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .colors import Color, Colors

Kind = Literal["timeseries", "stat", "table", "state-timeline"]

RUNBOOKS = "https://github.com/aks-gpu-provisioner/gpu-provisioner/blob/main/docs/runbooks/{alert}.md"
# Prefix of all alert names; many programs share one Alertmanager.
PREFIX = "GpuProvisioner"


@dataclass(frozen=True)
class Query:
    """`legend` is the series' name, with labels as {{label}}; a table's columns are named in its panel."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """`unit` is Grafana's name of the unit; `steps` are thresholds, each a lower bound and its color.

    `columns` of a table: the heading by label or "Value #A", in this order; other columns are hidden. `states` of a
    state timeline or stat: text and color by value. `opens`: the column whose cells link to the dashboard of that
    claim. `colors`: of the series, by their names. `runbooks`: the alerts, without `PREFIX`, whose runbooks are linked.
    """

    title: str
    description: str
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    unit: str = "short"
    steps: Sequence[tuple[float, Color]] = ()
    stacked: bool = False
    bars: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    states: dict[int, tuple[str, Color]] = field(default_factory=dict)
    opens: str = ""
    colors: Colors = field(default_factory=dict)
    runbooks: Sequence[str] = ()
    width: int = 8
    height: int = 8


@dataclass(frozen=True, kw_only=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A dashboard variable: the values of `query`, or the fixed `choices`, of which the first is the default.

    `every`: all values are selected by default, and several can be selected."""

    name: str
    label: str
    query: str = ""
    choices: Sequence[str] = ()
    every: bool = False


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """`links`: title and uid of related dashboards."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]
    links: Sequence[tuple[str, str]] = ()
