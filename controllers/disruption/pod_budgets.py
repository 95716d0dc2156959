"""Which PodDisruptionBudgets concern a pod, and whether they permit its eviction.

Source: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-budgets,
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/utils/pdb/pdb.go.
"""

from collections.abc import Iterable

from controllers.provisioning.pods import CachedPod
from controllers.provisioning.podspecs import label_selector
from controllers.provisioning.solver.model import EVERYTHING, LabelSelector, PodSpec
from provisioner.api.poddisruptionbudget import PodDisruptionBudget

ALWAYS_ALLOW = "AlwaysAllow"


class PodBudgets:
    """All PodDisruptionBudgets of a cluster at one time."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._by_namespace: dict[str, list[tuple[LabelSelector, PodDisruptionBudget]]] = {}
        for one in sorted(budgets, key=lambda one: one.name):
            self._by_namespace.setdefault(one.metadata.namespace, []).append((_selector(one), one))
        # Pods of one workload share their constraints; these are kept, so that an id is not used twice.
        self._known: dict[int, tuple[PodSpec, tuple[PodDisruptionBudget, ...]]] = {}

    def of(self, pod: CachedPod) -> tuple[PodDisruptionBudget, ...]:
        """Those that select the pod."""
        if (found := self._known.get(id(pod.constraints))) is not None:
            return found[1]
        candidates = self._by_namespace.get(pod.metadata.namespace or "default", ())
        matching = tuple(one for selector, one in candidates if selector.matches(pod.constraints.labels))
        self._known[id(pod.constraints)] = pod.constraints, matching
        return matching

    def blocking(self, pod: CachedPod) -> tuple[PodDisruptionBudget, ...]:
        """Those that prevent the eviction of the pod now: the API server evicts no pod that has two."""
        found = self.of(pod)
        if len(found) > 1:
            return found
        return tuple(one for one in found if not one.allowed and (pod.ready or not _passes_unhealthy(one)))


def _passes_unhealthy(budget: PodDisruptionBudget) -> bool:
    return budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW


def _selector(budget: PodDisruptionBudget) -> LabelSelector:
    """A budget that cannot be read whole is taken to select every pod."""
    if budget.metadata.unreadable:
        return EVERYTHING
    try:
        return label_selector(budget.spec.selector)
    except ValueError:
        return EVERYTHING
