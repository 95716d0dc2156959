"""Why the GPUs of a Ready Node are not allocatable: no device plugin is meant for the Node, its pod does not run, or it
runs and advertises no device. Where a DRA driver publishes the GPUs, it stands in the place of the plugin.

The fault is the machine's only if the plugin runs there and shows too few devices, and nothing else explains it: a
rollout of the plugin, a configuration of MIG, of shared devices, or of the GPUs that the plugin may see, or a driver
that the user installs instead of AKS. A plugin that fails is the machine's fault only if the pods of the same revision
run on all other Nodes, and the Node itself reports that a GPU is missing.

Source: docs/references/kubernetes.md#device-plugins-in-a-cluster, docs/adr/0055-diagnosis-of-gpus.md.
"""

from collections.abc import Iterable, Sequence

import msgspec

from controllers.model.diagnosis import Diagnosis, Workloads
from controllers.nodeclaim.lifecycle.expected_gpus import amount, whole_number
from controllers.nodeclaim.lifecycle.gpu_resources import GpuState, failed_mig_config
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node, NodeCondition
from provisioner.api.pod import Pod
from provisioner.api.workload import Cause, DaemonSet
from provisioner.vendors import DIVISIONS, VENDORS, is_gpu, vendor_of

from .placement import KeptAway, described, keeps_away, missing_tolerations, name_of
from .plugin_pods import (
    crashes,
    failing_remedy,
    is_for,
    is_rolled_out,
    not_running,
    pod_name,
    pod_of,
    runs_on_all_others,
    unbound_because,
)
from .plugins import offering, plugin_version, visible_gpus
from .reported_conditions import reported_condition

# The plugin of a managed GPU pool is a systemd unit, which its node problem detector watches.
MANAGED_PLUGINS = frozenset(one.managed_plugin for one in VENDORS if one.managed_plugin)
MANAGED_LABEL = "kubernetes.azure.com/dcgm-exporter"
# Conditions of GPUs that say more about missing devices; True is bad (docs/references/agent-pools.md).
GPU_CONDITIONS = ("GPUMissing", "XIDErrors", "GPUXIDErrors", "NVLinkStatusInactive")
# Of these, the one that no application causes.
GPU_MISSING = "GPUMissing"
EVIDENCE_CHARACTERS, LISTED_CHARACTERS = 60, 72


def diagnose(node: Node, gpus: GpuState, found: Workloads, startup: Iterable[Taint] = ()) -> Diagnosis | None:
    """Why GPUs are missing on the Node; None if none is, or if a setting is not the cause and DaemonSets are not known.

    `startup`: the startup taints of the claim.
    """
    if gpus.allocatable >= gpus.expected:
        return None
    if gpus.disagrees is not None:
        text, remedy = gpus.disagrees.text, gpus.disagrees.remedy
        return Diagnosis(cause=Cause.MISCONFIGURED, text=text, remedy=remedy, since=found.since)
    if not gpus.driver and is_managed(node):
        return _unless_configured(_managed(node, gpus, found), node, gpus)
    if found.daemon_sets is None:
        return None
    plugins = offering(found.daemon_sets, gpus.source, node)
    if not plugins:
        return _unless_configured(_absent(node, gpus, found), node, gpus)
    best = min(plugins, key=lambda one: _distance(one, node, found))
    kept = keeps_away(best, node)
    pod = pod_of(best, found.pods)
    if pod is not None:
        made = _limited(best, gpus, found) or _of_pod(pod, best, node, gpus, found)
        return _unless_rolling(_unless_configured(made, node, gpus), best)
    if kept:
        return _kept_away(best, kept, node, found, tuple(startup))
    return _not_scheduled(best, found, node)


def lacks_pod(node: Node, source: str, found: Workloads) -> bool:
    """Whether a plugin fits the Node and has no pod there, so that pods without a Node may tell why."""
    plugins = offering(found.daemon_sets or (), source, node)
    fitting = [one for one in plugins if not keeps_away(one, node)]
    return bool(fitting) and not any(pod_of(one, found.pods) for one in plugins)


