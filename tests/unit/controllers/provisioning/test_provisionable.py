"""The table of pods for which a machine is bought, and of those for which none is."""

from typing import Any

import msgspec
import pytest

from controllers.provisioning.provisionable import why_not
from provisioner.api.schedulable import SchedulablePod

UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def pod(*, meta: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> SchedulablePod:
    found = {
        "metadata": {"name": "p", "namespace": "default", **(meta or {})},
        "spec": spec or {},
        "status": {**UNSCHEDULABLE, **status},
    }
    return msgspec.convert(found, SchedulablePod)


def owner(api_version: str, kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u"}]}


ROWS = [
    ("unschedulable", pod(), ""),
    ("of a ReplicaSet", pod(meta=owner("apps/v1", "ReplicaSet")), ""),
    ("of another kind named DaemonSet", pod(meta=owner("example.com/v1", "DaemonSet")), ""),
    ("of the default scheduler", pod(spec={"schedulerName": "default-scheduler"}), ""),
    ("bound", pod(spec={"nodeName": "n"}), "bound"),
    ("succeeded", pod(phase="Succeeded"), "ended"),
    ("failed", pod(phase="Failed"), "ended"),
    ("terminating", pod(meta={"deletionTimestamp": "2026-03-01T12:00:00Z"}), "deleted"),
    ("of a DaemonSet", pod(meta=owner("apps/v1", "DaemonSet")), "DaemonSet"),
    ("static", pod(meta=owner("v1", "Node")), "static"),
    ("with a scheduling gate", pod(spec={"schedulingGates": [{"name": "quota"}]}), "gate quota"),
    ("of another scheduler", pod(spec={"schedulerName": "volcano"}), "volcano"),
    ("that preempts others", pod(nominatedNodeName="n1"), "preempts pods of Node n1"),
    ("not yet tried", pod(conditions=[]), "not yet"),
    ("scheduled", pod(conditions=[{"type": "PodScheduled", "status": "True"}]), "not yet"),
    (
        "gated by its condition",
        pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        "not yet",
    ),
]


@pytest.mark.parametrize(("found", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_provisionable(found: SchedulablePod, expected: str) -> None:
    """A machine is bought exactly for a pod that kube-scheduler found unschedulable and that a new Node could take."""
    why = why_not(found)
    assert (why == "") is (expected == "")
    assert expected in why
