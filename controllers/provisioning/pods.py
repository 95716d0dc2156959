"""The cached form of pods: what a scheduling decision reads of them, shared by equal pods.

A pod keeps its identity, its Node, its volume claims and a reference to the constraints that it shares with equal pods.
Of a bound pod all constraints are kept only if it is created again elsewhere once its Node is removed. A pending pod
keeps besides why it is not provisionable. Decoded specs are dropped. What one pod, and all large pods together, keep is
bounded in bytes, and an error of one pod is kept with it.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b, sha256
from typing import cast
from weakref import WeakValueDictionary

import msgspec

from provisioner.api.affinity import Affinity, PodAffinity
from provisioner.api.byte_budget import ByteBudget, Refusals
from provisioner.api.deviceclaim import ClaimName
from provisioner.api.object_errors import OBJECT_ERRORS
from provisioner.api.pod import Pod, PodSpec

from .eviction import NO_EVICTION, Eviction, eviction
from .podspecs import podspec, requests, shape_key, unconstrained
from .provisionable import is_recreated, nominated_node, runs_on, why_not
from .solver import model
from .solver.comparisons import REMEDY, TooLargeError

# Shared values beyond this number are dropped; equal pods then share the next copy.
SHARED_MAX = 20_000
# Of a text that names what a pod waits for, and resources of a pod that is too large.
TEXT_MAX, RESOURCES_MAX = 300, 50
# The API server accepts any text as the UID of an owner; a real one has 36 characters.
UID_MAX = 64
NO_CONSTRAINTS = model.PodSpec()
# Fields of a spec that are the pod's own, or that do not decide where it can run: equal pods differ in them.
NOT_CONSTRAINTS: Mapping[str, object] = {
    "node_name": "",
    "volumes": (),
    "priority": None,
    "priority_class_name": "",
    "termination_grace_period_seconds": None,
    "resource_claims": (),
}
# The indexes of a cache of pods: by the name of their Node, and by that of the Node that kube-scheduler nominated.
BY_NODE, BY_NOMINATED_NODE = "node", "nominated-node"


class Shared(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What equal pods share: their constraints with the digest of these, or why they cannot be scheduled."""

    constraints: model.PodSpec
    error: str = ""
    too_large: bool = False
    shape: str = ""


