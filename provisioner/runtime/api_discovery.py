"""Discovery of one resource of the API: its kind, which lists and objects of it have. No I/O.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
"""

from provisioner.api.meta import Struct

from .transport import Request


class ApiResource(Struct, frozen=True, kw_only=True):
    """`name` is the plural, or `plural/subresource`."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False


class ApiResourceList(Struct, frozen=True, kw_only=True):
    """The resources of one version of a group."""

    kind: str = ""
    resources: tuple[ApiResource, ...] = ()


def resources(group: str, version: str) -> Request:
    """A request for the resources of this version of the group; 404 if the group or version is not served."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return Request("get", "GET", path, "discovery", f"discover {group or 'core'}/{version}")
