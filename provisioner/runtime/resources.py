"""REST resources: the URL path and the Python type of each kind.

A path is never built from an empty or special name: without a name a DELETE would delete the collection, and `..` would
be resolved by the URL.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris,
https://pkg.go.dev/k8s.io/apimachinery/pkg/api/validation/path#IsValidPathSegmentName.
"""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from provisioner.api.deviceclaim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from provisioner.api.namespace import Namespace
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.resourceslice import ResourceSlice
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from provisioner.api.workload import DaemonSet, Job

from .objects import CustomResourceDefinition, Event, KubeObject, Lease

T = TypeVar("T", bound=KubeObject)

# The longest DNS subdomain, which all names of these resources are:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#names
NAME_CHARACTERS = 253


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One resource. `plural` is its name in URLs, `kind` in bodies; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection if `name` is empty.

        Raises ValueError for a name that is not a path segment, and for a subresource without a name.
        """
        if subresource and not name:
            raise ValueError(f"{self.plural}/{subresource}: a subresource requires the name of an object")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_segment(name))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


def crd_name(resource: Resource[T]) -> str:
    """The name of the CustomResourceDefinition of this resource."""
    return f"{resource.plural}.{resource.group}"


def is_name(name: str) -> bool:
    """Whether an object of these resources can have this name; a field of another object can contain any text."""
    return 0 < len(name) <= NAME_CHARACTERS and name not in {".", ".."} and "/" not in name and "%" not in name


def _segment(name: str) -> str:
    if not is_name(name):
        raise ValueError(f"{name[:80]!r} is not a valid object name")
    return quote(name, safe="")


NODECLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False, type=NodeClaim)
NODEPOOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False, type=NodePool)
NODECLASSES = Resource(
    "gpu-provisioner.sh",
    "v1alpha1",
    "agentpoolnodeclasses",
    "AgentPoolNodeClass",
    namespaced=False,
    type=AgentPoolNodeClass,
)
NODEOVERLAYS = Resource("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", namespaced=False, type=NodeOverlay)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False, type=Node)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True, type=Pod)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, type=Namespace)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, type=DaemonSet)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True, type=Job)
PODDISRUPTIONBUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, type=PodDisruptionBudget
)
RESOURCESLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False, type=ResourceSlice
)
RESOURCECLAIMS = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True, type=ResourceClaim
)
RESOURCECLAIMTEMPLATES = Resource(
    "resource.k8s.io",
    "v1",
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    namespaced=True,
    type=ResourceClaimTemplate,
)
DEVICECLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, type=DeviceClass)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True, type=Event)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, type=Lease)
VOLUMEATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False, type=VolumeAttachment
)
PERSISTENTVOLUMECLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True, type=PersistentVolumeClaim
)
PERSISTENTVOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, type=PersistentVolume)
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, type=StorageClass)
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    type=CustomResourceDefinition,
)

BY_PLURAL: Mapping[str, Resource[Any]] = {
    resource.plural: resource
    for resource in (
        NODECLAIMS,
        NODEPOOLS,
        NODECLASSES,
        NODEOVERLAYS,
        NODES,
        PODS,
        EVENTS,
        LEASES,
        VOLUMEATTACHMENTS,
        PERSISTENTVOLUMECLAIMS,
        CRDS,
    )
}
