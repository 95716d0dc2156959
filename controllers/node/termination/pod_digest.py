"""What a drain keeps of a pod that it read: the fields that its rules use, each bounded.

Any tenant can create pods of a megabyte on any Node. Tests compare the rules for a pod with those for its digest.
"""

import msgspec

from provisioner.api import labels
from provisioner.api.meta import EMPTY, OwnerReference
from provisioner.api.pod import Pod, PodSpec, PodStatus, Volume

from .pod_predicates import has_claim, tolerates_disruption

# More than a VM can attach.
VOLUMES_MAX = 100
# No PersistentVolumeClaim has a longer name.
NAME_CHARACTERS = 253
# No duration that anyone writes is longer; one that is cut is not valid, which an Event says.
ANNOTATION_CHARACTERS = 256


def drained(found: Pod) -> Pod:
    """The pod as drains keep it; `ObjectMeta.unreadable` names what was left out although rules would use it."""
    meta, spec = found.metadata, found.spec
    volumes = _volumes(spec.volumes)
    left_out = [f"spec.volumes: at most {VOLUMES_MAX} are kept of one pod"] if len(volumes) > VOLUMES_MAX else []
    note = meta.annotations.get(labels.DO_NOT_DISRUPT)
    kept = msgspec.structs.replace(
        meta.identity(*left_out),
        annotations=EMPTY if note is None else {labels.DO_NOT_DISRUPT: _cut(note)},
        owner_references=tuple(
            OwnerReference(api_version=one.api_version[:NAME_CHARACTERS], kind=one.kind, name="", uid="")
            for one in (meta.daemon_set, meta.mirrored_by)
            if one is not None
        ),
    )
    return Pod(
        metadata=kept,
        spec=PodSpec(
            node_name=spec.node_name,
            tolerations=tuple(filter(tolerates_disruption, spec.tolerations))[:1],
            priority_class_name=spec.priority_class_name,
            termination_grace_period_seconds=spec.termination_grace_period_seconds,
            volumes=volumes[:VOLUMES_MAX],
        ),
        status=PodStatus(phase=found.status.phase, start_time=found.status.start_time),
    )


def _volumes(found: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Those with a PersistentVolumeClaim that can exist, one for each claim."""
    claimed = {one.persistent_volume_claim or one.name: one for one in found if has_claim(one)}
    return tuple(
        one
        for one in claimed.values()
        if one.persistent_volume_claim is None or len(one.persistent_volume_claim.claim_name) <= NAME_CHARACTERS
    )


def _cut(text: str) -> str:
    return text if len(text) <= ANNOTATION_CHARACTERS else f"{text[:ANNOTATION_CHARACTERS]}…"
