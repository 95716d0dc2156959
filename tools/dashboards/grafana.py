"""Renders the model of a dashboard as Grafana's JSON (Grafana 10 and later).

The output is deterministic. The data source is a variable, so that one file works in Azure Managed Grafana and in
kube-prometheus. Panels are laid out from left to right; rows that begin below the first screen are collapsed.

Source: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
from collections.abc import Sequence
from typing import Any

from .colors import Color
from .panels import PREFIX, RUNBOOKS, Dashboard, Panel, Query, Row, Variable

Json = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
# The height of the first screen in Grafana's grid units, on a display of 1080 pixels.
SCREEN_HEIGHT = 22
SCHEMA_VERSION = 39


def render(dashboard: Dashboard) -> str:
    """The JSON file for Grafana."""
    return json.dumps(_dashboard(dashboard), indent=1, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> Json:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["gpu-provisioner", "karpenter", "gpu"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "annotations": {"list": []},
        "links": [_link(title, f"/d/{uid}", within=True) for title, uid in dashboard.links],
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": _laid_out(dashboard.rows),
    }


def _link(title: str, url: str, *, within: bool = False) -> Json:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "targetBlank": not within,
        "keepTime": within,
        "includeVars": within,
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _variable(variable: Variable) -> Json:
    shown: Json = {"name": variable.name, "label": variable.label}
    if variable.choices:
        first = variable.choices[0]
        options = [{"text": one, "value": one, "selected": one == first} for one in variable.choices]
        current = {"text": first, "value": first}
        return {**shown, "type": "custom", "query": ",".join(variable.choices), "options": options, "current": current}
    made = {
        **shown,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "includeAll": variable.every,
        "multi": variable.every,
    }
    # `.*` also matches a missing label, so that a single cluster needs no cluster label.
    everything = {"allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return {**made, **everything} if variable.every else made


def _laid_out(rows: Sequence[Row]) -> list[Json]:
    found: list[Json] = []
    y = number = 0
    for row in rows:
        collapsed = y >= SCREEN_HEIGHT
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        heading: Json = {"id": number, "type": "row", "title": row.title, "collapsed": collapsed, "gridPos": place}
        panels, below = _row(row.panels, y + 1, number)
        number += len(panels)
        found += [{**heading, "panels": panels}] if collapsed else [{**heading, "panels": []}, *panels]
        y = y + 1 if collapsed else below
    return found


def _row(panels: Sequence[Panel], y: int, number: int) -> tuple[list[Json], int]:
    """The panels of a row from `y` on, with IDs after `number`; and the place below them."""
    found: list[Json] = []
    x = tallest = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            y, x, tallest = y + tallest, 0, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        found.append({"id": number + len(found) + 1, **_panel(panel), "gridPos": place})
        x, tallest = x + panel.width, max(tallest, panel.height)
    return found, y + tallest


def _panel(panel: Panel) -> Json:
    made: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(panel, number, query) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        "links": [_link(f"Runbook: {alert}", RUNBOOKS.format(alert=PREFIX + alert)) for alert in panel.runbooks],
    }
    if panel.kind == "table":
        made["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(panel.columns)}}},
            {
                "id": "organize",
                "options": {
                    "indexByName": {name: place for place, name in enumerate(panel.columns)},
                    "renameByName": panel.columns,
                },
            },
        ]
    return made


def _target(panel: Panel, number: int, query: Query) -> Json:
    now = panel.kind == "table"
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": "table" if now else "time_series",
        "instant": now,
        "range": not now,
    }


def _defaults(panel: Panel) -> Json:
    first: Json = {"color": "green" if panel.steps else "text", "value": None}
    thresholds = {
        "mode": "absolute",
        "steps": [first, *({"color": color, "value": value} for value, color in panel.steps)],
    }
    found: Json = {"unit": panel.unit, "thresholds": thresholds}
    if panel.kind == "timeseries":
        found |= {"min": 0, "color": {"mode": "palette-classic"}, "custom": _drawn(panel)}
    elif panel.kind == "stat":
        found |= {"color": {"mode": "thresholds"}, "noValue": "no data"}
    elif panel.kind == "state-timeline":
        found |= {"color": {"mode": "thresholds"}, "custom": {"fillOpacity": 80, "lineWidth": 0}}
    if panel.states:
        options = {
            str(value): {"text": text, "color": color, "index": index}
            for index, (value, (text, color)) in enumerate(panel.states.items())
        }
        found["mappings"] = [{"type": "value", "options": options}]
    return found


def _drawn(panel: Panel) -> Json:
    return {
        "drawStyle": "bars" if panel.bars else "line",
        "lineWidth": 1,
        "fillOpacity": 80 if panel.bars else 25 if panel.stacked else 5,
        "lineInterpolation": "stepAfter" if panel.stacked and not panel.bars else "linear",
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
    }


def _overrides(panel: Panel) -> list[Json]:
    found = [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}]}
        for name, unit in panel.units.items()
    ]
    found += [_colored(pattern, color) for pattern, color in panel.colors.items()]
    if panel.opens:
        url = "/d/gpu-provisioner-claim?${__url_time_range}&${datasource:queryparam}&${cluster:queryparam}"
        links = [{"title": "Dashboard of this NodeClaim", "url": f"{url}&var-claim=${{__value.raw}}"}]
        matcher = {"id": "byName", "options": panel.opens}
        found.append({"matcher": matcher, "properties": [{"id": "links", "value": links}]})
    return found


def _colored(pattern: str, color: Color) -> Json:
    """A fixed color for one series, or shades of it for all series that the expression matches."""
    mode = "fixed" if pattern.isalnum() else "shades"
    value = {"mode": mode, "fixedColor": color}
    return {
        "matcher": {"id": "byRegexp", "options": f"/^({pattern})$/"},
        "properties": [{"id": "color", "value": value}],
    }


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background" if panel.steps or panel.states else "value",
            "graphMode": "none",
            "textMode": "auto",
            "justifyMode": "center",
        }
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "auto", "rowHeight": 0.85, "legend": {"showLegend": False}}
    return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
