"""Fresh reads at the API server, for decisions that a cache must not answer. KubeError passes to the caller."""

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from controllers.model.diagnosis import Workloads
from controllers.model.facts import Remedy, Stage
from controllers.model.results import ReadAttached, ReadGpuPods
from controllers.model.steps import LookUpWorkloads, ReadVolumes
from controllers.model.storage import DeviceClaims, Storage
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.runtime.kept import identity, whole
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.objects import CustomResourceDefinition, Event
from provisioner.runtime.resources import CRDS, EVENTS, NODECLAIMS, NODES, PODS

from .devices import read_devices
from .kept import rejected
from .pod_reads import PodReads
from .shared_read import SharedRead
from .storage import read_storage
from .workloads import WorkloadReader

# The source of the Events of AKS node auto-repair, and the ends of their reasons: NodeRebootStart, NodeReimageEnd, …
AUTO_REPAIR = "aks-auto-repair"
STAGES: tuple[Stage, ...] = ("Start", "End", "Error")


class KubernetesReads:
    """Reads through one `Kube`. Each method raises KubeError.

    `instance_label`: as in `Cloud`. `nodes`: the number of Nodes of the cluster.
    """

    def __init__(self, kube: Kube, instance_label: str, nodes: Callable[[], float] = lambda: math.inf) -> None:
        self.instance_label = instance_label
        self._kube = kube
        self._pods = PodReads(kube, nodes)
        self._crds = SharedRead(self._list_crds)
        self._workloads = WorkloadReader(kube)

    async def try_deletion(self, claim: NodeClaim) -> None:
        """A DELETE that is a dry run: admission policies answer it. It has the precondition of the real one."""
        await self._kube.delete(NODECLAIMS, claim.name, uid=claim.uid, dry_run=True)

    async def claim(self, name: str) -> NodeClaim | None:
        """The NodeClaim, which need not be in the cache; None if the API server answers 404."""
        return await self._kube.find(NODECLAIMS, name)

    async def claims(self) -> tuple[NodeClaim, ...]:
        """The NodeClaims of all NodePools."""
        return (await self._kube.list(NODECLAIMS, digest=whole, label_selector=labels.NODEPOOL)).items

    async def storage(self, claims: frozenset[str]) -> Storage:
        """These PersistentVolumeClaims (`namespace/name`), with their volumes and StorageClasses."""
        return await read_storage(self._kube, claims)

    async def devices(self, templates: frozenset[str]) -> DeviceClaims:
        """All ResourceClaims and DeviceClasses, with these ResourceClaimTemplates (`namespace/name`)."""
        return await read_devices(self._kube, templates)

    async def crds(self, names: Iterable[str]) -> Mapping[str, CustomResourceDefinition | None]:
        """The CRDs of these names; None: it does not exist."""
        return {name: (await self._crds.fresh(name))[name] for name in names}

    async def _list_crds(self, names: frozenset[str]) -> Mapping[str, CustomResourceDefinition | None]:
        # A GET, which unlike a LIST of a kind that does not change is answered at once.
        return {name: await self._kube.find(CRDS, name) for name in sorted(names)}

    async def nodes(self, pool: str) -> tuple[Node, ...]:
        """All Nodes with this agent pool's label."""
        return (await self._kube.list(NODES, digest=whole, label_selector=f"{self.instance_label}={pool}")).items

    async def remedies(self, node: Node) -> tuple[Remedy, ...] | None:
        """The Events of AKS node auto-repair about this Node, by time; None: the API server does not allow the read.

        Events about Nodes are in `default`.
        """
        about = f"involvedObject.kind=Node,involvedObject.name={node.name},source={AUTO_REPAIR}"
        try:
            found = await self._kube.list(EVENTS, digest=_with_stage, field_selector=about, namespace="default")
        except KubeError as error:
            if error.status == 403:
                return None
            raise
        remedies = [remedy for event in found.items if (remedy := _remedy(event)) is not None]
        return tuple(sorted(remedies, key=lambda remedy: (remedy.at, remedy.stage != "Start")))

    async def workloads(self, step: LookUpWorkloads) -> Workloads:
        """The pods on this Node and the DaemonSets of the cluster; without them if they cannot be read."""
        return await self._workloads.read(step)

    async def failed_pods(self, node: Node) -> tuple[Pod, ...]:
        """The pods on this Node that have failed."""
        about = f"status.phase=Failed,spec.nodeName={node.name}"
        return (await self._kube.list(PODS, digest=rejected, field_selector=about)).items

    async def gpu_pods(self, node: Node) -> ReadGpuPods:
        """How many pods on this Node request GPUs and run, and the longest grace period there."""
        return await self._pods.count_with_gpus(node.name)

    async def pods(self, node: Node) -> tuple[Pod, ...]:
        """All pods bound to this Node."""
        return await self._pods.on(node.name)

    async def attachments(self, node: Node) -> tuple[VolumeAttachment, ...]:
        """All VolumeAttachments of this Node."""
        return await self._pods.attached_to(node.name)

    async def volumes(self, step: ReadVolumes) -> ReadAttached:
        """All volumes attached to this Node."""
        return await self._pods.volumes(step)


def _remedy(event: Event) -> Remedy | None:
    stage = next((stage for stage in STAGES if event.reason.endswith(stage)), None)
    at = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return Remedy(stage=stage, at=at) if stage is not None else None


def _with_stage(event: Event) -> Event | None:
    """What `_remedy` reads."""
    return None if _remedy(event) is None else msgspec.structs.replace(identity(event), message="")
