"""Reference pages and chart files that are generated from code.

`PAGES` maps the path of each generated file, relative to the repository's root, to its renderer. Rendering reads only
this repository and is deterministic.
"""

from collections.abc import Callable
from pathlib import Path

from tools.dashboards import rules
from tools.dashboards.claim import NODECLAIM
from tools.dashboards.fleet import FLEET
from tools.dashboards.grafana import render as dashboard

from . import (
    alerts,
    charts,
    commands,
    conditions,
    crds,
    deletion_gate,
    errors,
    events,
    examples,
    features,
    labels,
    metrics,
    mistakes,
    requirements,
    settings,
    suites,
    testing,
    values,
)

ROOT = Path(__file__).parents[2]
COMMAND = "make generate"

PAGES: dict[str, Callable[[], str]] = {
    "charts/gpu-provisioner-crd/README.md": charts.definitions,
    "charts/gpu-provisioner/README.md": charts.controller,
    "charts/gpu-provisioner/dashboards/claim.json": lambda: dashboard(NODECLAIM),
    "charts/gpu-provisioner/dashboards/fleet.json": lambda: dashboard(FLEET),
    "charts/gpu-provisioner/rules/alerts.yaml": rules.render,
    "docs/reference/agentpoolnodeclass.md": crds.render_nodeclass,
    "docs/reference/alerts.md": alerts.render,
    "docs/reference/commands.md": commands.render,
    "docs/reference/conditions.md": conditions.render,
    "docs/reference/deletion-gate.md": deletion_gate.render,
    "docs/reference/errors.md": errors.render,
    "docs/reference/events.md": events.render,
    "docs/reference/examples.md": examples.render,
    "docs/reference/features.md": features.render,
    "docs/reference/labels.md": labels.render,
    "docs/reference/metrics.md": metrics.render,
    "docs/reference/nodepool.md": crds.render_nodepool,
    "docs/reference/requirements.md": requirements.render,
    "docs/reference/settings.md": settings.render,
    "docs/reference/testing.md": testing.render,
    "docs/reference/values.md": values.render,
    "docs/references/karpenter-suites.md": suites.render,
    "docs/troubleshooting/mistakes.md": mistakes.render,
    "docs/troubleshooting/reasons.md": conditions.render_troubles,
}


def write_all() -> list[str]:
    """Write every file whose content changed; returns the paths of these files."""
    written = []
    for path, render in PAGES.items():
        target, text = ROOT / path, render()
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(path)
    return written
