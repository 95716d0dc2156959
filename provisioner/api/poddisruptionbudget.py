"""The fields of a PodDisruptionBudget that disruption uses; others are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/.
"""

from .affinity import LabelSelector
from .meta import ObjectMeta, Struct


class PodDisruptionBudgetSpec(Struct, frozen=True, kw_only=True):
    """`selector`: an empty one selects every pod of the namespace, none at all selects no pod."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Struct, frozen=True, kw_only=True):
    disruptions_allowed: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def allowed(self) -> int:
        """How many pods may be evicted now; a status of an older generation allows none."""
        current = self.status.observed_generation >= self.metadata.generation
        return self.status.disruptions_allowed if current else 0
