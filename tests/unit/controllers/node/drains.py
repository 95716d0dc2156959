"""Builders of pods, volumes and drains for plan tables."""

from datetime import timedelta
from typing import Any

import msgspec

from controllers.model.drains import Drain, Volumes
from controllers.model.facts import Facts
from controllers.model.steps import Step
from controllers.node.termination.cordon import DISRUPTED
from controllers.planner.plan import plan
from controllers.planner.status import termination_conditions
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import ClaimedVolume, Pod, PodSpec, PodStatus, Toleration, Volume
from provisioner.api.volume import AttachmentSource, VolumeAttachment, VolumeAttachmentSpec
from tests.unit.builders import NODE, NOW, UP, claim, facts, instance, node

Seconds = float
GOING = claim(up=UP, node_name=NODE, deleting=True)
EVERYTHING = (Toleration(operator="Exists"),)


def pod(
    name: str = "p",
    *,
    daemon: bool = False,
    critical: bool = False,
    mirror: bool = False,
    annotations: dict[str, str] | None = None,
    going_in: Seconds | None = None,
    grace: int | None = 30,
    started: Seconds | None = 600.0,
    phase: str = "Running",
    volume: str = "",
    tolerations: tuple[Toleration, ...] = (),
) -> Pod:
    """`going_in`: deletionTimestamp in seconds from NOW; `started`: seconds ago; `volume`: its claim."""
    owners = [OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="d")] if daemon else []
    if mirror:
        owners.append(OwnerReference(api_version="v1", kind="Node", name=NODE, uid="n"))
    uses = (Volume(name="v", persistent_volume_claim=ClaimedVolume(claim_name=volume)),) if volume else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            annotations=annotations or {},
            owner_references=tuple(owners),
            deletion_timestamp=None if going_in is None else NOW + timedelta(seconds=going_in),
        ),
        spec=PodSpec(
            node_name=NODE,
            priority_class_name="system-node-critical" if critical else "",
            termination_grace_period_seconds=grace,
            tolerations=tolerations,
            volumes=uses,
        ),
        status=PodStatus(phase=phase, start_time=None if started is None else NOW - timedelta(seconds=started)),
    )


def attachment(volume: str, node_name: str = NODE) -> VolumeAttachment:
    spec = VolumeAttachmentSpec(node_name=node_name, source=AttachmentSource(persistent_volume_name=volume))
    return VolumeAttachment(metadata=ObjectMeta(name=f"csi-{volume}"), spec=spec)


def drained(*pods: Pod, volumes: Volumes | None = None, **fields: Any) -> dict[str, Drain]:
    """The default Node's drain, just read, with its volumes unless given."""
    read = Drain(pods=pods, read_at=-0.1, began_at=-30.0, volumes=volumes or Volumes(read_at=-0.1))
    return {f"node-{NODE}": msgspec.structs.replace(read, **fields)}


def cordoned() -> Node:
    """A deleting Node that is already tainted."""
    made = node(deleting=True, more_labels={labels.EXCLUDE_BALANCERS: "karpenter"})
    spec = msgspec.structs.replace(made.spec, taints=(*made.spec.taints, DISRUPTED))
    return msgspec.structs.replace(made, spec=spec)


def emptying(*pods: Pod, going: NodeClaim = GOING, volumes: Volumes | None = None, **fields: Any) -> Facts:
    """A deleting claim with a running pool and a tainted Node with these pods; `fields` are the Drain's."""
    drains = drained(*pods, volumes=volumes, **fields)
    return facts(claims=(going,), instance=instance(), nodes=(cordoned(),), drains=drains)


def step(*pods: Pod, **known: Any) -> Step:
    """The next step."""
    return plan(emptying(*pods, **known))


def says(known: Facts, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of the condition; empty strings without one."""
    (going, *_) = known.claims
    updates = termination_conditions(known, going).get(kind)
    return (updates.status, updates.reason, updates.text) if updates is not None else ("", "", "")
