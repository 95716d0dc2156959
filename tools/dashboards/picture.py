"""Dashboards drawn from what a real Prometheus answers, laid out as by Grafana: for the documentation, and to look at.

    python -m tools.dashboards.picture docs/img

Promise: panels come from the shipped JSON alone (queries, units, thresholds, places), so a picture shows what people
get; a panel without data says so.
Left to others: the data (`tools.monitoring`), Grafana's own looks.
"""

import asyncio
import math
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tools.monitoring.recording import Recording, record
from tools.monitoring.scenario import SHOWN

from . import queries

Json = dict[str, Any]
Series = tuple[str, list[float], list[float]]

UNIT_INCHES, DPI, MOST_LINES = 0.36, 80, 9
COLORS = {
    "green": "#3f9c4f",
    "yellow": "#e0b400",
    "orange": "#e87b22",
    "red": "#d0393b",
    "blue": "#3f72af",
    "text": "#333",
}
LINES = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]


def draw(name: str, recording: Recording, values: Mapping[str, str]) -> Figure:
    """The dashboard of that name, over the whole recording."""
    made = queries.dashboard(name)
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in made["panels"]) + 1
    figure = Figure(figsize=(24 * 0.66, height * UNIT_INCHES), dpi=DPI, facecolor="#f4f5f5")
    title = queries.filled(made["title"], values)
    figure.text(0.008, 1 - 0.6 / height, title, fontsize=13, weight="bold", va="center")
    for panel in made["panels"]:
        place = panel["gridPos"]
        if panel["type"] == "row":
            words = queries.filled(panel["title"], values)
            figure.text(0.008, 1 - (place["y"] + 1.6) / height, words, fontsize=11, weight="bold", va="center")
            continue
        narrow = panel["type"] in ("stat", "table")
        left, right, top, bottom = (0.1, 0.1, 1.15, 0.15) if narrow else (1.3, 0.25, 1.3, 2.3)
        axes = figure.add_axes(
            (
                (place["x"] + left) / 24,
                1 - (place["y"] + 1 + place["h"] - bottom) / height,
                (place["w"] - left - right) / 24,
                (place["h"] - top - bottom) / height,
            )
        )
        axes.set_title(panel["title"], fontsize=9, loc="left", weight="bold", pad=4)
        DRAWN[panel["type"]](axes, panel, Asker(recording, values))
    return figure


class Asker:
    """Asks Prometheus a panel's queries."""

    def __init__(self, recording: Recording, values: Mapping[str, str]) -> None:
        self._prometheus, self._from, self.until = recording.prometheus, recording.start, recording.end
        self.seconds = recording.end - recording.start
        self._values = {**values, "__range": f"{self.seconds:.0f}s"}

    def over(self, panel: Json) -> list[Series]:
        """What a panel's queries return over time: a name, seconds from the beginning, values (NaN: none)."""
        return [
            (_name(target["legendFormat"], found["metric"]), *self._points(found["values"]))
            for target in panel["targets"]
            for found in self._prometheus.over(queries.filled(target["expr"], self._values), self._from, self.until)
        ]

    def now(self, panel: Json) -> list[list[Json]]:
        """What each of a panel's queries returns at the end."""
        return [
            self._prometheus.instant(queries.filled(target["expr"], self._values), self.until)
            for target in panel["targets"]
        ]

    def _points(self, values: Sequence[Sequence[Any]]) -> tuple[list[float], list[float]]:
        known = {round(at - self._from): float(value) for at, value in values}
        times = range(round(self.seconds) + 1)
        return [float(at) for at in times], [known.get(at, math.nan) for at in times]


def _name(legend: str, labels: Mapping[str, str]) -> str:
    if legend == "__auto":
        return ", ".join(f"{value}" for label, value in labels.items() if label != "__name__")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend).strip()


def _text(value: float, unit: str) -> str:
    """A number as Grafana would write it."""
    if not math.isfinite(value):
        return ""
    match unit:
        case "s":
            return (
                f"{value * 1000:.0f} ms"
                if 0 < value < 1
                else f"{value:.3g} s"
                if value < 120
                else f"{value / 60:.3g} min"
            )
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "currencyUSD":
            return f"${value:.2f}"
        case "bytes":
            return f"{value / 2**20:.0f} MiB"
        case "reqps" | "ops":
            return f"{value:.3g}/s"
    return f"{value:.3g}"


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="#888")
    axes.set_xticks([])
    axes.set_yticks([])


def _unit(panel: Json) -> str:
    return str(panel["fieldConfig"]["defaults"]["unit"])


