"""Why the GPUs of a Ready Node are not allocatable: no device plugin is meant for the Node, its pod does not run, or it
runs and advertises no device.

Source: docs/references/kubernetes.md#device-plugins-in-a-cluster, docs/adr/0055-diagnosis-of-gpus.md.
"""

from collections.abc import Iterable, Sequence

import msgspec

from controllers.model.diagnosis import Cause, Diagnosis, Workloads
from controllers.nodeclaim.lifecycle.gpu_resources import GpuState, whole_number
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node, NodeCondition
from provisioner.api.workload import DaemonSetWorkload, WorkloadPod

from .placement import KeptAway, described, keeps_away, missing_tolerations, name_of
from .plugin_pods import failing_remedy, is_for, not_running, pod_name, pod_of, unbound_because
from .plugins import device_plugins, plugin_version

# The plugin of a managed GPU pool is a systemd unit, which its node problem detector watches.
MANAGED_PLUGIN = "UnhealthyNvidiaDevicePlugin"
MANAGED_LABEL = "kubernetes.azure.com/dcgm-exporter"
# Conditions of GPUs that say more about missing devices; True is bad (docs/references/agent-pools.md).
GPU_CONDITIONS = ("GPUMissing", "XIDErrors", "GPUXIDErrors", "NVLinkStatusInactive")
MIG_STATE = "nvidia.com/mig.config.state"
EVIDENCE_CHARACTERS, LISTED_CHARACTERS = 60, 72


def diagnose(node: Node, gpus: GpuState, found: Workloads, startup: Iterable[Taint] = ()) -> Diagnosis | None:
    """Why GPUs are missing on the Node; None if none is, or if the DaemonSets are not known.

    `startup`: the startup taints of the claim.
    """
    if gpus.allocatable >= gpus.expected or found.daemon_sets is None:
        return None
    if is_managed(node):
        return _managed(node, gpus, found)
    plugins = device_plugins(found.daemon_sets, gpus.resource, node)
    if not plugins:
        return _absent(node, gpus, found)
    best = min(plugins, key=lambda one: _distance(one, node, found))
    kept = keeps_away(best, node)
    pod = pod_of(best, found.pods)
    if pod is not None:
        return _of_pod(pod, best, node, gpus, found)
    if kept:
        return _kept_away(best, kept, node, found, tuple(startup))
    return _not_scheduled(best, found, node)


def lacks_pod(node: Node, resource: str, found: Workloads) -> bool:
    """Whether a plugin fits the Node and has no pod there, so that pods without a Node may tell why."""
    plugins = device_plugins(found.daemon_sets or (), resource, node)
    fitting = [one for one in plugins if not keeps_away(one, node)]
    return bool(fitting) and not any(pod_of(one, found.pods) for one in plugins)


def is_managed(node: Node) -> bool:
    """Whether AKS manages the plugin of this Node, as a systemd unit."""
    return MANAGED_LABEL in node.metadata.labels or any(one.type == MANAGED_PLUGIN for one in node.status.conditions)


def _distance(plugin: DaemonSetWorkload, node: Node, found: Workloads) -> tuple[int, int, str]:
    """How far a plugin is from serving the Node, to choose among several."""
    kept = keeps_away(plugin, node)
    if pod_of(plugin, found.pods) is not None:
        return 0, 0, plugin.metadata.name
    return 1, 2 * len(kept.expressions) + len(kept.taints), plugin.metadata.name


# The three answers: no pod can be there, it does not run, it runs without devices