class CachedPod(Pod, frozen=True, kw_only=True, weakref=True):
    """`constraints`: of a bound pod that is not created again only its requests, labels, ports and anti-affinity.

    `waits_for`: why no machine is bought for it, "" for a provisionable pod. `error`: why it cannot be scheduled at
    all. `daemon`: a DaemonSet owns it.
    `moves`: it is bound, and created again elsewhere once its Node is removed; `recreated`: once it is evicted, which
    do-not-disrupt can prevent for now.
    `claims`: the PersistentVolumeClaims of its volumes. `devices`: what its devices are claimed by.
    `ready`: its condition Ready is True. `started`: when it started, kept only if its do-not-disrupt is a duration.
    `shared`: the reference by which equal pods share their constraints as long as there is one. `shape`: equal for pods
    that no machine can tell apart, see `shape_of`. `daemon_set`: the UID of the DaemonSet that owns it.
    `nominated_node`: where kube-scheduler makes room for this pending pod by preemption.
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
    shared: Shared | None = None
    shape: str = ""
    daemon_set: str = ""
    nominated_node: str = ""

    @property
    def too_large(self) -> bool:
        """Whether it cannot be scheduled because its constraints need more work than one pod may cost."""
        return self.shared is not None and self.shared.too_large

    @property
    def own(self) -> bool:
        """Whether it is bound to its Node for its own sake: no DaemonSet and no file on the Node put it there."""
        return not self.daemon and not self.eviction.static

    def protects(self, now: datetime) -> bool:
        """Whether its annotation do-not-disrupt applies."""
        return not self.metadata.deleting and self.eviction.protects(self.started, now)


class PodDigest:
    """Replaces decoded pods by their cached form. One instance serves one cache.

    `namespaces()`: how many share the budget of bytes, 0 if it is not known.
    """

    def __init__(self, namespaces: Callable[[], int] = lambda: 0) -> None:
        self._shared: WeakValueDictionary[bytes, Shared] = WeakValueDictionary()
        self._budget = ByteBudget(namespaces=namespaces)
        self.refusals = Refusals(self._budget)
        self._places: dict[str, PodSpec] = {}
        self._evictions: dict[Eviction, Eviction] = {}

    def __call__(self, pod: Pod) -> Pod:
        """The cached form of a pod; of one that cannot be evaluated only its identity, and the error."""
        try:
            return self._cached(pod)
        except OBJECT_ERRORS as error:
            bound = bool(pod.spec.node_name)
            return CachedPod(
                metadata=pod.metadata.identity(),
                spec=self._place(pod.spec.node_name),
                constraints=model.PodSpec(namespace=pod.metadata.namespace),
                error=f"invalid Pod: {type(error).__name__}: {str(error)[:TEXT_MAX]}",
                waits_for="" if bound else why_not(pod)[:TEXT_MAX],
                daemon=pod.metadata.daemon_set is not None,
            )

    def _cached(self, pod: Pod) -> CachedPod:
        meta, bound, claims, devices = pod.metadata, bool(pod.spec.node_name), pod.volume_claims, pod.device_claims
        recreated = bound and is_recreated(pod)
        stays = bound and not recreated
        evicted = self._eviction(pod)
        if stays:
            pod = msgspec.structs.replace(pod, spec=_of_bound(pod.spec))
        # Equal pods share their constraints; these are its own.
        own = len(msgspec.json.encode((claims, () if stays else devices)))
        if why := self._budget.refused(own, meta.namespace):
            shared, refused = _too_large(pod, why), own
        else:
            shared, refused = self._constraints(pod)
        whole = not refused
        found = CachedPod(
            metadata=meta.identity(*([] if whole else [f"spec: {shared.error}"])),
            spec=self._place(pod.spec.node_name),
            constraints=shared.constraints,
            error=shared.error,
            shared=shared,
            waits_for="" if bound else why_not(pod)[:TEXT_MAX],
            daemon=pod.metadata.daemon_set is not None,
            # Of any API group: what such a controller puts on each Node is learned by its UID.
            daemon_set=next((one.uid[:UID_MAX] for one in meta.owner_references if one.kind == "DaemonSet"), ""),
            moves=recreated and not runs_on(pod),
            recreated=recreated,
            claims=claims if whole else (),
            devices=devices if whole and not stays else (),
            ready=pod.condition("Ready", "True") is not None,
            eviction=evicted,
            shape="" if stays or shared.error else shape_of(shared.shape, pod.name, claims, devices),
            nominated_node=nominated_node(pod),
            started=pod.status.start_time if evicted.do_not_disrupt not in ("", "true") else None,
        )
        if whole:
            self._budget.hold(found, own, meta.namespace)
        else:
            self.refusals.remember(found, refused)
        return found

    def _eviction(self, pod: Pod) -> Eviction:
        if len(self._evictions) > SHARED_MAX:
            self._evictions.clear()
        found = eviction(pod)
        return self._evictions.setdefault(found, found)

    def _place(self, node: str) -> PodSpec:
        if len(self._places) > SHARED_MAX:
            self._places.clear()
        return self._places.setdefault(node, PodSpec(node_name=node))

    def _constraints(self, pod: Pod) -> tuple[Shared, int]:
        """What the pod shares with equal ones, and its bytes if they are not kept."""
        text = msgspec.json.encode(
            (
                pod.metadata.namespace,
                sorted(pod.metadata.labels.items()),
                msgspec.structs.replace(pod.spec, **NOT_CONSTRAINTS),
            ),
            enc_hook=dict,
        )
        key = blake2b(text, digest_size=16).digest()
        known = self._shared.get(key)
        if known is not None:
            return known, 0
        size = len(text)
        if why := self._budget.refused(size, pod.metadata.namespace):
            return _too_large(pod, why), size
        try:
            found = podspec(pod)
            known = Shared(constraints=found, shape=_digest(shape_key(found)))
        except TooLargeError as error:
            known = Shared(constraints=unconstrained(pod), error=str(error), too_large=True)
        except ValueError as error:
            # Its labels decide which budgets concern it.
            meta = pod.metadata
            left = model.PodSpec(namespace=meta.namespace, labels=meta.labels)
            known = Shared(constraints=left, error=f"invalid Pod: {str(error)[:TEXT_MAX]}")
        self._shared[key] = known
        self._budget.hold(known, size, pod.metadata.namespace)
        return known, 0


def _too_large(pod: Pod, why: str) -> Shared:
    """What is kept of a pod that is too large: the room that it takes on its Node."""
    found = sorted(requests(pod.spec).items())[:RESOURCES_MAX]
    constraints = model.PodSpec(namespace=pod.metadata.namespace, requests=dict(found))
    return Shared(constraints=constraints, error=f"{why}: {REMEDY}", too_large=True)


def shape_of(base: str, name: str, claims: Iterable[str], devices: Iterable[ClaimName]) -> str:
    """Equal for pods with the same namespace, requests, constraints and volumes, whoever creates them; 16 digits.

    Neither the name and the labels of the pod nor its owner are part of it: a controller that creates the pod again, a
    rollout and the next Job of a CronJob have others. The name of an ephemeral volume's claim begins with the pod's.
    `base`: the digest of namespace and constraints.
    """
    volumes = sorted(one for one in claims if not one.startswith(f"{name}-"))
    templates = sorted(one.template for one in devices if one.template)
    return _digest((base, volumes, templates)) if volumes or templates else base


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:16]


def pod_indexes() -> Mapping[str, Callable[[Pod], tuple[str, ...]]]:
    """The index that a cache of pods must have for disruption."""
    return {
        BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
        BY_NOMINATED_NODE: lambda pod: (
            (pod.nominated_node,) if isinstance(pod, CachedPod) and pod.nominated_node else ()
        ),
    }


def provisionable(pods: Iterable[Pod]) -> Iterator[CachedPod]:
    """The cached pods for which machines may be bought, the oldest first."""
    found = [one for one in cast("Iterable[CachedPod]", pods) if not one.spec.node_name and not one.waits_for]
    yield from sorted(found, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.uid))


def displaced(pods: Iterable[Pod], nodes: Container[str]) -> Iterator[CachedPod]:
    """The cached pods that will be created again elsewhere when these Nodes are removed, by name."""
    found = [one for one in cast("Iterable[CachedPod]", pods) if one.moves and one.spec.node_name in nodes]
    yield from sorted(found, key=lambda pod: pod.name)


def placed_pods(pods: Iterable[Pod]) -> Iterator[CachedPod]:
    """The cached pods on Nodes."""
    return (one for one in cast("Iterable[CachedPod]", pods) if one.spec.node_name)


def bound(pods: Iterable[Pod]) -> dict[str, list[model.BoundPod]]:
    """The constraints of the cached pods on each Node."""
    found: dict[str, list[model.BoundPod]] = {}
    terminating: dict[int, model.PodSpec] = {}
    for one in placed_pods(pods):
        spec = one.constraints
        if one.metadata.deleting:
            spec = terminating.setdefault(id(spec), msgspec.structs.replace(spec, terminating=True))
        found.setdefault(one.spec.node_name, []).append(model.BoundPod(spec=spec, daemon=one.daemon))
    return found


def _of_bound(spec: PodSpec) -> PodSpec:
    """What others observe of a bound pod: its node selector, tolerations and preferences no longer matter."""
    anti = spec.affinity.pod_anti_affinity.required if spec.affinity is not None else ()
    return PodSpec(
        node_name=spec.node_name,
        containers=spec.containers,
        init_containers=spec.init_containers,
        resources=spec.resources,
        overhead=spec.overhead,
        host_network=spec.host_network,
        affinity=Affinity(pod_anti_affinity=PodAffinity(required=anti)) if anti else None,
    )
