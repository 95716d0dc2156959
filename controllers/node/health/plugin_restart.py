"""The restart of the device plugin's pod on a Node that lacks GPUs, before its machine is replaced.

Only rows of the settings have the action RestartPlugin. The pod must run: a device that the plugin found faulty stays
so until the plugin restarts. At most once a day on one Node, which an annotation records before the pod is deleted.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

import math
from datetime import datetime

from controllers.model.diagnosis import MACHINE_AT_FAULT
from controllers.model.facts import Facts, Unhealthy
from controllers.model.patches import add_keys
from controllers.model.steps import PatchNode, RestartPluginPod, Step
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.repair_policy import GPU_GONE, GPU_PARTIAL
from provisioner.api.time import parse_rfc3339, rfc3339

from .repair_policy import rows

# A pod that was deleted later than this after the annotation belongs to another attempt.
ATTEMPT_SECONDS = 300.0


def step(f: Facts) -> Step | None:
    """The next step of the restart; None if none is due."""
    node, unhealthy = f.node, f.unhealthy
    found = f.diagnosis
    pod = found.plugin_pod if found is not None and found.of_machine and found.cause in MACHINE_AT_FAULT else None
    if node is None or unhealthy is None or pod is None or seconds_left(f, unhealthy) > 0:
        return None
    at, restarted = _recorded(node)
    age = math.inf if at is None else (f.now - at).total_seconds()
    if restarted == pod.name and age < ATTEMPT_SECONDS:
        if unhealthy.plugin_restarted == pod.name or "RestartPluginPod" in f.refused:
            return None
        return RestartPluginPod(node=node, pod=pod)
    if age < f.policy.plugin_restart_seconds or "PatchNode" in f.refused:
        return None
    note = {labels.PLUGIN_RESTARTED: f"{rfc3339(f.now)} {pod.name}"}
    patch = add_keys("/metadata/annotations", node.metadata.annotations, note)
    return PatchNode(node=node, patch=tuple(dict(one) for one in patch), why="restart the device plugin's pod")


def seconds_left(f: Facts, unhealthy: Unhealthy) -> float:
    """Seconds until the first restart is due; inf if no row has this action."""
    ages = {sight.group: f.loop_now - sight.since for sight in unhealthy.sights}
    due = [
        row.seconds - ages[row.group]
        for row in rows(f.policy)
        if row.action == "RestartPlugin" and row.group in (GPU_GONE, GPU_PARTIAL) and row.group in ages
    ]
    return min(due, default=math.inf)


def _recorded(node: Node) -> tuple[datetime | None, str]:
    """When a restart was recorded on the Node, and of which pod."""
    when, _, name = node.metadata.annotations.get(labels.PLUGIN_RESTARTED, "").partition(" ")
    return parse_rfc3339(when), name
