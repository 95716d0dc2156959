"""The fields of a Pod that a drain uses; others are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/,
docs/references/karpenter.md#pods.
"""

from .meta import ObjectMeta, Struct, Time


class Toleration(Struct, frozen=True, kw_only=True):
    """`operator` is Equal (default) or Exists; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ClaimedVolume(Struct, frozen=True, kw_only=True):
    claim_name: str = ""


class EphemeralVolume(Struct, frozen=True, kw_only=True):
    """A volume whose PersistentVolumeClaim is named `<pod>-<volume>`."""


class Volume(Struct, frozen=True, kw_only=True):
    """A volume of a pod; only these two kinds have a PersistentVolumeClaim."""

    name: str = ""
    persistent_volume_claim: ClaimedVolume | None = None
    ephemeral: EphemeralVolume | None = None


class PodSpec(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    volumes: tuple[Volume, ...] = ()


class PodStatus(Struct, frozen=True, kw_only=True):
    phase: str = ""
    start_time: Time | None = None


class Pod(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """`namespace/name`, unique in the cluster at one time."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
