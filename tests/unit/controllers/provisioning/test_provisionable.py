"""The table of pods for which a machine is bought, and of those for which none is."""

from typing import Any

import msgspec
import pytest

from controllers.provisioning.provisionable import is_recreated, runs_on, why_not
from provisioner.api.pod import Pod

UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def pod(*, meta: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    found = {
        "metadata": {"name": "p", "namespace": "default", **(meta or {})},
        "spec": spec or {},
        "status": {**UNSCHEDULABLE, **status},
    }
    return msgspec.convert(found, Pod)


def owner(api_version: str, kind: str, **meta: Any) -> dict[str, Any]:
    reference = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": True}
    return {"ownerReferences": [reference], **meta}


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
def test_provisionable(found: Pod, expected: str) -> None:
    """A machine is bought exactly for a pod that kube-scheduler found unschedulable and that a new Node could take."""
    why = why_not(found)
    assert (why == "") is (expected == "")
    assert expected in why


TERMINATING = {"deletionTimestamp": "2026-03-01T12:00:00Z"}
REPLICA_SET, STATEFUL_SET = ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")
MOVES = [
    ("of a ReplicaSet", pod(meta=owner(*REPLICA_SET)), True),
    ("of a Job", pod(meta=owner("batch/v1", "Job")), True),
    ("of a StatefulSet", pod(meta=owner(*STATEFUL_SET)), True),
    ("without a controller", pod(), False),
    ("of a DaemonSet", pod(meta=owner("apps/v1", "DaemonSet")), False),
    ("static", pod(meta=owner("v1", "Node")), False),
    ("that has ended", pod(meta=owner("batch/v1", "Job"), phase="Succeeded"), False),
    ("terminating, of a ReplicaSet", pod(meta=owner(*REPLICA_SET, **TERMINATING)), False),
    ("terminating, of a StatefulSet", pod(meta=owner(*STATEFUL_SET, **TERMINATING)), True),
    ("do-not-disrupt", pod(meta=owner(*REPLICA_SET, annotations={"karpenter.sh/do-not-disrupt": "true"})), False),
    (
        "do-not-disrupt for a time",
        pod(meta=owner(*REPLICA_SET, annotations={"karpenter.sh/do-not-disrupt": "1h"})),
        False,
    ),
    ("do-not-disrupt false", pod(meta=owner(*REPLICA_SET, annotations={"karpenter.sh/do-not-disrupt": "false"})), True),
]


@pytest.mark.parametrize(("found", "expected"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES])
def test_pods_that_move(found: Pod, expected: bool) -> None:
    """A pod whose controller creates it again needs another machine when its Node is removed."""
    assert (is_recreated(found) and not runs_on(found)) is expected