def _absent(node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
    if gpus.allocatable:
        evidence = tuple(_evidence(node, gpus.resource))
        return Diagnosis(
            cause=Cause.PARTIAL_DEVICES,
            object="the device plugin",
            text=f"advertises {gpus.allocatable} of {gpus.expected}{_listed(evidence)}",
            remedy=f"see kubectl describe node {node.name}",
            since=found.since,
            details=evidence,
        )
    return Diagnosis(
        cause=Cause.PLUGIN_ABSENT,
        text=f"no DaemonSet of the cluster is a device plugin for {gpus.resource}",
        remedy="install one (docs/how-to/device-plugin.md)",
        since=found.since,
    )


def _kept_away(
    plugin: DaemonSetWorkload, kept: KeptAway, node: Node, found: Workloads, startup: Sequence[Taint]
) -> Diagnosis:
    remedy = "change its node selector or affinity, or label the Node"
    if missing_tolerations(kept):
        remedy = "add the toleration that gpu-provisioner doctor prints"
    elif kept.taints:
        remedy = f"see kubectl describe node {node.name}"
    return Diagnosis(
        cause=Cause.PLUGIN_KEPT_AWAY,
        object=name_of(plugin),
        text=described(kept, node, startup),
        remedy=remedy,
        since=found.since,
    )


def _not_scheduled(plugin: DaemonSetWorkload, found: Workloads, node: Node) -> Diagnosis:
    pending = next((one for one in found.unbound if pod_of(plugin, (one,)) and is_for(one, node)), None)
    meta, text = plugin.metadata, "has no pod on the Node"
    if pending is not None:
        why = unbound_because(pending)
        text = f"has a pod that is not bound to the Node{f' ({why})' if why else ''}"
    return Diagnosis(
        cause=Cause.PLUGIN_NOT_SCHEDULED,
        object=name_of(plugin),
        text=text,
        remedy=f"see kubectl describe daemonset -n {meta.namespace} {meta.name}",
        since=found.since,
        plugin_pod=pod_name(pending) if pending is not None else None,
    )


def _of_pod(pod: WorkloadPod, plugin: DaemonSetWorkload, node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
    broken = not_running(pod)
    made = Diagnosis(
        cause=Cause.PLUGIN_FAILING,
        object=f"Pod {pod.name}",
        text=f"is not running ({broken})",
        remedy=failing_remedy(pod, broken),
        since=found.since,
        plugin_pod=pod_name(pod),
    )
    if broken:
        return made
    evidence = tuple(_evidence(node, gpus.resource, plugin_version(plugin)))
    if gpus.allocatable:
        return msgspec.structs.replace(
            made,
            cause=Cause.PARTIAL_DEVICES,
            text=f"advertises {gpus.allocatable} of {gpus.expected}{_listed(evidence)}",
            remedy="a device that it found unhealthy stays so until it restarts; see its log",
            details=evidence,
        )
    return msgspec.structs.replace(
        made,
        cause=Cause.NO_DEVICES,
        text=f"runs and advertises no device{_listed(evidence)}",
        remedy="check the driver of the Node; see the log of the Pod",
        details=evidence,
    )


def _managed(node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
    """AKS installs the plugin of this pool, so that no DaemonSet is expected."""
    bad = next((one for one in node.status.conditions if one.type == MANAGED_PLUGIN and one.status == "True"), None)
    evidence = tuple(_evidence(node, gpus.resource))
    cause, text = Cause.NO_DEVICES, f"advertises no device{_listed(evidence)}"
    if bad is not None:
        cause, text = Cause.PLUGIN_FAILING, f"is unhealthy ({_words(bad)})"
    elif gpus.allocatable:
        cause, text = Cause.PARTIAL_DEVICES, f"advertises {gpus.allocatable} of {gpus.expected}{_listed(evidence)}"
    return Diagnosis(
        cause=cause,
        object="the device plugin that AKS manages on the Node",
        text=text,
        remedy=f"see kubectl describe node {node.name}",
        since=found.since,
        details=evidence,
    )


# Details


def _evidence(node: Node, resource: str, version: str = "") -> Iterable[str]:
    """What else the Node says about its GPUs, the most useful first."""
    domain = resource.partition("/")[0]
    for name, amount in sorted(node.status.allocatable.items()):
        if name != resource and name.startswith(f"{domain}/") and whole_number(amount) > 0:
            yield f"{name}: {amount} instead"
    yield from (_words(one) for one in node.status.conditions if one.type in GPU_CONDITIONS and one.status == "True")
    state = node.metadata.labels.get(MIG_STATE, "success")
    if state != "success":
        yield f"{MIG_STATE}={state}"
    image = node.metadata.labels.get(labels.AKS_IMAGE_VERSION, "")
    if image:
        yield f"node image {image}"
    if version:
        yield f"plugin {version}"


def _listed(evidence: Sequence[str]) -> str:
    """The first of them, and others as long as the remedy has room in a condition."""
    shown = ""
    for one in evidence:
        if shown and len(shown) + len(one) > LISTED_CHARACTERS:
            break
        shown += f", {one}" if shown else one
    return f" ({shown})" if shown else ""


def _words(one: NodeCondition) -> str:
    text = one.message or one.reason
    return f"{one.type}: {text[:EVIDENCE_CHARACTERS]}" if text else one.type