def _lines(axes: Axes, panel: Json, ask: Asker) -> None:
    custom, found = panel["fieldConfig"]["defaults"]["custom"], ask.over(panel)
    if not found:
        _nothing(axes)
        return
    stacked = custom["stacking"]["mode"] == "normal" or custom["drawStyle"] == "bars"
    base = [0.0] * len(found[0][1])
    for number, (name, times, values) in enumerate(found):
        color, label = LINES[number % len(LINES)], name if number < MOST_LINES else None
        if stacked:
            tops = [low + (0.0 if math.isnan(value) else value) for low, value in zip(base, values, strict=True)]
            axes.fill_between(times, base, tops, step="post", color=color, alpha=0.75, linewidth=0, label=label)
            base = tops
        else:
            axes.plot(times, values, color=color, linewidth=1.3, label=label)
    lowest = axes.get_ylim()[1]
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is not None and step["value"] <= lowest * 1.5:
            axes.axhline(step["value"], color=COLORS[step["color"]], linestyle="--", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _text(value, _unit(panel))))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    _timed(axes, ask)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.14), ncols=3, fontsize=6, frameon=False, handlelength=1)


def _timed(axes: Axes, ask: Asker) -> None:
    axes.set_xlim(0, ask.seconds)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.tick_params(labelsize=7)
    axes.grid(color="#ddd", linewidth=0.5)


def _states(axes: Axes, panel: Json, ask: Asker) -> None:
    found = ask.over(panel)
    (mapping,) = (one["options"] for one in panel["fieldConfig"]["defaults"]["mappings"])
    for row, (_, times, values) in enumerate(found):
        for at, value in zip(times, values, strict=True):
            if not math.isnan(value):
                color = COLORS[mapping.get(f"{value:g}", {"color": "text"})["color"]]
                axes.barh(row, 1, left=at, height=0.75, color=color, linewidth=0)
    axes.set_yticks(range(len(found)), [name for name, _, _ in found])
    axes.invert_yaxis()
    _timed(axes, ask)
    axes.tick_params(axis="y", labelsize=6)
    if max((len(name) for name, _, _ in found), default=0) > 14:
        axes.tick_params(axis="y", pad=-4)
        for label in axes.get_yticklabels():
            label.set_horizontalalignment("left")
            label.set_bbox({"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.5})


def _number(axes: Axes, panel: Json, ask: Asker) -> None:
    (found,) = ask.now(panel)
    if not found:
        _nothing(axes)
        return
    value, defaults = float(found[0]["value"][1]), panel["fieldConfig"]["defaults"]
    text, color = _text(value, _unit(panel)), "text"
    for mapping in defaults.get("mappings", ()):
        known = mapping["options"].get(f"{value:g}", {"text": text, "color": color})
        text, color = known["text"], known["color"]
    if panel["options"]["colorMode"] == "background" and not defaults.get("mappings"):
        passed = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]]
        color = passed[-1]["color"]
    filled = color != "text"
    axes.set_facecolor(COLORS[color] if filled else "white")
    axes.text(
        0.5,
        0.5,
        text,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=15,
        color="white" if filled else "#222",
    )
    axes.set_xticks([])
    axes.set_yticks([])


def _table(axes: Axes, panel: Json, ask: Asker) -> None:
    names: dict[str, str] = panel["transformations"][-1]["options"]["renameByName"]
    units = {
        o["matcher"]["options"]: p["value"]
        for o in panel["fieldConfig"]["overrides"]
        for p in o["properties"]
        if p["id"] == "unit"
    }
    answers = ask.now(panel)
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for letter, answer in zip("ABC", answers, strict=False):
        column = "Value" if len(answers) == 1 else f"Value #{letter}"
        for found in answer:
            labels = {label: found["metric"].get(label, "") for label in names if not label.startswith("Value")}
            row = rows.setdefault(tuple(labels.values()), dict(labels))
            row[column] = _text(float(found["value"][1]), units.get(names[column], "short"))
    if not rows:
        _nothing(axes)
        return
    axes.axis("off")
    cells = [[row.get(column, "") for column in names] for row in rows.values()]
    table = axes.table(cells[:12], colLabels=list(names.values()), loc="upper left", cellLoc="left", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    table.auto_set_column_width(list(range(len(names))))
    table.scale(1, 1.15)


DRAWN: dict[str, Callable[[Axes, Json, Asker], None]] = {
    "timeseries": _lines,
    "state-timeline": _states,
    "stat": _number,
    "table": _table,
}


def main(folder: Path) -> None:
    """Play the scenario, and draw both dashboards into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, ExitStack() as until_the_end:
        recording = asyncio.run(record(Path(home), until_the_end))
        for name in queries.DASHBOARDS:
            draw(name, recording, {"claim": SHOWN}).savefig(folder / f"dashboard-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
