"""The Pod, as much of it as a drain needs.

Enough to tell which pods must leave a Node, in which order, and which may stay.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/,
docs/references/karpenter.md#pods.
"""

from datetime import datetime

from .meta import ObjectMeta, Struct


class Toleration(Struct, frozen=True, kw_only=True):
    """`operator` is Equal (default) or Exists; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ClaimedVolume(Struct, frozen=True, kw_only=True):
    claim_name: str = ""


class EphemeralVolume(Struct, frozen=True, kw_only=True):
    """Its claim is made for the pod, under the names of both."""


class Volume(Struct, frozen=True, kw_only=True):
    """One of a pod's volumes; all kinds but these two are without a PersistentVolume."""

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
    start_time: datetime | None = None


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
