"""All examples applied to one cluster at once, as by `kubectl apply -R -f examples`."""

import json
from pathlib import Path
from typing import Any

import pytest

from .program import ROOT, kubectl, started

pytestmark = pytest.mark.matrix(quick=0)

Json = dict[str, Any]
SPEED = ("--speed", "1000")
# The pod that has no toleration finds a machine without taints among the other examples.
RUNNING = ("dra-trainer", "intruder", "trainer")
# kube-scheduler reports it of each pod that waits for its machine.
EXPECTED_WARNINGS = {"FailedScheduling"}


def listed(kubeconfig: Path, kind: str) -> list[Json]:
    found: list[Json] = json.loads(kubectl(kubeconfig, "get", kind, "-A", "-o", "json"))["items"]
    return found


def test_all_examples_together_make_a_quiet_cluster(tmp_path: Path) -> None:
    """Each object is created once and becomes Ready or runs, and no Event reports anything to be corrected."""
    kubeconfig = tmp_path / "try.kubeconfig"
    with started(tmp_path, "try", "--kubeconfig", str(kubeconfig), *SPEED) as running:
        running.until("Ctrl-C stops")
        created = kubectl(kubeconfig, "apply", "-R", "-f", str(ROOT / "examples")).splitlines()
        assert [line for line in created if not line.endswith(" created")] == []
        kubectl(kubeconfig, "wait", "pod", *RUNNING, "--for=condition=Ready", "--timeout=60s")
        for kind in ("nodepools", "agentpoolnodeclasses", "nodeoverlays", "nodeclaims", "nodes"):
            kubectl(kubeconfig, "wait", kind, "--all", "--for=condition=Ready", "--timeout=60s")
        warnings = [event for event in listed(kubeconfig, "events") if event["type"] == "Warning"]
        assert {event["reason"] for event in warnings} <= EXPECTED_WARNINGS, warnings
        claims = listed(kubeconfig, "nodeclaims")
        replicas = sum(pool["spec"].get("replicas", 0) for pool in listed(kubeconfig, "nodepools"))
        bought = [claim for claim in claims if claim["metadata"].get("ownerReferences")]
        assert len(bought) - replicas <= len(RUNNING), "a machine for each pod at most"
