"""What the reads of the actuator keep of objects of tenants: the fields that their users read, within budgets of bytes.

Source: docs/adr/0066-budget-of-each-object.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from controllers.node.health.admission_errors import is_rejected
from controllers.node.health.plugins import may_offer_gpus
from provisioner.api.affinity import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm
from provisioner.api.bounded_digest import BoundedDigest
from provisioner.api.deviceclaim import ResourceClaim, ResourceClaimTemplate
from provisioner.api.gpu_pods import uses_gpus
from provisioner.api.meta import OwnerReference
from provisioner.api.pod import Pod, PodSpec
from provisioner.api.volume import BIND_COMPLETED, ONE_POD, SELECTED_NODE, PersistentVolumeClaim
from provisioner.api.workload import DaemonSet
from provisioner.runtime.resources import NAME_CHARACTERS

OWNERS_MAX, TERMS_MAX, UID_CHARACTERS = 10, 10, 64


class PodUse(NamedTuple):
    """A pod that has not ended: its grace period in seconds, and whether it uses GPUs."""

    grace_seconds: int
    with_gpus: bool


def running(found: Pod) -> PodUse | None:
    """None for a pod that has ended."""
    if found.ended:
        return None
    return PodUse(found.spec.termination_grace_period_seconds or 0, uses_gpus(found))


def rejected(found: Pod) -> Pod | None:
    """The status of a pod that the kubelet rejected, and its controller."""
    return _without_spec(found, lambda one: bool(one.controller)) if is_rejected(found) else None


def on_node(found: Pod) -> Pod:
    """The status of a pod, and the DaemonSets that own it."""
    return _without_spec(found)


def unbound(found: Pod) -> Pod | None:
    """A pod of a DaemonSet, with the Node that it was created for."""
    kept = _without_spec(found)
    if not kept.metadata.owner_references:
        return None
    affinity = found.spec.affinity.node_affinity.required if found.spec.affinity is not None else None
    terms = affinity.node_selector_terms if affinity is not None else ()
    fields = tuple(NodeSelectorTerm(match_fields=one.match_fields[:1]) for one in terms if one.match_fields)
    nodes = NodeAffinity(required=NodeSelector(node_selector_terms=fields[:TERMS_MAX]))
    return msgspec.structs.replace(kept, spec=PodSpec(affinity=Affinity(node_affinity=nodes)))


def _without_spec(found: Pod, keeps: Callable[[OwnerReference], bool] = lambda one: one.is_daemon_set) -> Pod:
    """`keeps`: which owners are kept."""
    owners = [one for one in found.metadata.owner_references if keeps(one)][:OWNERS_MAX]
    references = tuple(
        msgspec.structs.replace(one, api_version="", name="", uid=one.uid[:UID_CHARACTERS]) for one in owners
    )
    meta = msgspec.structs.replace(found.metadata.identity(), owner_references=references)
    return Pod(metadata=meta, spec=PodSpec(node_name=found.spec.node_name), status=found.status)


def plugins() -> Callable[[DaemonSet], DaemonSet | None]:
    """DaemonSets that may offer GPUs. One that is too large to be kept is none."""
    digest = BoundedDigest()

    def kept(found: DaemonSet) -> DaemonSet | None:
        if not may_offer_gpus(found):
            return None
        one = digest(found)
        return None if one.metadata.unreadable else one

    return kept


def resource_claims() -> Callable[[ResourceClaim], ResourceClaim]:
    """Claims with the devices that they have; one that is too large lacks what it requests, and says so."""
    digest = BoundedDigest()

    def kept(found: ResourceClaim) -> ResourceClaim:
        one = digest(found)
        return msgspec.structs.replace(one, status=found.status) if one.metadata.unreadable else one

    return kept


def resource_claim_templates() -> Callable[[ResourceClaimTemplate], ResourceClaimTemplate]:
    """Templates; one that is too large lacks what it requests, and says so."""
    return BoundedDigest()


def volume_claim(found: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """A claim with the volume and class, the Node for which the volume is provisioned, and whether one pod uses it
    alone and its binding is complete.
    """
    meta, spec = found.metadata, found.spec
    kept = (BIND_COMPLETED, SELECTED_NODE)
    notes = {key: meta.annotations[key][:NAME_CHARACTERS] for key in kept if key in meta.annotations}
    modes = (ONE_POD,) if ONE_POD in spec.access_modes else ()
    return msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(meta.identity(), annotations=notes),
        spec=msgspec.structs.replace(spec, access_modes=modes),
    )
