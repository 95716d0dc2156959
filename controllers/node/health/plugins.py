"""Which DaemonSets offer GPUs: the device plugins for an extended resource, or a DRA driver.

A plugin serves a socket in the kubelet's folder, so its template mounts it; other programs of the vendor do not.
Plugins of other devices mount it as well, so the template must name the vendor of the resource, and no network device.
A DRA driver is known by its folder, the vendor and its name; a container for compute domains publishes no GPUs.

Source: docs/references/kubernetes.md#device-plugins-in-a-cluster,
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/deployments/helm/dra-driver-nvidia-gpu/templates/kubeletplugin.yaml,
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html.
"""

import re
from collections.abc import Iterable

from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.workload import DaemonSet
from provisioner.vendors import BY_DRIVER, VENDORS, Vendor, vendor_of

from .placement import keeps_away

SOCKETS = "/var/lib/kubelet/device-plugins"
PLUGIN = "device-plugin"
# Drivers of other kinds serve in these folders as well, such as those of volumes.
DRA_SOCKETS = ("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry")
_DRA = re.compile(r"(?<![a-z0-9])dra(?![a-z0-9])", re.IGNORECASE)
_NETWORK = re.compile(r"rdma|sriov|mellanox|dranet", re.IGNORECASE)
_COMPUTE_DOMAINS = re.compile(r"compute-domain")
# The GPUs that a container runtime shows to a container: a list of indexes or UUIDs, or a word. `none` shows no GPU;
# with the others, nothing says that there are fewer.
_VISIBLE_DEVICES = frozenset(one.visible_devices for one in VENDORS if one.visible_devices)
NONE_VISIBLE, NO_LIST = "none", ("", "all", "void")


def offering(daemon_sets: Iterable[DaemonSet], source: str, node: Node) -> tuple[DaemonSet, ...]:
    """The DaemonSets that offer the GPUs of this DRA driver, or the devices of this extended resource."""
    vendor = BY_DRIVER.get(source)
    if vendor is None:
        return device_plugins(daemon_sets, source, node)
    return tuple(one for one in daemon_sets if _publishes(one, vendor) and not _of_another_system(one, node))


def may_offer_gpus(daemon_set: DaemonSet) -> bool:
    """Whether the DaemonSet may be a device plugin, or a DRA driver of GPUs."""
    return mounts_sockets(daemon_set) or any(_publishes(daemon_set, one) for one in VENDORS)


def device_plugins(daemon_sets: Iterable[DaemonSet], resource: str, node: Node) -> tuple[DaemonSet, ...]:
    """The device plugins for this resource, those for Nodes of another operating system left out."""
    return tuple(one for one in daemon_sets if _serves(one, resource) and not _of_another_system(one, node))


def plugin_version(daemon_set: DaemonSet) -> str:
    """The tag of the plugin's image, "" without one."""
    images = [one.image for one in daemon_set.spec.template.spec.containers if "plugin" in one.image]
    tail = images[0].rpartition("/")[2].partition("@")[0] if images else ""
    return tail.partition(":")[2]


def visible_gpus(daemon_set: DaemonSet) -> tuple[int, str] | None:
    """How many GPUs the template lists for a container, and in which variable; None without a list, as with `all`."""
    env = (one for container in daemon_set.spec.template.spec.containers for one in container.env)
    found = {one.value: one.name for one in env if one.name in _VISIBLE_DEVICES}
    if found.keys() == {NONE_VISIBLE}:
        return 0, found[NONE_VISIBLE]
    lists = ((value.split(","), name) for value, name in found.items() if value not in (*NO_LIST, NONE_VISIBLE))
    return max(((len(set(filter(None, one))), name) for one, name in lists), default=None)


def mounts_sockets(daemon_set: DaemonSet) -> bool:
    """Whether the template mounts the folder in which device plugins serve."""
    return SOCKETS in _host_paths(daemon_set)


def _host_paths(daemon_set: DaemonSet) -> frozenset[str]:
    volumes = daemon_set.spec.template.spec.volumes
    return frozenset(one.host_path.path.rstrip("/") for one in volumes if one.host_path is not None)


def _publishes(daemon_set: DaemonSet, vendor: Vendor) -> bool:
    """Whether the DaemonSet is a DRA driver for GPUs of this vendor."""
    if _host_paths(daemon_set).isdisjoint(DRA_SOCKETS):
        return False
    containers = daemon_set.spec.template.spec.containers
    images = [one.image for one in containers if not _COMPUTE_DOMAINS.search(one.name)]
    words = [daemon_set.metadata.name, *images]
    named = bool(images) and any(map(_DRA.search, words)) and any(map(vendor.words.search, words))
    return named and not any(map(_NETWORK.search, words))


def _serves(daemon_set: DaemonSet, resource: str) -> bool:
    spec = daemon_set.spec.template.spec
    if not mounts_sockets(daemon_set):
        return False
    names = [daemon_set.metadata.name, *(one.image for one in spec.containers)]
    words = [*names]
    for one in spec.containers:
        words += [*one.command, *one.args, *(f"{variable.name}={variable.value}" for variable in one.env)]
    if any(_NETWORK.search(name) for name in names):
        return False
    if any(resource in word for word in words):
        return True
    vendor = vendor_of(resource)
    return any(PLUGIN in name for name in names) and vendor is not None and any(map(vendor.words.search, words))


def _of_another_system(daemon_set: DaemonSet, node: Node) -> bool:
    kept = keeps_away(daemon_set, node)
    return any(one.key in (labels.OS, labels.ARCH, f"beta.{labels.OS}") for one in kept.expressions)
