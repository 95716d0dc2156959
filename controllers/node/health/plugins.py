"""Which DaemonSets are device plugins for an extended resource.

A plugin serves a socket in the kubelet's folder, so its template mounts it; other programs of the vendor do not.
Plugins of other devices mount it as well, so the template must name the vendor of the resource, and no network device.

Source: docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

import re
from collections.abc import Iterable, Mapping

from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.workload import DaemonSetWorkload

from .placement import keeps_away

SOCKETS = "/var/lib/kubelet/device-plugins"
PLUGIN = "device-plugin"
_NETWORK = re.compile(r"rdma|sriov|mellanox", re.IGNORECASE)
# How names, images and variables of templates name the vendor of a resource.
VENDORS: Mapping[str, re.Pattern[str]] = {
    "nvidia.com": re.compile(r"nvidia|nvdp", re.IGNORECASE),
    "amd.com": re.compile(r"amdgpu|amd\.com|rocm|(?<![a-z0-9])amd(?![a-z0-9])", re.IGNORECASE),
}


def device_plugins(
    daemon_sets: Iterable[DaemonSetWorkload], resource: str, node: Node
) -> tuple[DaemonSetWorkload, ...]:
    """The device plugins for this resource, those for Nodes of another operating system left out."""
    return tuple(one for one in daemon_sets if _serves(one, resource) and not _of_another_system(one, node))


def plugin_version(daemon_set: DaemonSetWorkload) -> str:
    """The tag of the plugin's image, "" without one."""
    images = [one.image for one in daemon_set.spec.template.spec.containers if "plugin" in one.image]
    tail = images[0].rpartition("/")[2].partition("@")[0] if images else ""
    return tail.partition(":")[2]


def _serves(daemon_set: DaemonSetWorkload, resource: str) -> bool:
    spec = daemon_set.spec.template.spec
    if SOCKETS not in {volume.host_path.path.rstrip("/") for volume in spec.volumes if volume.host_path is not None}:
        return False
    names = [daemon_set.metadata.name, *(one.image for one in spec.containers)]
    words = [*names]
    for one in spec.containers:
        words += [*one.command, *one.args, *(f"{variable.name}={variable.value}" for variable in one.env)]
    if any(_NETWORK.search(name) for name in names):
        return False
    if any(resource in word for word in words):
        return True
    vendor = VENDORS.get(resource.partition("/")[0])
    return any(PLUGIN in name for name in names) and vendor is not None and any(map(vendor.search, words))


def _of_another_system(daemon_set: DaemonSetWorkload, node: Node) -> bool:
    kept = keeps_away(daemon_set, node)
    return any(one.key in (labels.OS, labels.ARCH, f"beta.{labels.OS}") for one in kept.expressions)
