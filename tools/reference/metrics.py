"""`docs/reference/metrics.md`: metric families, from the table that defines them."""

from collections.abc import Iterable
from types import ModuleType

from provisioner.metrics.definitions import LABELS, Family, Label, karpenter, own, runtime

from .markdown import code, page, table

INTRODUCTION = """\
Every replica serves metrics at `/metrics` on `--metrics-port`. Metrics about agent pools, NodeClaim lifecycles and
requests to Azure are updated by the leader only; other replicas do not export them, or export the last values of
their own leadership.

| Stability | Guarantee |
| --- | --- |
| STABLE | name, labels and meaning do not change within a major version |
| BETA | a minor version can change the metric; the changelog lists the change |
| ALPHA | the metric can change or be removed at any time |

Counters start at 0 in each process and count while the process is the leader; what happened before a restart is not
counted again. The series of a NodeClaim or a Node are removed with the object."""

SECTIONS: tuple[tuple[str, ModuleType, str], ...] = (
    (
        "Karpenter's",
        karpenter,
        "With Karpenter's names and labels, so that its dashboards work. There are no families with a series for each"
        " pod.",
    ),
    ("This project's", own, "For what Karpenter has no metric."),
    ("Controller runtime", runtime, "With the names of controller-runtime, client-go and Prometheus' Python client."),
)


def render() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for title, module, words in SECTIONS:
        families = [family for family in vars(module).values() if isinstance(family, Family)]
        parts += [f"## {title}\n\n{words}", _families(families)]
    parts += ["## Labels", table(["Label", "Meaning", "Values"], _labels())]
    return page("Metrics", "provisioner/metrics/definitions", *parts)


def _families(families: Iterable[Family]) -> str:
    rows = [
        [
            code(family.name),
            family.kind + (", for each object" if family.of_objects else ""),
            ", ".join(code(label) for label in family.labels),
            family.stability,
            _words(family),
        ]
        for family in families
    ]
    return table(["Name", "Kind", "Labels", "Stability", "Meaning"], rows)


def _words(family: Family) -> str:
    reasons = ", ".join(code(reason) or "(empty)" for reason in family.reasons)
    return " ".join(filter(None, (f"{family.help}.", f"Reasons: {reasons}." if reasons else "", family.use)))


def _labels() -> Iterable[list[str]]:
    for name, label in sorted(LABELS.items()):
        yield [code(name), label.meaning, _values(label)]


def _values(label: Label) -> str:
    if not label.values:
        return f"bounded by {label.bound}"
    return ", ".join(code(value) or "(empty)" for value in label.values)
