"""The RBAC permissions that the program needs.

The chart grants exactly these (a test compares them), and `gpu-provisioner check` verifies each of them.
"""

from typing import NamedTuple


class Right(NamedTuple):
    """`resource` is for example `pods` or `pods/eviction`. `on_lease`: in the namespace of the Lease only."""

    group: str
    resource: str
    verb: str
    on_lease: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


def _rights(group: str, resource: str, verbs: str, *, on_lease: bool = False) -> tuple[Right, ...]:
    return tuple(Right(group, resource, verb, on_lease) for verb in verbs.split())


RIGHTS = (
    *_rights("karpenter.sh", "nodeclaims", "get list watch patch delete"),
    *_rights("karpenter.sh", "nodeclaims/status", "patch"),
    *_rights("", "nodes", "get list watch patch delete"),
    *_rights("", "pods", "list delete"),
    *_rights("", "pods/eviction", "create"),
    *_rights("storage.k8s.io", "volumeattachments", "list"),
    *_rights("", "persistentvolumeclaims", "get"),
    *_rights("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
    *_rights("", "events", "create get list patch"),
    *_rights("coordination.k8s.io", "leases", "create get patch", on_lease=True),
)
