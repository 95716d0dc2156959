"""The cached form of pods: what a scheduling decision reads of them, shared by equal pods.

A pod keeps its identity, its Node, its volume claims and a reference to the constraints that it shares with equal pods.
Of a bound pod all constraints are kept only if it is created again elsewhere once its Node is removed. A pending pod
keeps besides why it is not provisionable. Decoded specs are dropped.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import cast

import msgspec

from provisioner.api.deviceclaim import ClaimName
from provisioner.api.meta import ObjectMeta
from provisioner.api.schedulable import Affinity, DaemonSet, PodAffinity, SchedulablePod, SchedulablePodSpec

from .eviction import NO_EVICTION, Eviction, eviction
from .podspecs import podspec
from .provisionable import is_daemon, is_recreated, moves, why_not
from .solver import model

# Shared values beyond this number are dropped; equal pods then share the next copy.
SHARED_MAX = 20_000
NO_CONSTRAINTS = model.PodSpec()
# The index of a cache of pods by the name of their Node.
BY_NODE = "node"


class CachedPod(SchedulablePod, frozen=True, kw_only=True):
    """`constraints`: of a bound pod that is not created again only its requests, labels, ports and anti-affinity.

    `waits_for`: why no machine is bought for it, "" for a provisionable pod. `error`: why it cannot be scheduled at
    all. `daemon`: a DaemonSet owns it. `moves`: it is bound, and created again elsewhere once its Node is removed;
    `recreated`: once it is evicted, which do-not-disrupt can prevent for now.
    `claims`: the PersistentVolumeClaims of its volumes. `devices`: what its devices are claimed by.
    `ready`: its condition Ready is True. `started`: when it started, kept only if its do-not-disrupt is a duration.
    """

    constraints: model.PodSpec = NO_CONSTRAINTS
    waits_for: str = ""
    error: str = ""
    daemon: bool = False
    moves: bool = False
    recreated: bool = False
    claims: tuple[str, ...] = ()
    devices: tuple[ClaimName, ...] = ()
    ready: bool = False
    eviction: Eviction = NO_EVICTION
    started: datetime | None = None

    @property
    def own(self) -> bool:
        """Whether it is bound to its Node for its own sake: no DaemonSet and no file on the Node put it there."""
        return not self.daemon and not self.eviction.static

    def protects(self, now: datetime) -> bool:
        """Whether its annotation do-not-disrupt applies."""
        return not self.metadata.deleting and self.eviction.protects(self.started, now)


class PodDigest:
    """Replaces decoded pods by their cached form. One instance serves one cache."""

    def __init__(self) -> None:
        self._shared: dict[bytes, tuple[model.PodSpec, str]] = {}
        self._places: dict[str, SchedulablePodSpec] = {}
        self._evictions: dict[Eviction, Eviction] = {}

    def __call__(self, pod: SchedulablePod) -> SchedulablePod:
        """The cached form of a pod."""
        meta, bound, claims, devices = pod.metadata, bool(pod.spec.node_name), pod.volume_claims, pod.device_claims
        recreated = bound and is_recreated(pod)
        stays = bound and not recreated
        evicted = self._eviction(pod)
        if stays:
            pod = msgspec.structs.replace(pod, spec=_of_bound(pod.spec))
        constraints, error = self._constraints(pod)
        return CachedPod(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=meta.creation_timestamp,
                deletion_timestamp=meta.deletion_timestamp,
                unreadable=meta.unreadable,
            ),
            spec=self._place(pod.spec.node_name),
            constraints=constraints,
            error=error,
            waits_for="" if bound else why_not(pod),
            daemon=is_daemon(pod),
            moves=recreated and moves(pod),
            recreated=recreated,
            claims=() if stays else claims,
            devices=() if stays else devices,
            ready=any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions),
            eviction=evicted,
            started=pod.status.start_time if evicted.do_not_disrupt not in ("", "true") else None,
        )

    def _eviction(self, pod: SchedulablePod) -> Eviction:
        if len(self._evictions) > SHARED_MAX:
            self._evictions.clear()
        found = eviction(pod)
        return self._evictions.setdefault(found, found)

    def _place(self, node: str) -> SchedulablePodSpec:
        if len(self._places) > SHARED_MAX:
            self._places.clear()
        return self._places.setdefault(node, SchedulablePodSpec(node_name=node))

    def _constraints(self, pod: SchedulablePod) -> tuple[model.PodSpec, str]:
        key = msgspec.msgpack.encode(
            (
                pod.metadata.namespace,
                sorted(pod.metadata.labels.items()),
                msgspec.structs.replace(pod.spec, node_name="", volumes=(), priority=None, resource_claims=()),
            ),
            enc_hook=dict,
        )
        known = self._shared.get(key)
        if known is None:
            try:
                known = podspec(pod), ""
            except ValueError as error:
                # Its labels decide which budgets concern it.
                meta = pod.metadata
                known = model.PodSpec(namespace=meta.namespace, labels=meta.labels), f"invalid Pod: {error}"
            if len(self._shared) > SHARED_MAX:
                self._shared.clear()
            self._shared[key] = known
        return known


def pod_indexes() -> Mapping[str, Callable[[SchedulablePod], tuple[str, ...]]]:
    """The index that a cache of pods must have for disruption."""
    return {BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ()}


def provisionable(pods: Iterable[SchedulablePod]) -> Iterator[CachedPod]:
    """The cached pods for which machines may be bought, the oldest first."""
    found = [one for one in cast("Iterable[CachedPod]", pods) if not one.spec.node_name and not one.waits_for]
    yield from sorted(found, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.uid))


def displaced(pods: Iterable[SchedulablePod], nodes: Container[str]) -> Iterator[CachedPod]:
    """The cached pods that will be created again elsewhere when these Nodes are removed, by name."""
    found = [one for one in cast("Iterable[CachedPod]", pods) if one.moves and one.spec.node_name in nodes]
    yield from sorted(found, key=lambda pod: pod.name)


def bound(pods: Iterable[SchedulablePod]) -> dict[str, list[model.BoundPod]]:
    """The constraints of the cached pods on each Node."""
    found: dict[str, list[model.BoundPod]] = {}
    for one in cast("Iterable[CachedPod]", pods):
        if one.spec.node_name:
            entry = model.BoundPod(spec=one.constraints, daemon=one.daemon)
            found.setdefault(one.spec.node_name, []).append(entry)
    return found


def daemon_specs(daemon_sets: Iterable[DaemonSet]) -> tuple[model.PodSpec, ...]:
    """The constraints of the pods that DaemonSets create; those that cannot be scheduled are left out."""
    found = []
    for one in sorted(daemon_sets, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        template = one.spec.template
        meta = ObjectMeta(name=one.metadata.name, namespace=one.metadata.namespace, labels=template.metadata.labels)
        try:
            found.append(podspec(SchedulablePod(metadata=meta, spec=template.spec)))
        except ValueError:
            continue
    return tuple(found)


def _of_bound(spec: SchedulablePodSpec) -> SchedulablePodSpec:
    """What others observe of a bound pod: its node selector, tolerations and preferences no longer matter."""
    anti = spec.affinity.pod_anti_affinity.required if spec.affinity is not None else ()
    return SchedulablePodSpec(
        node_name=spec.node_name,
        containers=spec.containers,
        init_containers=spec.init_containers,
        resources=spec.resources,
        overhead=spec.overhead,
        affinity=Affinity(pod_anti_affinity=PodAffinity(required=anti)) if anti else None,
    )
