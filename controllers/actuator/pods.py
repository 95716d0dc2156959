"""Performs the writes of a drain: evictions and deletions of pods.

Each request has the pod's UID as a precondition, so a new pod of the same name is not affected. Only NotFound of that
pod proves that it is gone: a 404 can be a proxy's and a 409 a webhook's. A refused pod does not stop the requests for
the others; any other error does.

Source: docs/references/karpenter.md#drain, docs/references/kubernetes.md#eviction.
"""

from collections.abc import Awaitable, Callable

import structlog

from controllers.model.diagnosis import PodName
from controllers.model.results import Evicted
from controllers.model.steps import DeletePods, EvictPods
from provisioner.api.pod import Pod
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import PODS

SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

log = structlog.get_logger("pods")


class PodActuator:
    """Writes of drains, through one `Kube`."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def evict(self, step: EvictPods) -> Evicted:
        """Evict each pod."""
        return await _each(step.pods, self._kube.evict)

    async def delete(self, step: DeletePods) -> Evicted:
        """Delete each pod, bypassing PodDisruptionBudgets."""

        async def delete(pod: Pod) -> None:
            meta = pod.metadata
            await self._kube.delete(
                PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_seconds=step.grace_seconds
            )

        return await _each(step.pods, delete)

    async def restart(self, pod: PodName) -> Evicted:
        """Delete this pod, which its owner creates again, unless it is gone or was replaced. Raises KubeError."""
        try:
            await self._kube.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
        except KubeError as error:
            if not (error.not_found or error.conflict):
                raise
        return Evicted(accepted=frozenset())


async def _each(pods: tuple[Pod, ...], send: Callable[[Pod], Awaitable[None]]) -> Evicted:
    accepted, gone = list[str](), list[str]()
    blocked, failed = dict[str, str](), dict[str, str]()
    for pod in pods:
        uid = pod.metadata.uid
        try:
            await send(pod)
        except KubeError as error:
            if error.not_found and error.named == pod.metadata.name:
                gone.append(uid)
            elif error.status == 429 or (error.status == 500 and SEVERAL_BUDGETS in error.message):
                # The message is the same for every budget; only the causes name the budget.
                blocked[uid] = "; ".join(error.causes) or error.message
            else:
                failed[uid] = str(error)
                log.warning("failed to evict or delete a pod", pod=pod.name, error=str(error))
                if not (error.refused or error.conflict):
                    break
        else:
            accepted.append(uid)
    return Evicted(accepted=frozenset(accepted), gone=frozenset(gone), blocked=blocked, failed=failed)
