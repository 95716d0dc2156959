"""A figure: the measured value, the value of Azure/gpu-provisioner, and the target; and the table of all figures.

Pure. A figure that is `asserted` must not exceed its target; every other one is only reported.

The values of Azure/gpu-provisioner were measured on two cores against a real API server.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Parallel values: `labels` ("p50", "p95"), `measured` and `target`, all in `unit`; `note` has details of the
    measurement.
    """

    name: str
    unit: str
    labels: tuple[str, ...]
    measured: tuple[float, ...]
    target: tuple[float, ...] = ()
    predecessor: str = "-"
    asserted: bool = False
    wrong: str = ""
    note: str = ""

    @property
    def ratios(self) -> tuple[float, ...]:
        """Measured divided by target; inf if the target is 0 and the measured value is not."""
        pairs = zip(self.measured, self.target, strict=False)
        return tuple(m / t if t else (math.inf if m else 0.0) for m, t in pairs)

    @property
    def broken(self) -> str:
        """The reason for which the command fails; "" if there is none."""
        if not self.asserted:
            return ""
        over = any(m > t for m, t in zip(self.measured, self.target, strict=True))
        return self.wrong or (f"measured {_values(self.measured)}, at most {_values(self.target)}" if over else "")


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed (nearest rank). Raises ValueError without values."""
    if not values:
        raise ValueError("nothing was measured")
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def latency(name: str, seconds: Sequence[float], *, predecessor: str, target: tuple[float, ...] = ()) -> Figure:
    """Median and maximum of latencies in seconds. Raises ValueError without values."""
    return Figure(
        name=name,
        unit="s",
        labels=("p50", "max"),
        predecessor=predecessor,
        target=target,
        measured=(percentile(seconds, 0.5), max(seconds)),
    )


def show(figures: Sequence[Figure], console: Console) -> None:
    """The table, and a line for each count that exceeds its target."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("figure", "unit", "predecessor", "target", "measured", "ratio", "note"):
        table.add_column(title, justify="right" if title in ("predecessor", "target", "measured", "ratio") else "left")
    for figure in figures:
        result = "✗" if figure.broken else ("asserted" if figure.asserted else _values(figure.ratios, decimals=2))
        name = f"{figure.name}, {'/'.join(figure.labels)}" if figure.labels != ("",) else figure.name
        measured = _values(figure.measured)
        target = f"≤ {_values(figure.target)}" if figure.target else "-"
        style = "red" if figure.broken else ("yellow" if any(ratio > 1 for ratio in figure.ratios) else "")
        table.add_row(name, figure.unit, figure.predecessor, target, measured, result, figure.note, style=style)
    console.print(table)
    for figure in figures:
        if figure.broken:
            console.print(f"OFF: {figure.name}: {figure.broken}", style="red")


def _values(values: Sequence[float], decimals: int | None = None) -> str:
    return " / ".join(_number(value, decimals) for value in values) or "-"


def _number(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}".rstrip("0")
