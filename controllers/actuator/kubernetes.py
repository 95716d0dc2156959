"""Performs steps at the API server as requests.

Each write is conditional on the object that the plan saw (its UID, and the version or the list that it replaces), and
contains only fields that this controller owns. KubeError passes to the caller.

Source: docs/references/rules.md#field-ownership, docs/references/kubernetes.md#writes; tests/cluster/conformance
confirms the latter on a real API server.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from controllers.model.facts import Remedy, Stage
from controllers.model.patches import add_keys, replace_list
from controllers.model.results import (
    DeletionPossible,
    Evicted,
    Kind,
    ReadAttached,
    ReadClaim,
    ReadClaims,
    ReadCrds,
    ReadDevices,
    ReadEvents,
    ReadFailed,
    ReadGpuPods,
    ReadNodes,
    ReadPods,
    ReadStorage,
    ReadWorkloads,
    Wrote,
)
from controllers.model.steps import (
    AddFinalizer,
    CountGpuPods,
    CreateClaim,
    DeleteClaim,
    DeleteNode,
    DeletePods,
    EvictPods,
    KubeWrite,
    LookUpClaim,
    LookUpNodes,
    LookUpWorkloads,
    PatchClaim,
    PatchNode,
    PatchStatus,
    ReadDrain,
    ReadFailedPods,
    ReadRemedies,
    ReadVolumes,
    ReleaseFinalizer,
    RestartPluginPod,
    TryDeletion,
)
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kept import identity, whole
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.objects import CustomResourceDefinition, Event
from provisioner.runtime.resources import CRDS, EVENTS, NODECLAIMS, NODES, WORKLOAD_PODS

from .devices import read_devices
from .kept import rejected
from .pods import PodActuator
from .shared_read import SharedRead
from .storage import read_storage
from .workloads import WorkloadReader

# The source of the Events of AKS node auto-repair, and the ends of their reasons: NodeRebootStart, NodeReimageEnd, …
AUTO_REPAIR = "aks-auto-repair"
STAGES: tuple[Stage, ...] = ("Start", "End", "Error")


class KubernetesActuator:
    """Writes and reads at the API server, through one `Kube`. `nodes`: the number of Nodes of the cluster."""

    def __init__(self, kube: Kube, nodes: Callable[[], float] = lambda: math.inf) -> None:
        self._kube = kube
        self._pods = PodActuator(kube, nodes)
        self._crds = SharedRead(self._read_crds)
        self._workloads = WorkloadReader(kube)

    async def write(self, step: KubeWrite) -> Wrote | Evicted:
        """Perform one write. Raises KubeError."""
        match step:
            case AddFinalizer(claim=claim):
                finalizers = (*claim.metadata.finalizers, labels.FINALIZER)
                known = add_keys("/metadata/labels", claim.metadata.labels, step.labels)
                return await self._finalizers(claim, finalizers, *known)
            case ReleaseFinalizer(target=target):
                kept = tuple(f for f in target.metadata.finalizers if f != labels.FINALIZER)
                return await self._finalizers(target, kept)
            case PatchClaim():
                return await self._metadata_of_claim(step)
            case PatchStatus():
                return await self._status(step)
            case PatchNode(node=node, patch=patch):
                operations = [_same_object(node.uid), *patch]
                patched = await self._kube.patch(NODES, node.name, operations, patch_type="json")
                return _wrote("node", patched.metadata)
            case DeleteNode(node=node):
                await self._kube.delete(NODES, node.name, uid=node.uid)
                return Wrote(kind="node", name=node.name, uid=node.uid, resource_version="")
            case DeleteClaim(claim=claim):
                await self._kube.delete(NODECLAIMS, claim.name, uid=claim.uid)
                return Wrote(kind="claim", name=claim.name, uid=claim.uid, resource_version="")
            case CreateClaim(manifest=manifest):
                created = await self._kube.create(NODECLAIMS, manifest)
                return _wrote("claim", created.metadata, created)
            case EvictPods():
                return await self._pods.evict(step)
            case DeletePods():
                return await self._pods.delete(step)
            case RestartPluginPod(pod=pod):
                return await self._pods.restart(pod)

    async def _finalizers(
        self, target: NodeClaim | Node, finalizers: tuple[str, ...], *more: Mapping[str, object]
    ) -> Wrote:
        change = replace_list("/metadata/finalizers", target.metadata.finalizers, finalizers)
        operations = [_same_object(target.uid), *change, *more]
        if isinstance(target, Node):
            node = await self._kube.patch(NODES, target.name, operations, patch_type="json")
            return _wrote("node", node.metadata)
        claim = await self._kube.patch(NODECLAIMS, target.name, operations, patch_type="json")
        return _wrote("claim", claim.metadata, claim)

    async def _metadata_of_claim(self, step: PatchClaim) -> Wrote:
        claim = step.claim
        metadata: dict[str, object] = {"uid": claim.uid}
        if step.labels:
            metadata["labels"] = dict(step.labels)
        if step.annotations:
            # A concurrent write of the same annotation wins: this write requires the version that lacks it.
            metadata |= {"annotations": dict(step.annotations), "resourceVersion": claim.metadata.resource_version}
        answer = await self._kube.patch(NODECLAIMS, claim.name, {"metadata": metadata}, patch_type="merge")
        return _wrote("claim", answer.metadata, answer)

    async def _status(self, step: PatchStatus) -> Wrote:
        # The write replaces the whole list of conditions, so it requires the version that it was computed from.
        claim = step.claim
        metadata = {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}
        body = {"metadata": metadata, "status": {**step.fields, "conditions": list(step.conditions)}}
        answer = await self._kube.patch(NODECLAIMS, claim.name, body, patch_type="merge", subresource="status")
        return _wrote("claim", answer.metadata, answer)

    async def try_deletion(self, step: TryDeletion) -> DeletionPossible:
        """A deletion that changes nothing, with the same precondition. Raises KubeError."""
        await self._kube.delete(NODECLAIMS, step.claim.name, uid=step.claim.uid, dry_run=True)
        return DeletionPossible()

    async def read_claim(self, step: LookUpClaim) -> ReadClaim:
        """The current claim; None if the API server answers 404."""
        try:
            return ReadClaim(claim=await self._kube.get(NODECLAIMS, step.name))
        except KubeError as error:
            if error.not_found:
                return ReadClaim(claim=None)
            raise

    async def read_claims(self) -> ReadClaims:
        """The current claims of all NodePools."""
        return ReadClaims(
            claims=(await self._kube.list(NODECLAIMS, digest=whole, label_selector=labels.NODEPOOL)).items
        )

    async def read_storage(self, claims: frozenset[str]) -> ReadStorage:
        """These PersistentVolumeClaims (`namespace/name`), with their volumes and StorageClasses."""
        return ReadStorage(storage=await read_storage(self._kube, claims))

    async def read_devices(self, templates: frozenset[str]) -> ReadDevices:
        """All ResourceClaims and DeviceClasses, with these ResourceClaimTemplates."""
        return ReadDevices(devices=await read_devices(self._kube, templates))

    async def read_crds(self, names: Iterable[str]) -> ReadCrds:
        """The CRDs of these names as they are now."""
        return ReadCrds(crds={name: (await self._crds.fresh(name)).crds[name] for name in names})

    async def _read_crds(self, names: frozenset[str]) -> ReadCrds:
        found = dict[str, CustomResourceDefinition | None]()
        for name in sorted(names):
            # A LIST, since the role must allow it for the cache anyway.
            listed = await self._kube.list(CRDS, digest=whole, field_selector=f"metadata.name={name}")
            found[name] = next((crd for crd in listed.items if crd.metadata.name == name), None)
        return ReadCrds(crds=found)

    async def read_nodes(self, step: LookUpNodes) -> ReadNodes:
        """All Nodes with this pool's label."""
        found = await self._kube.list(NODES, digest=whole, label_selector=f"{labels.AKS_AGENTPOOL}={step.pool}")
        return ReadNodes(nodes=found.items)

    async def read_remedies(self, step: ReadRemedies) -> ReadEvents:
        """The Events of AKS node auto-repair about this Node, by time. Events about Nodes are in `default`."""
        about = f"involvedObject.kind=Node,involvedObject.name={step.node.name},source={AUTO_REPAIR}"
        try:
            found = await self._kube.list(EVENTS, digest=_with_stage, field_selector=about, namespace="default")
        except KubeError as error:
            if error.status == 403:
                return ReadEvents(remedies=None)
            raise
        found_remedies = [remedy for event in found.items if (remedy := _remedy(event)) is not None]
        return ReadEvents(
            remedies=tuple(sorted(found_remedies, key=lambda remedy: (remedy.at, remedy.stage != "Start")))
        )

    async def read_workloads(self, step: LookUpWorkloads | ReadFailedPods) -> ReadWorkloads | ReadFailed:
        """The pods on this Node and the DaemonSets of the cluster, or the pods on it that have failed."""
        if isinstance(step, LookUpWorkloads):
            return ReadWorkloads(workloads=await self._workloads.read(step))
        about = f"status.phase=Failed,spec.nodeName={step.node.name}"
        return ReadFailed(pods=(await self._kube.list(WORKLOAD_PODS, digest=rejected, field_selector=about)).items)

    async def count_gpu_pods(self, step: CountGpuPods) -> ReadGpuPods:
        """How many pods on this Node request GPUs and run, and the longest grace period there. Raises KubeError."""
        return await self._pods.count_with_gpus(step.node.name)

    async def read_pods(self, step: ReadDrain) -> ReadPods:
        """All pods bound to this Node."""
        return await self._pods.read_pods(step)

    async def read_volumes(self, step: ReadVolumes) -> ReadAttached:
        """All volumes attached to this Node."""
        return await self._pods.read_volumes(step)


def _remedy(event: Event) -> Remedy | None:
    stage = next((stage for stage in STAGES if event.reason.endswith(stage)), None)
    at = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return Remedy(stage=stage, at=at) if stage is not None else None


def _with_stage(event: Event) -> Event | None:
    """What `_remedy` reads."""
    return None if _remedy(event) is None else msgspec.structs.replace(identity(event), message="")


def _same_object(uid: str) -> dict[str, object]:
    """A JSON patch test: the name can belong to another object by now, the UID cannot."""
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def _wrote(kind: Kind, meta: ObjectMeta, claim: NodeClaim | None = None) -> Wrote:
    # Removing the last finalizer of a deleting object deletes it, and the answer lacks the version of the deletion.
    gone = meta.deleting and not meta.finalizers
    left = None if gone else claim
    return Wrote(kind=kind, name=meta.name, uid=meta.uid, resource_version=meta.resource_version, claim=left)
