"""The declaration of a metric family.

Declarations are frozen and validated on import: counters, and only they, end in `_total`, untyped families with an
upstream name aside; histograms, and only they, have buckets.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "untyped", "histogram", "summary"]
# STABLE: name, labels and meaning change only with a major version. BETA: a minor version may change them and its
# changelog lists them. ALPHA: may change or be removed at any time.
Stability = Literal["STABLE", "BETA", "ALPHA"]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One family. `help` is exposed with the metric; `use` is for the documentation only.

    `of_objects`: it has series for each NodeClaim or Node, which end with the object. `reasons`: the values of its
    label `reason`, if they are a closed set of this family.
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
        if self.kind != "untyped" and (self.kind == "counter") is not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters, and only they, end in _total")
        if (self.kind == "histogram") is not bool(self.buckets):
            raise ValueError(f"{self.name}: histograms, and only they, have buckets")


def counter(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - the term of Prometheus
    labels: Sequence[str] = (),
    *,
    reasons: Sequence[str] = (),
    use: str = "",
) -> Family:
    """A count of events."""
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
    help: str,  # noqa: A002 - the term of Prometheus
    labels: Sequence[str] = (),
    *,
    reasons: Sequence[str] = (),
    use: str = "",
    of_objects: bool = False,
) -> Family:
    """A value at the time of the scrape."""
    return Family(
        name=name,
        kind="gauge",
        stability=stability,
        help=help,
        use=use,
        labels=tuple(labels),
        of_objects=of_objects,
        reasons=tuple(reasons),
    )


def untyped(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - the term of Prometheus
    labels: Sequence[str] = (),
    *,
    use: str = "",
    of_objects: bool = False,
) -> Family:
    """A gauge with an upstream name that ends in `_count` or `_total`, which promtool rejects for the type gauge."""
    return Family(
        name=name,
        kind="untyped",
        stability=stability,
        help=help,
        use=use,
        labels=tuple(labels),
        of_objects=of_objects,
    )


def histogram(
    name: str,
    stability: Stability,
    help: str,  # noqa: A002 - the term of Prometheus
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float],
    reasons: Sequence[str] = (),
    use: str = "",
) -> Family:
    """A distribution in buckets."""
    return Family(
        name=name,
        kind="histogram",
        stability=stability,
        help=help,
        use=use,
        labels=tuple(labels),
        buckets=tuple(buckets),
        reasons=tuple(reasons),
    )


def summary(name: str, stability: Stability, help: str, labels: Sequence[str] = (), *, use: str = "") -> Family:  # noqa: A002
    """A duration with quantiles over the last hour."""
    return Family(name=name, kind="summary", stability=stability, help=help, use=use, labels=tuple(labels))
