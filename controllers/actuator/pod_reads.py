"""Fresh reads for a drain: pods of Nodes, and VolumeAttachments.

Concurrent reads of VolumeAttachments share one LIST; those of pods do as well if the cluster has few other Nodes.

Source: docs/references/karpenter.md#drain, docs/references/kubernetes.md#volume-attachments.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from controllers.model.results import ReadAttached, ReadGpuPods
from controllers.model.steps import ReadVolumes
from controllers.node.termination.pod_digest import drained
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.runtime.kept import identity
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import PERSISTENTVOLUMECLAIMS, PODS, VOLUMEATTACHMENTS

from .kept import running
from .shared_read import SharedRead

# Pods of several Nodes are read in one LIST if the cluster has at most this many Nodes for each of them.
NODES_PER_READ = 10
SCHEDULED = "spec.nodeName!="


class PodReads:
    """Reads through one `Kube`. `nodes`: the number of Nodes of the cluster."""

    def __init__(self, kube: Kube, nodes: Callable[[], float]) -> None:
        self._kube = kube
        self._nodes = nodes
        self._attachments = SharedRead(self._list_attachments)
        self._scheduled = SharedRead(self._list_scheduled)

    async def count_with_gpus(self, node: str) -> ReadGpuPods:
        """How many pods on this Node request GPUs and run, and the longest grace period of all. Raises KubeError."""
        found = await self._kube.list(PODS, digest=running, field_selector=f"spec.nodeName={node}")
        longest = max((one.grace_seconds for one in found.items), default=0)
        return ReadGpuPods(count=sum(one.with_gpus for one in found.items), grace_seconds=longest)

    async def on(self, node: str) -> tuple[Pod, ...]:
        """All pods bound to this Node. Raises KubeError."""
        shared = await self._scheduled.fresh(node)
        return shared.get(node, ()) if shared is not None else await self._list_pods(node)

    async def _list_pods(self, node: str) -> tuple[Pod, ...]:
        return (await self._kube.list(PODS, digest=drained, field_selector=f"spec.nodeName={node}")).items

    async def _list_scheduled(self, nodes: frozenset[str]) -> Mapping[str, tuple[Pod, ...]] | None:
        """The pods of these Nodes, by Node, from one LIST of all scheduled pods; None if most are of other Nodes."""
        if len(nodes) == 1:
            (name,) = nodes
            return {name: await self._list_pods(name)}
        if self._nodes() > NODES_PER_READ * len(nodes):
            return None

        def of_these(pod: Pod) -> Pod | None:
            return drained(pod) if pod.spec.node_name in nodes else None

        found = defaultdict[str, tuple[Pod, ...]](tuple)
        for pod in (await self._kube.list(PODS, digest=of_these, field_selector=SCHEDULED)).items:
            found[pod.spec.node_name] += (pod,)
        return found

    async def volumes(self, step: ReadVolumes) -> ReadAttached:
        """All volumes attached to this Node, and those bound to the step's claims. Raises KubeError."""
        attachments = await self.attached_to(step.node.name)
        kept = [await self._volume_of(claim) for claim in step.claims]
        return ReadAttached(attachments=attachments, kept=frozenset(name for name in kept if name))

    async def attached_to(self, node: str) -> tuple[VolumeAttachment, ...]:
        """All VolumeAttachments of this Node. Raises KubeError."""
        return tuple(one for one in await self._attachments.fresh(node) if one.spec.node_name == node)

    async def _list_attachments(self, _: frozenset[str]) -> tuple[VolumeAttachment, ...]:
        return (await self._kube.list(VOLUMEATTACHMENTS, digest=identity)).items

    async def _volume_of(self, claim_name: str) -> str:
        namespace, _, name = claim_name.partition("/")
        claim = await self._kube.find(PERSISTENTVOLUMECLAIMS, name, namespace=namespace)
        return claim.spec.volume_name if claim is not None else ""
