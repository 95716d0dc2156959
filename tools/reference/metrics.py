"""`docs/reference/metrics.md`: metric families, from the table that defines them."""

from collections.abc import Iterable
from types import ModuleType

from provisioner.metrics.definitions import LABELS, Family, Label, karpenter, own, runtime

from .markdown import code, page, table

INTRODUCTION = """\
The controller serves them at `/metrics` on `--metrics-port`. Every replica does; what only the leader knows (pools,
claims' lives, calls of Azure) the others do not show, or show as it stood when they led.

| Stability | What it promises |
| --- | --- |
| STABLE | name, labels and meaning stay for a major version |
| BETA | a minor version may change it, and its changelog says so |
| ALPHA | may change or go at any time |

Counters start at 0 with each process and count what happens while it leads: a restart does not count again what
happened before it. Series that are about a claim or a Node go with it."""

SECTIONS: tuple[tuple[str, ModuleType, str], ...] = (
    (
        "Karpenter's",
        karpenter,
        "Names and labels are Karpenter's, so that its dashboards work. The families about pods, NodePools, scheduling"
        " and voluntary disruption are not there: pods are not all watched, and the rest does not exist here.",
    ),
    ("Ours", own, "What Karpenter has no name for."),
    ("The machinery's", runtime, "The names of controller-runtime, client-go and Prometheus' Python client."),
)


def render() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for title, module, words in SECTIONS:
        families = [family for family in vars(module).values() if isinstance(family, Family)]
        parts += [f"## {title}\n\n{words}", _families(families)]
    parts += ["## Labels", table(["Label", "What it says", "Values"], _labels())]
    return page("Metrics", "provisioner/metrics/definitions", *parts)


def _families(families: Iterable[Family]) -> str:
    rows = [
        [
            code(family.name),
            family.kind + (", of each object" if family.of_objects else ""),
            ", ".join(code(label) for label in family.labels),
            family.stability,
            _words(family),
        ]
        for family in families
    ]
    return table(["Name", "Kind", "Labels", "Stability", "What it says"], rows)


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
