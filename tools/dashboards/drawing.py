"""One panel drawn from what Prometheus answers: lines, states, a number, a table.

Promise: names, units, thresholds and colors are the panel's own; what has no data says so.
Left to others: where a panel stands (`picture.py`).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tools.monitoring.recording import Recording

from . import queries

Json = dict[str, Any]
Series = tuple[str, list[float], list[float]]

MOST_LINES = 8
COLORS = {
    "green": "#3f9c4f",
    "yellow": "#e0b400",
    "orange": "#e87b22",
    "red": "#d0393b",
    "blue": "#3f72af",
    "text": "#333",
}
LINES = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]


class Asker:
    """Asks Prometheus a panel's queries."""

    def __init__(self, recording: Recording, values: Mapping[str, str]) -> None:
        self._prometheus, self._from, self.until = recording.prometheus, recording.start, recording.end
        self.seconds = recording.end - recording.start
        self._values = {**values, "__range": f"{self.seconds:.0f}s", "__range_s": f"{self.seconds:.0f}"}

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
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="#888", fontsize=9)
    _bare(axes)


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
    top = axes.get_ylim()[1]
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is not None and step["value"] <= top * 1.5:
            axes.axhline(step["value"], color=COLORS[step["color"]], linestyle="--", linewidth=0.8)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1e-3) if any(value for *_, v in found for value in v) else 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _text(value, _unit(panel))))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    _timed(axes, ask)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.14, -0.13), ncols=2, fontsize=6, frameon=False, handlelength=1)


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


def _number(axes: Axes, panel: Json, ask: Asker) -> None:
    known = [value for _, _, values in ask.over(panel) for value in values if not math.isnan(value)]
    if not known:
        _nothing(axes)
        return
    value, defaults = known[-1], panel["fieldConfig"]["defaults"]
    text, color = _text(value, _unit(panel)), "text"
    for mapping in defaults.get("mappings", ()):
        told = mapping["options"].get(f"{value:g}", {"text": text, "color": color})
        text, color = told["text"], told["color"]
    if panel["options"]["colorMode"] == "background" and not defaults.get("mappings"):
        passed = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]]
        color = passed[-1]["color"]
    filled = color != "text"
    axes.set_facecolor(COLORS[color] if filled else "white")
    ink = "white" if filled else "#222"
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=14, color=ink)
    _bare(axes)


def _table(axes: Axes, panel: Json, ask: Asker) -> None:
    names: dict[str, str] = panel["transformations"][-1]["options"]["renameByName"]
    units = {
        override["matcher"]["options"]: one["value"]
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if one["id"] == "unit"
    }
    answers = ask.now(panel)
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for letter, answer in zip("ABC", answers, strict=False):
        column = "Value" if len(answers) == 1 else f"Value #{letter}"
        for found in answer:
            known = {label: found["metric"].get(label, "") for label in names if not label.startswith("Value")}
            row = rows.setdefault(tuple(known.values()), dict(known))
            row[column] = _text(float(found["value"][1]), units.get(names.get(column, ""), "short"))
    if not rows:
        _nothing(axes)
        return
    _bare(axes)
    lines = [list(names.values()), *([row.get(column, "") for column in names] for row in rows.values())]
    widths = [max(len(line[number]) for line in lines) + 2 for number in range(len(names))]
    step = 1 / max(panel["gridPos"]["h"] * 1.05 - 1, len(lines))
    for down, line in enumerate(lines):
        across = 0.0
        for number, text in enumerate(line):
            weight = "normal" if down else "bold"
            axes.text(
                across, 1 - (down + 0.5) * step, text, transform=axes.transAxes, va="center", fontsize=7, weight=weight
            )
            across += widths[number] / max(sum(widths), panel["gridPos"]["w"] * 6)


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


DRAWN: dict[str, Callable[[Axes, Json, Asker], None]] = {
    "timeseries": _lines,
    "state-timeline": _states,
    "stat": _number,
    "table": _table,
}
