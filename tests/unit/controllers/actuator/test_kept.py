"""What reads keep of objects of tenants: their users find the same in it."""

from typing import Any

import msgspec
import pytest

from controllers.actuator.kept import (
    on_node,
    plugins,
    rejected,
    resource_claim_templates,
    resource_claims,
    running,
    unbound,
    volume_claim,
)
from controllers.node.health.admission_errors import REASON, admission_errors
from controllers.node.health.plugin_pods import is_for, not_running, pod_of, unbound_because
from controllers.node.health.plugins import device_plugins
from provisioner.api.deviceclaim import ResourceClaim, ResourceClaimTemplate
from provisioner.api.pod import Pod
from provisioner.api.volume import BIND_COMPLETED, SELECTED_NODE, PersistentVolumeClaim
from tests.unit.builders import node
from tests.unit.controllers.node import workloads

LABELS = {f"x{number}": "y" for number in range(5_000)}


def test_pods_of_device_plugins_say_the_same() -> None:
    """Which pod of a DaemonSet is on a Node, or was created for it, and why it does not run."""
    of = workloads.plugin()
    why = [{"type": "PodScheduled", "status": "False", "message": "no room"}]
    waits = workloads.pod(phase="Pending", containerStatuses=workloads.waiting("ErrImagePull"), meta={"labels": LABELS})
    pending = workloads.pod(phase="Pending", on="", conditions=why, meta={"labels": LABELS})
    for one, kept in ((waits, on_node(waits)), (pending, unbound(pending))):
        assert kept is not None
        assert pod_of(of, (kept,)) is kept
        assert len(msgspec.json.encode(kept)) < 2_000
        assert (not_running(kept), unbound_because(kept)) == (not_running(one), unbound_because(one))
    assert is_for(unbound(pending) or pending, node())
    strange = msgspec.structs.replace(pending, metadata=msgspec.structs.replace(pending.metadata, owner_references=()))
    assert unbound(strange) is None


def test_rejected_pods_are_found() -> None:
    """Those that the kubelet rejected, with their controllers, and no others."""
    status = {"reason": REASON, "message": "requested number of devices unavailable"}
    found = workloads.pod(phase="Failed", meta={"labels": LABELS}, **status)
    kept = rejected(found)
    assert kept is not None
    assert admission_errors((kept,)) == admission_errors((found,)) == admission_errors((on_node(found),))
    assert rejected(workloads.pod(phase="Failed", reason="Evicted")) is None
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    found = workloads.pod(phase="Failed", meta={"ownerReferences": [job]}, **status)
    kept = rejected(found)
    assert kept is not None
    assert admission_errors((kept,)) == admission_errors((found,))


def test_daemon_sets_that_are_no_device_plugins_are_left_out() -> None:
    """So is one that is too large."""
    found, digest = workloads.plugin(), plugins()
    kept = digest(found)
    assert kept is not None
    assert device_plugins((kept,), "nvidia.com/gpu", node()) == (kept,)
    assert digest(workloads.dra_driver()) is not None
    assert digest(workloads.daemon_set("other")) is None
    env = [{"name": f"A{number}", "value": "x" * 100} for number in range(1_000)]
    assert digest(workloads.plugin(containers=[{"name": "c", "env": env}])) is None


@pytest.mark.parametrize(
    ("phase", "requests", "counts"),
    [
        ("Running", {"nvidia.com/gpu": "1"}, True),
        ("Running", {"cpu": "1"}, False),
        ("Failed", {"amd.com/gpu": 1}, False),
    ],
)
def test_pods_with_gpus_are_counted(phase: str, requests: dict[str, Any], counts: bool) -> None:
    container = {"resources": {"requests": requests}}
    body = {
        "metadata": {"name": "p", "labels": LABELS},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }
    kept = running(msgspec.convert(body, Pod))
    assert (kept is not None and kept.with_gpus) == counts


CRASHES = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
STARTS = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNS = {"name": "c", "state": {"running": {}}}


@pytest.mark.parametrize(
    ("containers", "counts"),
    [([], True), ([RUNS], True), ([STARTS], True), ([CRASHES], False), ([CRASHES, RUNS], True)],
)
def test_a_pod_whose_containers_all_crash_uses_no_gpu(containers: list[Any], counts: bool) -> None:
    """What runs on a machine without GPUs fails at each start; what is being started does not."""
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}], "terminationGracePeriodSeconds": 900}
    body = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running", "containerStatuses": containers}}
    kept = running(msgspec.convert(body, Pod))
    assert kept is not None
    assert (kept.with_gpus, kept.grace_seconds) == (counts, 900)


def test_volume_claims_have_their_binding() -> None:
    """The note about the binding and the access mode of one pod are kept."""
    meta = {"name": "c", "labels": LABELS, "annotations": {BIND_COMPLETED: "yes", "x": "y"}}
    spec = {"volumeName": "v", "storageClassName": "s", "accessModes": ["ReadWriteMany", "ReadWriteOncePod"] * 1_000}
    found = msgspec.convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)
    kept = volume_claim(found)
    assert (kept.bound, kept.spec.volume_name, kept.spec.storage_class_name) == (True, "v", "s")
    assert kept.spec.access_modes == ("ReadWriteOncePod",)
    assert len(msgspec.json.encode(kept)) < 300


def test_volume_claims_have_their_node() -> None:
    """The Node for which kube-scheduler has the volume provisioned is kept, as long as a name can be."""
    meta = {"name": "c", "annotations": {SELECTED_NODE: "aks-1"}}
    kept = volume_claim(msgspec.convert({"metadata": meta}, PersistentVolumeClaim))
    assert kept.selected_node == "aks-1"
    meta["annotations"] = {SELECTED_NODE: "x" * 10_000}
    assert len(volume_claim(msgspec.convert({"metadata": meta}, PersistentVolumeClaim)).selected_node) == 253


def test_claims_for_devices_that_are_too_large_say_so() -> None:
    """The devices that a claim has count all the same."""
    requests = [{"name": f"r{number}", "exactly": {"deviceClassName": "c" * 60}} for number in range(2_000)]
    results = {"results": [{"driver": "d", "pool": "p", "device": "x"}]}
    body = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": results}}}
    large = msgspec.convert({**body, "spec": {"devices": {"requests": requests}}}, ResourceClaim)
    kept = resource_claims()(large)
    assert kept.status == large.status
    assert "at most 65,536 are kept" in kept.metadata.unreadable[0]
    assert kept.spec.devices.requests == ()
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    assert resource_claim_templates()(msgspec.convert(template, ResourceClaimTemplate)).metadata.unreadable
    small = msgspec.convert({**body, "spec": {"devices": {"requests": requests[:9]}}}, ResourceClaim)
    assert resource_claims()(small) == small


def test_large_claims_for_devices_share_a_budget() -> None:
    """Together they are bounded; the devices that one without room has count all the same."""
    requests = [{"name": f"r{number}", "exactly": {"deviceClassName": "c" * 60}} for number in range(600)]
    status = {"allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "x"}]}}}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}, "status": status}
    digest = resource_claims()
    kept = [digest(msgspec.convert(body, ResourceClaim)) for _ in range(300)]
    without = [one for one in kept if one.metadata.unreadable]
    assert 0 < len(without) < 200
    assert "have the most that is kept" in without[0].metadata.unreadable[0]
    assert all(one.status == kept[0].status for one in kept)
