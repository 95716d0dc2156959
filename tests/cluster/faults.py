"""Failure scenarios on the real server that use the rights which the main scenarios leave unused.

A Node that is NotReady for too long, a device plugin that a taint keeps away, and claims and Events that an earlier
process has written, all handled by the program under our chart's service account; the API server's audit log shows its
requests.
"""

import io
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from controllers.model.policy import Policy
from controllers.model.steps import Event
from provisioner.api import labels
from provisioner.cli.commands import doctor
from provisioner.cli.commands.console import Console
from provisioner.operator.azure import CLOUD
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.events import EventRecorder
from tests.world.harness import node_claim
from tests.world.health.plugins import PLUGIN, TAINT, daemon_set, plugin

from . import assets
from .bystanders import CLAIMS_PATH, MERGE, NODES_PATH, Hand, user_client
from .controlplane import CONTROLLERS, ControlPlane
from .inprocess import Pod, proven
from .rights import Used, used

# An unhealthy Node is handled after seconds, not minutes.
IMPATIENT = Policy(repair_seconds=1.0, repair_watch_seconds=1.0, gpu_loss_seconds=2.0, diagnosis_seconds=1.0)


async def bad_days(folder: Path, user: str) -> list[Used]:
    """The controller's requests in these scenarios. Raises AssertionError if one of them fails."""
    async with ControlPlane.start(assets.find(), folder, controller_manager=CONTROLLERS, audit=True) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac()
        mount = folder / "pod"
        mount.mkdir()
        async with user_client(cp) as hand, proven(cp, mount, IMPATIENT) as made:
            await an_event_is_there_already(made, hand)
            await a_plugin_is_kept_away(made, hand)
            await a_node_is_unhealthy(made, hand)
        assert cp.audit_log is not None
        return used(cp.audit_log, user)


async def up(made: Pod, hand: Hand, name: str, *finalizers: str) -> None:
    claim = node_claim(name)
    claim["metadata"]["finalizers"] = list(finalizers)
    await hand.demand("POST", CLAIMS_PATH, claim)
    await made.until(lambda: made.ready() == 1, f"{name} is Ready")


async def gone(made: Pod, name: str) -> None:
    await made.until(lambda: not made.app.claims.items(), f"{name} is gone")


async def an_event_is_there_already(made: Pod, hand: Hand) -> None:
    """Two processes, one after the other, report the same of one claim: one Event with count 2.

    The first one had added our finalizer: the claim is read afresh before its pool is created.
    """
    await up(made, hand, "twice", labels.FINALIZER)
    assert made.answers["get", "nodeclaims", 200]
    (claim,) = made.app.claims.items()
    reported = Event(type="Normal", reason="Reported", message="as before")
    for _ in range(2):
        await EventRecorder(made.kube, SystemClock()).record_now(claim, reported)
    about = f"involvedObject.uid={claim.uid},reason=Reported"
    (event,) = (await hand.demand("GET", f"/api/v1/namespaces/default/events?fieldSelector={about}"))["items"]
    assert event["count"] == 2
    await hand.demand("DELETE", f"{CLAIMS_PATH}/twice")
    await gone(made, "twice")


async def a_plugin_is_kept_away(made: Pod, hand: Hand) -> None:
    """GPUs are lost, and no pod of the plugin can be on the Node: the condition names the taint, `doctor` the YAML."""
    for manifest in (plugin(), daemon_set("gkm-agent", "default")):
        namespace = manifest["metadata"]["namespace"]
        await hand.demand("POST", f"/apis/apps/v1/namespaces/{namespace}/daemonsets", manifest)
    claim = node_claim("kept", taints=[TAINT])
    await hand.demand("POST", CLAIMS_PATH, claim)
    await made.until(lambda: made.ready() == 1, "kept is Ready")
    (node,) = made.app.nodes.items()
    gone_gpus = {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}
    await hand.demand("PATCH", f"{NODES_PATH}/{node.name}/status", gone_gpus, MERGE)
    why = f"DaemonSet kube-system/{PLUGIN} does not tolerate taint sku=gpu:NoSchedule"
    await made.until(lambda: why in made.describe(), "the claim names the taint")
    out, err = io.StringIO(), io.StringIO()
    wanted = Namespace(name="kept", output="table")
    code = await doctor.run(made.kube, IMPATIENT, SystemClock(), wanted, Console(out, err), cloud=CLOUD)
    assert (code, err.getvalue()) == (doctor.CLOSED, "")
    added = '    tolerations:\n    - key: "sku"\n      operator: Equal\n      value: "gpu"\n      effect: NoSchedule\n'
    assert f"  cause: PluginKeptAway: {why}\n" in out.getvalue()
    assert added in out.getvalue()
    assert "    DaemonSet default/gkm-agent does not tolerate taint sku=gpu:NoSchedule\n" in out.getvalue()
    await hand.demand("DELETE", f"{CLAIMS_PATH}/kept")
    await gone(made, "kept")


async def a_node_is_unhealthy(made: Pod, hand: Hand) -> None:
    """A Node is unhealthy and its Events show no repair by AKS, so its claim is deleted."""
    await up(made, hand, "unhealthy")
    (node,) = made.app.nodes.items()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    away = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no heartbeat"}
    status = {"conditions": [{**away, "lastHeartbeatTime": now, "lastTransitionTime": now}]}
    await hand.demand("PATCH", f"{NODES_PATH}/{node.name}/status", {"status": status}, MERGE)
    await made.until(lambda: made.answers["list", "events", 200], "it reads the Node's Events")
    await gone(made, "unhealthy")