def is_managed(node: Node) -> bool:
    """Whether AKS manages the plugin of this Node, as a systemd unit."""
    return MANAGED_LABEL in node.metadata.labels or any(one.type in MANAGED_PLUGINS for one in node.status.conditions)


def _distance(plugin: DaemonSet, node: Node, found: Workloads) -> tuple[int, int, str]:
    """How far a plugin is from serving the Node, to choose among several."""
    kept = keeps_away(plugin, node)
    if pod_of(plugin, found.pods) is not None:
        return 0, 0, plugin.metadata.name
    return 1, 2 * len(kept.expressions) + len(kept.taints), plugin.metadata.name


# The three answers: no pod can be there, it does not run, it runs without devices


def _absent(node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
    if gpus.allocatable or (gpus.driver and not gpus.withheld):
        evidence = tuple(_evidence(node, gpus.resource))
        return Diagnosis(
            cause=Cause.PARTIAL_DEVICES if gpus.allocatable else Cause.NO_DEVICES,
            object=f"DRA driver {gpus.driver}" if gpus.driver else "the device plugin",
            text=f"{_offers(gpus)}{_listed(evidence)}",
            remedy=f"see kubectl describe node {node.name}",
            since=found.since,
            details=evidence,
        )
    plugin, page = f"a device plugin for {gpus.resource}", "device-plugin"
    if gpus.driver:
        plugin, page = f"the DRA driver {gpus.driver}", "dra"
    return Diagnosis(
        cause=Cause.PLUGIN_ABSENT,
        text=f"no DaemonSet of the cluster is {plugin}",
        remedy=f"install one (docs/how-to/{page}.md)",
        since=found.since,
    )


def _offers(gpus: GpuState) -> str:
    verb = "publishes" if gpus.driver else "advertises"
    return f"{verb} {gpus.allocatable} of {gpus.expected}" if gpus.allocatable else f"{verb} no device"


def _kept_away(plugin: DaemonSet, kept: KeptAway, node: Node, found: Workloads, startup: Sequence[Taint]) -> Diagnosis:
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
        taints=kept.taints,
    )


def _not_scheduled(plugin: DaemonSet, found: Workloads, node: Node) -> Diagnosis:
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


