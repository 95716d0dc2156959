"""The purchase brake: at most two machines that become Ready are bought for one pod before it runs, whatever the cause.

An instance type that did not take a pod is not bought for pods of that shape again from that NodePool. After the
second machine a pod waits until it, its NodePool or the node class changes; new pods of the shape wait for 10 minutes,
doubling to 6 hours. New shapes of a namespace wait likewise after many rounds of machines that took no pods of it.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from provisioner.api.nodeclass import Misfit, ObservedType

from .assessment import Assessment
from .brake_folding import by_namespace
from .brake_records import MACHINES_MAX, Index, Misfits, bought, retry_at, retry_scope_at
from .pods import CachedPod
from .solver import model

OLD_CRD = "its node class does not store what was bought: upgrade the chart gpu-provisioner-crd"
NOT_WRITTEN = "its node class cannot be written, so that a restart would lose what was bought"


class Brake(NamedTuple):
    """What is known when a decision begins. `records`: of all NodePools that have not changed since.

    `scopes`: what they state together for a namespace, where new shapes may have to wait; "": for many namespaces.
    `unproven`: the machines of each NodePool that are not initialized, with the shapes they were bought for.
    `learned`: what Nodes of each node class offered. `refusing`: Nodes on which kube-scheduler does not place a pod for
    which they seem to have room, by the UID of the pod. `unstored`: why records of these NodePools are not stored.
    """

    records: Index
    scopes: Mapping[str, Misfits]
    assessed: Assessment
    now: datetime
    unproven: Mapping[str, Mapping[str, frozenset[str]]] = {}
    learned: Mapping[str, tuple[ObservedType, ...]] = {}
    refusing: Mapping[str, frozenset[str]] = {}
    unstored: Mapping[str, str] = {}

    def misfits(self, pod: CachedPod) -> model.Misfits:
        """What the decision must not count on for a pod."""
        shape, records = pod.shape, self._records(pod)
        nodes = frozenset(self.assessed.nodes.get(shape, ())) | self.refusing.get(pod.metadata.uid, frozenset())
        waits = self.assessed.held.get(shape, "") or self._waits(pod)
        paused = dict(self._paused(pod))
        if not records and not nodes and not waits and not paused:
            return model.NO_MISFITS
        # What others wait for is not promised to a pod that such machines did not take.
        nodes |= {
            name
            for of in {one.node_pool for one in records}
            for name, shapes in self.unproven.get(of, {}).items()
            if shape not in shapes
        }
        types = frozenset((one.node_pool, name) for one in records for name in one.instance_types)
        return model.Misfits(types=types, nodes=nodes, waits=waits, node_pools=tuple(sorted(paused.items())))

    def braked(self, pod: CachedPod) -> bool:
        """Whether no machine is bought for a pod because those before did not take it."""
        return bool(self._waits(pod)) or next(self._paused(pod), None) is not None

    def _records(self, pod: CachedPod) -> Misfits:
        """Those of its shape, and the wider ones that count it."""
        wide = [one for one in self.records.wide(pod.metadata.namespace) if bought((one,), *_identity(pod))]
        return [*self.records.of_shape(pod.shape), *wide]

    def _waits(self, pod: CachedPod) -> str:
        records = self._records(pod)
        count = bought(records, *_identity(pod))
        cause = max(records, key=lambda one: one.last_time) if records else None
        why = f"NodePool {cause.node_pool}: {cause.message}" if cause is not None else ""
        if count >= MACHINES_MAX:
            return (
                f"{count} machines that were bought for it did not take it ({why}); no other is bought until the pod,"
                " the NodePool or its node class is changed, or the NodePool is annotated with gpu-provisioner.sh/retry"
            )
        if count + self.assessed.coming[pod.metadata.uid] >= MACHINES_MAX:
            return f"waiting for machines that were bought for it{f' ({why})' if why else ''}"
        alike = self.records.of_shape(pod.shape)
        until = retry_at(alike)
        if until is None:
            return ""
        if self.now < until:
            return f"machines for such pods did not take them ({why}); the next one is bought at {until:%H:%M} UTC"
        if any((one.node_pool, pod.shape) in self.assessed.trying for one in alike):
            return f"waiting for a machine that was bought for such a pod ({why})"
        return ""

    def _paused(self, pod: CachedPod) -> Iterator[tuple[str, str]]:
        """The NodePools that buy nothing for a pod of an unknown shape, or whose records are lost, with the cause."""
        yield from self.unstored.items()
        scopes = [one for name in {pod.metadata.namespace, ""} for one in self.scopes.get(name, ())]
        known = {one.node_pool for one in self._records(pod)} if scopes else set()
        for one in scopes:
            until = retry_scope_at(one)
            if until is None or one.node_pool in known or (one.node_pool, pod.shape) in self.assessed.proven:
                continue
            where = f"namespace {one.namespace}" if one.namespace else "many namespaces"
            why = f"its last machines did not take pods of {where}"
            if self.now < until:
                yield one.node_pool, f"{why}; the next one is bought at {until:%H:%M} UTC"
            elif (one.node_pool, one.namespace) in self.assessed.trying:
                yield one.node_pool, f"{why}; one that was bought since is not Ready yet"


def _identity(pod: CachedPod) -> tuple[str, datetime]:
    return pod.metadata.uid, pod.metadata.creation_timestamp


def scopes_of(records: Misfits) -> dict[str, list[Misfit]]:
    """What records state together for a namespace, one for each NodePool, where new shapes may have to wait."""
    found: dict[str, list[Misfit]] = {}
    for (_, namespace), one in by_namespace(records).items():
        if retry_scope_at(one) is not None:
            found.setdefault(namespace, []).append(one)
    return found
