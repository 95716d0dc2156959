"""Performs writes at the API server as requests.

Each write is conditional on the object that the plan saw (its UID, and the version or the list that it replaces), and
contains only fields that this controller owns. KubeError passes to the caller.

Source: docs/references/rules.md#field-ownership, docs/references/kubernetes.md#writes; tests/cluster/conformance
confirms the latter on a real API server.
"""

from collections.abc import Mapping

from controllers.model.patches import add_keys, replace_list
from controllers.model.results import (
    Evicted,
    Kind,
    Wrote,
)
from controllers.model.steps import (
    AddFinalizer,
    CreateClaim,
    DeleteClaim,
    DeleteNode,
    DeletePods,
    EvictPods,
    KubeWrite,
    PatchClaim,
    PatchNode,
    PatchStatus,
    ReleaseFinalizer,
    RestartPluginPod,
)
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import NODECLAIMS, NODES

from .pods import PodActuator


class KubernetesActuator:
    """Writes through one `Kube`."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._pods = PodActuator(kube)

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


def _same_object(uid: str) -> dict[str, object]:
    """A JSON patch test: the name can belong to another object by now, the UID cannot."""
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def _wrote(kind: Kind, meta: ObjectMeta, claim: NodeClaim | None = None) -> Wrote:
    # Removing the last finalizer of a deleting object deletes it, and the answer lacks the version of the deletion.
    gone = meta.deleting and not meta.finalizers
    left = None if gone else claim
    return Wrote(kind=kind, name=meta.name, uid=meta.uid, resource_version=meta.resource_version, claim=left)
