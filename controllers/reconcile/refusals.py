"""Pods for which existing Nodes seem to have room, and which kube-scheduler does not place there.

What kube-scheduler compares, and this controller does not, is not known: a plugin, another profile, the state of a
volume. After `BIND_SECONDS` these Nodes are no room for the pod any more, and another machine may be bought for it. One
pod of each shape is tried at a time: if kube-scheduler does not run at all, a machine for each pod would be in vain.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Iterable, Mapping, Sequence

from controllers.provisioning.bought_state import BIND_SECONDS
from controllers.provisioning.pods import CachedPod
from provisioner.api import labels
from provisioner.api.node import Node


class RefusedPods:
    """Pods by UID; times are loop times in seconds. Kept in memory: after a restart the pods wait once more."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._refusing: dict[str, frozenset[str]] = {}

    @property
    def refusing(self) -> Mapping[str, frozenset[str]]:
        """The names of the Nodes that do not take a pod."""
        return self._refusing

    def placed(self, places: Mapping[str, str], pods: Sequence[CachedPod], nodes: Iterable[Node], now: float) -> None:
        """A decision counted on room of Nodes for pods. `places`: by pod; `pods`: all that wait; `nodes`: all."""
        ready = frozenset(node.name for node in nodes if _is_ready(node))
        placed = [pod for pod in pods if not pod.moves and places.get(pod.name) in ready]
        self._since = {pod.metadata.uid: self._since.get(pod.metadata.uid, now) for pod in placed}
        self._refusing = {
            pod.metadata.uid: self._refusing[pod.metadata.uid] for pod in pods if pod.metadata.uid in self._refusing
        }
        tried = {pod.shape for pod in pods if pod.metadata.uid in self._refusing}
        for pod in placed:
            uid = pod.metadata.uid
            if now - self._since[uid] >= BIND_SECONDS and (uid in self._refusing or pod.shape not in tried):
                self._refusing[uid] = ready
                tried.add(pod.shape)


def _is_ready(node: Node) -> bool:
    """Whether pods can be bound to it: it is initialized, or no NodeClaim of ours created it."""
    return labels.CLAIM_UID not in node.metadata.labels or node.metadata.labels.get(labels.INITIALIZED) == "true"
