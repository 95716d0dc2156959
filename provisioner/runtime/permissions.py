"""The RBAC permissions that the program needs.

The chart grants exactly these (a test compares them), and `gpu-provisioner check` verifies each of them.
"""

from typing import NamedTuple

from provisioner.api.nvsentinel import NVSentinel


class Permission(NamedTuple):
    """`resource` is for example `pods` or `pods/eviction`. `on_lease`: in the namespace of the Lease only."""

    group: str
    resource: str
    verb: str
    on_lease: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


def _permissions(group: str, resource: str, verbs: str, *, on_lease: bool = False) -> tuple[Permission, ...]:
    return tuple(Permission(group, resource, verb, on_lease) for verb in verbs.split())


# For NodePools, unless they are disabled.
NODEPOOL_PERMISSIONS = (
    *_permissions("karpenter.sh", "nodepools", "list watch patch"),
    *_permissions("karpenter.sh", "nodepools/status", "patch"),
    *_permissions("gpu-provisioner.sh", "agentpoolnodeclasses", "list watch patch"),
    *_permissions("gpu-provisioner.sh", "agentpoolnodeclasses/status", "patch"),
    *_permissions("karpenter.sh", "nodeoverlays", "list watch"),
    *_permissions("karpenter.sh", "nodeoverlays/status", "patch"),
    *_permissions("karpenter.sh", "nodeclaims", "create"),
    *_permissions("", "pods", "watch"),
    *_permissions("apps", "daemonsets", "list watch"),
    *_permissions("", "namespaces", "list watch"),
    *_permissions("policy", "poddisruptionbudgets", "list watch"),
    *_permissions("", "persistentvolumeclaims", "list"),
    *_permissions("", "persistentvolumes", "get list"),
    *_permissions("storage.k8s.io", "storageclasses", "list"),
    *_permissions("resource.k8s.io", "resourceclaims", "list"),
    *_permissions("resource.k8s.io", "resourceclaimtemplates", "get list"),
    *_permissions("resource.k8s.io", "deviceclasses", "list"),
)
# To delete what the GPU Kernel Manager leaves of Nodes that are gone, if enabled.
GKM_PERMISSIONS = (
    *_permissions("gkm.io", "gkmcachenodes", "list watch patch delete"),
    *_permissions("gkm.io", "clustergkmcachenodes", "list watch patch delete"),
    *_permissions("", "nodes", "get"),
)


def nvsentinel_permissions(names: NVSentinel) -> tuple[Permission, ...]:
    """To answer the requests of NVSentinel, if enabled."""
    found: list[Permission] = []
    for resource in filter(None, (names.terminate_resource, names.reboot_resource)):
        found += _permissions(names.group, resource, "get list watch")
        found += _permissions(names.group, f"{resource}/status", "patch")
    return tuple(found)


# For the cause of missing GPUs in conditions, and for the command `doctor`; optional.
DOCTOR_PERMISSIONS = (
    *_permissions("apps", "daemonsets", "list"),
    *_permissions("batch", "jobs", "list"),
)
# To authenticate and authorize who reads the metrics, if enabled.
METRICS_PERMISSIONS = (
    *_permissions("authentication.k8s.io", "tokenreviews", "create"),
    *_permissions("authorization.k8s.io", "subjectaccessreviews", "create"),
)
PERMISSIONS = (
    *_permissions("karpenter.sh", "nodeclaims", "get list watch patch delete"),
    *_permissions("karpenter.sh", "nodeclaims/status", "patch"),
    *_permissions("", "nodes", "list watch patch delete"),
    *_permissions("", "pods", "list delete"),
    *_permissions("", "pods/eviction", "create"),
    *_permissions("storage.k8s.io", "volumeattachments", "list"),
    *_permissions("", "persistentvolumeclaims", "get"),
    *_permissions("apiextensions.k8s.io", "customresourcedefinitions", "get list watch"),
    *_permissions("resource.k8s.io", "resourceslices", "list watch"),
    *_permissions("", "events", "create get list patch"),
    *_permissions("coordination.k8s.io", "leases", "create get patch", on_lease=True),
)
