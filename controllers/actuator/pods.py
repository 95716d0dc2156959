"""Performs the requests of a drain: evictions and deletions of pods, and reads of pods and VolumeAttachments.

Each request has the pod's UID as a precondition, so a new pod of the same name is not affected. Only NotFound of that
pod proves that it is gone: a 404 can be a proxy's and a 409 a webhook's. A refused pod does not stop the requests for
the others; any other error does. Concurrent reads of VolumeAttachments share one LIST; those of pods do as well if the
cluster has few other Nodes.

Source: docs/references/karpenter.md#drain, docs/references/kubernetes.md#eviction,
docs/references/kubernetes.md#volume-attachments.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

import structlog

from controllers.model.diagnosis import PodName
from controllers.model.results import Evicted, ReadAttached, ReadGpuPods, ReadPods
from controllers.model.steps import DeletePods, EvictPods, ReadDrain, ReadVolumes
from controllers.node.termination.pod_digest import drained
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.runtime.kept import identity
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import PERSISTENTVOLUMECLAIMS, PODS, RUNNING_PODS, VOLUMEATTACHMENTS

from .kept import running
from .shared_read import SharedRead

# Pods of several Nodes are read in one LIST if the cluster has at most this many Nodes for each of them.
NODES_PER_READ = 10
SCHEDULED = "spec.nodeName!="

SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

log = structlog.get_logger("pods")


class PodActuator:
    """Writes and reads of drains, through one `Kube`. `nodes`: the number of Nodes of the cluster."""

    def __init__(self, kube: Kube, nodes: Callable[[], float]) -> None:
        self._kube = kube
        self._nodes = nodes
        self._attachments = SharedRead(self._list_attachments)
        self._scheduled = SharedRead(self._list_scheduled)

    async def evict(self, step: EvictPods) -> Evicted:
        """Evict each pod."""
        return await _each(step.pods, self._kube.evict)

    async def delete(self, step: DeletePods) -> Evicted:
        """Delete each pod, bypassing PodDisruptionBudgets."""

        async def delete(pod: Pod) -> None:
            meta = pod.metadata
            await self._kube.delete(
                PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_seconds=step.grace_seconds
            )

        return await _each(step.pods, delete)

    async def restart(self, pod: PodName) -> Evicted:
        """Delete this pod, which its owner creates again, unless it is gone or was replaced. Raises KubeError."""
        try:
            await self._kube.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
        except KubeError as error:
            if not (error.not_found or error.conflict):
                raise
        return Evicted(accepted=frozenset())

    async def count_with_gpus(self, node: str) -> ReadGpuPods:
        """How many pods on this Node request GPUs and run, and the longest grace period of all. Raises KubeError."""
        found = await self._kube.list(RUNNING_PODS, digest=running, field_selector=f"spec.nodeName={node}")
        longest = max((one.spec.termination_grace_period_seconds or 0 for one in found.items), default=0)
        return ReadGpuPods(count=sum(one.with_gpus for one in found.items), grace_seconds=longest)

    async def read_pods(self, step: ReadDrain) -> ReadPods:
        """All pods bound to this Node. Raises KubeError."""
        name = step.node.name
        shared = await self._scheduled.fresh(name)
        if shared is not None:
            return ReadPods(pods=shared.get(name, ()))
        return ReadPods(pods=await self._list_pods(name))

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

    async def read_volumes(self, step: ReadVolumes) -> ReadAttached:
        """All volumes attached to this Node, and those bound to the step's claims. Raises KubeError."""
        attachments = await self._attachments.fresh(step.node.name)
        kept = [await self._volume_of(namespace, name) for namespace, name in step.claims]
        return ReadAttached(
            attachments=tuple(one for one in attachments if one.spec.node_name == step.node.name),
            kept=frozenset(name for name in kept if name),
        )

    async def _list_attachments(self, _: frozenset[str]) -> tuple[VolumeAttachment, ...]:
        return (await self._kube.list(VOLUMEATTACHMENTS, digest=identity)).items

    async def _volume_of(self, namespace: str, name: str) -> str:
        try:
            claim = await self._kube.get(PERSISTENTVOLUMECLAIMS, name, namespace=namespace)
        except KubeError as error:
            if error.not_found:
                return ""
            raise
        return claim.spec.volume_name


async def _each(pods: tuple[Pod, ...], send: Callable[[Pod], Awaitable[None]]) -> Evicted:
    accepted, gone = list[str](), list[str]()
    blocked, failed = dict[str, str](), dict[str, str]()
    for pod in pods:
        uid = pod.metadata.uid
        try:
            await send(pod)
        except KubeError as error:
            if error.not_found and error.named == pod.metadata.name:
                gone.append(uid)
            elif error.status == 429 or (error.status == 500 and SEVERAL_BUDGETS in error.message):
                # The message is the same for every budget; only the causes name the budget.
                blocked[uid] = "; ".join(error.causes) or error.message
            else:
                failed[uid] = str(error)
                log.warning("failed to evict or delete a pod", pod=pod.name, error=str(error))
                if not (error.refused or error.conflict):
                    break
        else:
            accepted.append(uid)
    return Evicted(accepted=frozenset(accepted), gone=frozenset(gone), blocked=blocked, failed=failed)
