"""The fields of volumes that drains and scheduling use.

Source: https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/storage-class-v1/.
"""

from .affinity import NodeSelector
from .meta import ObjectMeta, Struct

# Only one pod may use a volume of a claim with this access mode
# (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes).
ONE_POD = "ReadWriteOncePod"
# The volume controller sets it once a claim and its volume are bound to each other
# (https://kubernetes.io/docs/reference/labels-annotations-taints/#pv-kubernetes-io-bind-completed).
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# kube-scheduler names the Node for which the volume of a claim is provisioned, and binds no pod with it to another one
# (https://kubernetes.io/docs/reference/labels-annotations-taints/#volume-kubernetes-io-selected-node).
SELECTED_NODE = "volume.kubernetes.io/selected-node"


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
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaimStatus(Struct, frozen=True, kw_only=True):
    """`phase`: Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def bound(self) -> bool:
        """Whether the binding to its volume is complete; a claim can name a volume before that."""
        return bool(self.spec.volume_name) and (
            self.status.phase == "Bound" or BIND_COMPLETED in self.metadata.annotations
        )

    @property
    def selected_node(self) -> str:
        """The Node for which its volume is being provisioned; "" if there is none."""
        return "" if self.spec.volume_name else self.metadata.annotations.get(SELECTED_NODE, "")


class VolumeNodeAffinity(Struct, frozen=True, kw_only=True):
    """Which Nodes can use the volume; None: all of them."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True, kw_only=True):
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()


class PersistentVolume(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class TopologyLabel(Struct, frozen=True, kw_only=True):
    """The values of one label."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyLabel, ...] = ()


class StorageClass(Struct, frozen=True, kw_only=True):
    """`allowed_topologies`: where volumes are provisioned, any one term suffices; empty: everywhere."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
