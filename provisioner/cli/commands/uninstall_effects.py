"""What an uninstall affects without deleting it: the pods on the machines, and the NodeOverlays, which stay.

It is read once, before the question. A caller who may not list pods can uninstall: the output then says so.
"""

from collections.abc import Collection, Iterator

import msgspec

from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.pod import Pod
from provisioner.operator.caches import LIVE_PODS
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODEOVERLAYS, PODS

from .console import counted, table
from .refusal import by_api_server

HEAD = ("POD", "NODE", "OWNER")


class PodItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod on a machine. `owner`: its controller; "" for a pod that nothing creates again.

    `daemon`: it ends with its Node and has no place elsewhere, as a pod of a DaemonSet and a static pod.
    """

    namespace: str
    name: str
    node: str
    owner: str = ""
    daemon: bool = False


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """`pods`, `node_overlays`: None if they are not known; `unread`: why."""

    pods: tuple[PodItem, ...] | None = ()
    node_overlays: tuple[str, ...] | None = ()
    unread: tuple[str, ...] = ()

    @property
    def running(self) -> tuple[PodItem, ...]:
        """The pods that must run elsewhere."""
        return tuple(one for one in self.pods or () if not one.daemon)

    def __str__(self) -> str:
        return (
            counted(len(self.running), "running pod") if self.pods is not None else "an unknown number of running pods"
        )

    def lines(self) -> Iterator[str]:
        """A table of the pods, and what else there is to know."""
        if self.running:
            yield from table(HEAD, [(f"{one.namespace}/{one.name}", one.node, one.owner) for one in self.running])
            yield ""
        if alone := sum(not one.owner for one in self.running):
            yield f"{counted(alone, 'running pod')} without an owner: nothing creates such a pod again."
        if daemons := len(self.pods or ()) - len(self.running):
            yield f"{counted(daemons, 'pod')} of DaemonSets, or static: removed with the Nodes."
        if self.node_overlays:
            names = " ".join(self.node_overlays)
            yield f"{counted(len(self.node_overlays), 'NodeOverlay')} will stay: kubectl delete nodeoverlays {names}"
        yield from self.unread


async def read_effects(kube: Kube, nodes: Collection[str]) -> Effects:
    """`nodes`: the names of the Nodes that would be removed. Raises Refused."""
    unread: list[str] = []
    pods: tuple[PodItem, ...] | None = ()
    overlays: tuple[str, ...] | None = ()
    try:
        if nodes:
            listed = await kube.list(PODS, digest=pod_item, field_selector=f"{LIVE_PODS},spec.nodeName!=")
            pods = tuple(sorted((one for one in listed.items if one.node in nodes), key=_order))
    except KubeError as error:
        pods = None
        unread.append(f"The pods on these machines are not known: {_denied(error)}")
    try:
        overlays = tuple(sorted((await kube.list(NODEOVERLAYS, digest=_name)).items))
    except KubeError as error:
        if error.status != 404:  # the kind is not served
            overlays = None
            unread.append(f"NodeOverlays are not known: {_denied(error)}")
    return Effects(pods=pods, node_overlays=overlays, unread=tuple(unread))


def pod_item(pod: Pod) -> PodItem | None:
    """None for a pod that has ended."""
    meta = pod.metadata
    owner = next((one for one in meta.owner_references if one.controller), None)
    if pod.ended:
        return None
    return PodItem(
        namespace=meta.namespace,
        name=meta.name,
        node=pod.spec.node_name,
        owner=f"{owner.kind} {owner.name}" if owner is not None else "",
        daemon=meta.daemon_set is not None or meta.mirrored_by is not None,
    )


def _order(one: PodItem) -> tuple[str, str]:
    return one.namespace, one.name


def _name(overlay: NodeOverlay) -> str:
    return overlay.name


def _denied(error: KubeError) -> KubeError:
    """Raises Refused for any other failure."""
    if error.status != 403:
        raise by_api_server(error) from None
    return error
