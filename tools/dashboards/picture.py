"""Dashboards drawn from what a real Prometheus answers, laid out as by Grafana: for the documentation, and to look at.

    python -m tools.dashboards.picture docs/img

Promise: panels come from the shipped JSON alone (queries, units, thresholds, places), so a picture shows what people
get; a panel without data says so.
Left to others: each panel (`drawing.py`), the data (`tools.monitoring`), Grafana's own looks.
"""

import asyncio
import io
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from tools.monitoring.recording import Recording, record
from tools.monitoring.scenario import SHOWN

from . import queries
from .drawing import DRAWN, Asker

Json = dict[str, Any]

UNIT_INCHES, DPI, COLORS_KEPT = 0.36, 80, 48
# Left, right, top, bottom, in units of Grafana's grid, around what is drawn; charts get room for axes and legend.
MARGINS = {"stat": (0.08, 0.08, 1.0, 0.1), "table": (0.2, 0.2, 1.0, 0.2), "state-timeline": (3.4, 0.35, 1.0, 1.0)}


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
            figure.text(0.008, 1 - (place["y"] + 1.5) / height, words, fontsize=11, weight="bold", va="center")
            continue
        card = figure.add_axes(_box(place, height, (0.08, 0.08, 0.1, 0.1)), facecolor="white", xticks=[], yticks=[])
        for side in card.spines.values():
            side.set_color("#ddd")
        axes = figure.add_axes(_box(place, height, MARGINS.get(panel["type"], (1.35, 0.35, 1.0, 2.3))))
        words = queries.filled(panel["title"], values)
        figure.text(
            (place["x"] + 0.2) / 24, 1 - (place["y"] + 1.5) / height, words, fontsize=8, weight="bold", va="center"
        )
        DRAWN[panel["type"]](axes, panel, Asker(recording, values))
    return figure


def save(figure: Figure, path: Path) -> None:
    """As a PNG of few colors: the documentation is cloned by everybody."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(COLORS_KEPT).save(path, optimize=True)


def _box(place: Json, height: float, margins: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """A place on the grid as a share of the figure; margins are left, right, top, bottom, in units of the grid."""
    left, right, top, bottom = margins
    return (
        (place["x"] + left) / 24,
        1 - (place["y"] + 1 + place["h"] - bottom) / height,
        (place["w"] - left - right) / 24,
        (place["h"] - top - bottom) / height,
    )


def main(folder: Path) -> None:
    """Play the scenario, and draw both dashboards into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    logs.configure(SystemClock(), level="error", stream=sys.stderr)
    with tempfile.TemporaryDirectory() as home, ExitStack() as until_the_end:
        recording = asyncio.run(record(Path(home), until_the_end))
        for name in queries.DASHBOARDS:
            save(draw(name, recording, {"claim": SHOWN}), folder / f"dashboard-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