def _of_pod(pod: Pod, plugin: DaemonSet, node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
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
        only_here = crashes(pod) and runs_on_all_others(plugin) and _reports_missing_gpus(node)
        return msgspec.structs.replace(made, only_here=only_here)
    if gpus.withheld:
        return msgspec.structs.replace(
            made,
            cause=Cause.NOT_PUBLISHED,
            text=f"runs, but {gpus.withheld}",
            remedy="see its log: may it write ResourceSlices? See kubectl get resourceslices",
        )
    evidence = tuple(_evidence(node, gpus.resource, plugin_version(plugin)))
    if gpus.allocatable:
        return msgspec.structs.replace(
            made,
            cause=Cause.PARTIAL_DEVICES,
            text=f"{_offers(gpus)}{_listed(evidence)}",
            remedy="a device that it found unhealthy stays so until it restarts; see its log",
            details=evidence,
        )
    return msgspec.structs.replace(
        made,
        cause=Cause.NO_DEVICES,
        text=f"runs and {_offers(gpus)}{_listed(evidence)}",
        remedy="check the driver of the Node; see the log of the Pod",
        details=evidence,
    )


def _limited(plugin: DaemonSet, gpus: GpuState, found: Workloads) -> Diagnosis | None:
    """The plugin offers all devices of the GPUs that its container may see; None otherwise, or if nothing states them.

    Shared GPUs and slices are several devices each.
    """
    limit, whole = visible_gpus(plugin), gpus.whole or gpus.expected
    if limit is None:
        return None
    visible, variable = limit
    if gpus.allocatable * whole != visible * gpus.expected:
        return None
    return Diagnosis(
        cause=Cause.MISCONFIGURED,
        object=name_of(plugin),
        text=f"lets the plugin see {visible} GPUs of {whole} ({variable})",
        remedy=f"set {variable} to all",
        since=found.since,
    )


def _managed(node: Node, gpus: GpuState, found: Workloads) -> Diagnosis:
    """AKS installs the plugin of this pool, so that no DaemonSet is expected."""
    vendor = vendor_of(gpus.resource)
    bad = reported_condition(node, vendor.managed_plugin, "True") if vendor is not None else None
    evidence = tuple(_evidence(node, gpus.resource))
    cause, text = Cause.NO_DEVICES, f"advertises no device{_listed(evidence)}"
    # AKS configures this plugin, so that a fault of it is one of the machine.
    if bad is not None:
        cause, text = Cause.PLUGIN_FAILING, f"is unhealthy ({_words(bad)})"
    elif gpus.allocatable:
        cause, text = Cause.PARTIAL_DEVICES, f"advertises {gpus.allocatable} of {gpus.expected}{_listed(evidence)}"
    return Diagnosis(
        cause=cause,
        object="the device plugin that AKS manages on the Node",
        only_here=bad is not None,
        text=text,
        remedy=f"see kubectl describe node {node.name}",
        since=found.since,
        details=evidence,
    )


# What else explains it


def _unless_configured(made: Diagnosis, node: Node, gpus: GpuState) -> Diagnosis:
    """A machine that offers what its configuration says is not faulty, whatever was expected of it."""
    if refused := failed_mig_config(node):
        why, remedy = "its MIG configuration failed", f"correct the label of the Node ({refused})"
    elif others := tuple(text for name, text in _instead(node, gpus.resource) if is_gpu(name)):
        why, remedy = f"it offers {others[0]}", "state what the Node offers in spec.gpu of its node class"
    elif gpus.without_driver and made.cause is Cause.NO_DEVICES and not _reports_missing_gpus(node):
        # A new machine would have no driver either. The evidence is left out: the remedy needs the room.
        made = msgspec.structs.replace(made, text=f"{_offers(gpus)}, and AKS installs no driver")
        why, remedy = "its node class has spec.gpu.driver None", "install one, or set spec.gpu.driver to Install"
    else:
        return made
    return msgspec.structs.replace(made, elsewhere=why, remedy=remedy)


def _unless_rolling(made: Diagnosis, plugin: DaemonSet) -> Diagnosis:
    if made.elsewhere or is_rolled_out(plugin):
        return made
    why = f"{name_of(plugin)} is being rolled out"
    return msgspec.structs.replace(made, elsewhere=why, remedy=f"wait for the rollout of {name_of(plugin)}")


def _reports_missing_gpus(node: Node) -> bool:
    return reported_condition(node, GPU_MISSING, "True") is not None


# Details


def _evidence(node: Node, resource: str, version: str = "") -> Iterable[str]:
    """What else the Node says about its GPUs, the most useful first."""
    yield from (text for _, text in _instead(node, resource))
    yield from (_words(one) for kind in GPU_CONDITIONS if (one := reported_condition(node, kind, "True")) is not None)
    for key in (division.config_state for division in DIVISIONS):
        if (state := node.metadata.labels.get(key, "success")) != "success":
            yield f"{key}={state}"
    image = node.metadata.labels.get(labels.AKS_IMAGE_VERSION, "")
    if image:
        yield f"node image {image}"
    if version:
        yield f"plugin {version}"


def _instead(node: Node, resource: str) -> Iterable[tuple[str, str]]:
    """The other devices of the vendor that the Node offers, by name, with a text.

    Those of a Node whose kubelet counts unhealthy devices of the resource are beside them: mixed slices, of which some
    are lost.
    """
    if amount(node.status.capacity, resource) > amount(node.status.allocatable, resource):
        return
    domain = resource.partition("/")[0]
    for name, offered in sorted(node.status.allocatable.items()):
        if name != resource and name.startswith(f"{domain}/") and whole_number(offered) > 0:
            yield name, f"{name}: {offered} instead"


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
