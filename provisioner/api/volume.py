"""The fields of VolumeAttachments and PersistentVolumeClaims that a drain uses.

Source: https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/.
"""

from .meta import ObjectMeta, Struct


class AttachmentSource(Struct, frozen=True, kw_only=True):
    """The name of a PersistentVolume; "" for an inline volume."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Struct, frozen=True, kw_only=True):
    """A volume that is attached, or is being attached, to a Node."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class PersistentVolumeClaimSpec(Struct, frozen=True, kw_only=True):
    """`volume_name` is empty until the claim is bound."""

    volume_name: str = ""


class PersistentVolumeClaim(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
