"""What a metric family is, before anything is counted.

Frozen data; a name says its unit, a counter's ends in `_total`; what is wrong with a declaration is an error
when it is imported.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "untyped", "histogram", "summary"]
# STABLE: name, labels and meaning last as long as a major version. BETA: a minor version may change them, and its
# changelog says so. ALPHA: may change or go at any time.
Stability = Literal["STABLE", "BETA", "ALPHA"]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One family. `help` is what a scrape says of it, `use` what a person reads it for.

    `of_objects`: it has series for each claim or Node, which vanish with it. `reasons`: the closed set of its label
    `reason`, if it has one of its own.
    """

    name: str
    kind: Kind
    stability: Stability
    help: str
    use: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_objects: bool = False
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind == "counter") is not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters end in _total, and nothing else does")
        if (self.kind == "histogram") is not bool(self.buckets):
            raise ValueError(f"{self.name}: histograms have buckets, and nothing else has")


def counter(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - Prometheus' word
    labels: Sequence[str] = (),
    *,
    reasons: Sequence[str] = (),
    use: str = "",
) -> Family:
    """Something that happened, counted."""
    return Family(
        name=name,
        kind="counter",
        stability=stability,
        help=help,
        use=use,
        labels=tuple(labels),
        reasons=tuple(reasons),
    )


def gauge(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - Prometheus' word
    labels: Sequence[str] = (),
    *,
    use: str = "",
    of_objects: bool = False,
) -> Family:
    """Something that is so at the moment of a scrape."""
    return Family(
        name=name, kind="gauge", stability=stability, help=help, use=use, labels=tuple(labels), of_objects=of_objects
    )


def untyped(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - Prometheus' word
    labels: Sequence[str] = (),
    *,
    of_objects: bool = False,
) -> Family:
    """A gauge whose name, upstream's, ends as only parts of histograms may: as a gauge promtool would refuse it."""
    return Family(
        name=name, kind="untyped", stability=stability, help=help, labels=tuple(labels), of_objects=of_objects
    )


def histogram(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - Prometheus' word
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float],
    use: str = "",
) -> Family:
    """How long something took, or how much it was."""
    return Family(
        name=name,
        kind="histogram",
        stability=stability,
        help=help,
        use=use,
        labels=tuple(labels),
        buckets=tuple(buckets),
    )


def summary(name: str, stability: Stability, help: str, labels: Sequence[str] = (), *, use: str = "") -> Family:  # noqa: A002
    """How long something took, with quantiles of the last hour."""
    return Family(name=name, kind="summary", stability=stability, help=help, use=use, labels=tuple(labels))
