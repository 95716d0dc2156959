"""Where the volumes of a pod let it run, and the pods that wait for a volume instead of a machine.

A bound volume is used where its PersistentVolume can be attached, a volume of a StorageClass that binds with the first
consumer where the class provisions volumes. Unlike in Karpenter the host name of a local volume counts, because no new
machine can use such a volume.

The topologies of several volumes multiply. The labels that are compared for one pod are counted before they are, and a
pod that needs too many is refused. What is made of one Storage is made once, whichever pods use it.

Source: https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/provisioning/scheduling/volumetopology.go,
https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode,
https://github.com/kubernetes-sigs/azuredisk-csi-driver/tree/master/docs (labels of zones).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from controllers.model.storage import Storage
from provisioner.api import labels
from provisioner.api.requirements import Requirement, Requirements, combine, excludes, of_entries
from provisioner.api.value_sets import ABSENT, one_of
from provisioner.api.volume import ONE_POD, PersistentVolume, PersistentVolumeClaim, StorageClass

from .podspecs import VALUES_A_COMPARISON
from .solver.comparisons import PER_POD, TooLargeError

DISK_ZONE = "topology.disk.csi.azure.com/zone"
FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
# The values of the zone's label outside all zones: of the disk driver's, and of a Node's on Azure.
OUTSIDE_ZONES = frozenset({"", "0"})

Alternatives = tuple[Requirements, ...]
ANYWHERE: Alternatives = ({},)
# Labels that are compared to combine the terms of one volume, or the volumes of one pod: some milliseconds.
COMBINED_MAX = 10_000
REMEDY = "remove terms from nodeAffinity of its PersistentVolumes or allowedTopologies of its StorageClasses"

V = TypeVar("V")


class Made:
    """What was made of one Storage, also the errors, by what it was made of. Equal topologies are one object."""

    _of: WeakKeyDictionary[Storage, "Made"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[object, object]] = {}
        self._equal: dict[Hashable, Alternatives] = {}

    @classmethod
    def of(cls, storage: Storage) -> "Made":
        """That of this Storage, as long as the Storage exists."""
        return cls._of.setdefault(storage, cls())

    def once(self, key: Hashable, make: Callable[[], V], *, kept: object = None) -> V:
        """The result of the first call with this key. Raises its ValueError.

        `kept`: what must exist as long as the key, because its place in memory is a part of the key.
        """
        if key not in self._known:
            try:
                self._known[key] = make(), kept
            except ValueError as error:
                self._known[key] = error, kept
        found, _ = self._known[key]
        if isinstance(found, ValueError):
            raise type(found)(*found.args)
        return cast("V", found)

    def same(self, found: Alternatives) -> Alternatives:
        """The object that stands for all equal alternatives."""
        return self._equal.setdefault(frozenset(_key(one) for one in found), found)


def volume_requirements(claims: Iterable[str], storage: Storage) -> Alternatives:
    """The requirements of a pod's volumes, any one suffices; () if they restrict nothing.

    The same object for volumes with the same topologies. Raises ValueError with the cause if no machine would help the
    pod, TooLargeError if its volumes have too many topologies.
    """
    made, names = Made.of(storage), tuple(claims)
    topologies = {id(one): one for one in (_of_claim(name, storage, made) for name in names) if one != ANYWHERE}
    combined = Combined("the product of the topologies of its volumes")
    found = made.once(("volumes", *topologies), lambda: made.same(combined(topologies.values())))
    if not found:
        raise ValueError(f"no Node can use all of its volumes: {', '.join(names)} exclude each other")
    return () if found == ANYWHERE else found


def selected_node(claims: Iterable[str], storage: Storage) -> str:
    """The Node on which kube-scheduler binds the pod once its volumes are provisioned; "" if it has chosen none."""
    found = (storage.claims.get(name) for name in claims)
    return next((one.selected_node for one in found if one is not None and one.selected_node), "")


class Users:
    """Which pod uses a claim with access mode ReadWriteOncePod: one that is bound, or the first that gets a place.

    `bound`: pods on Nodes, each with its claims. kube-scheduler binds no other pod with such a claim to any Node.
    """

    def __init__(self, bound: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._users = {claim: pod for pod, claims in bound for claim in claims}

    def admit(self, pod: str, claims: Iterable[str], storage: Storage) -> None:
        """Count a pod as user of its claims. Raises ValueError if another pod uses one of them."""
        for name in claims:
            found = storage.claims.get(name)
            if found is not None and ONE_POD in found.spec.access_modes:
                user = self._users.setdefault(name, pod)
                if user != pod:
                    raise ValueError(f"PersistentVolumeClaim {name} is {ONE_POD}, and Pod {user} uses it")


def compatible(pod: Alternatives, volumes: Alternatives) -> Alternatives:
    """Those of `volumes` that an alternative of the pod's own requirements allows.

    Raises ValueError if none is, TooLargeError if there are too many of both.
    """
    _check(len(pod) * _labels(volumes), PER_POD, "the product of its required terms and the topologies of its volumes")
    found = tuple(volume for volume in volumes if any(not excludes(one, volume) for one in pod))
    if volumes and not found:
        key = excludes(pod[0], volumes[0])
        raise ValueError(f"its volumes require {key} {volumes[0][key]}, but the pod {key} {pod[0][key]}")
    return found


def _of_claim(name: str, storage: Storage, made: Made) -> Alternatives:
    if name in storage.unread:
        raise ValueError(f"PersistentVolumeClaim {name} cannot be read: {storage.unread[name]}")
    claim = storage.claims.get(name)
    if claim is None:
        raise ValueError(f"PersistentVolumeClaim {name} does not exist")
    if claim.metadata.deleting:
        raise ValueError(f"PersistentVolumeClaim {name} is being deleted")
    bound_to = claim.spec.volume_name
    if claim.status.phase == "Lost" or (bound_to and bound_to not in storage.volumes):
        raise ValueError(f"PersistentVolumeClaim {name} is bound to PersistentVolume {bound_to}, which does not exist")
    if bound_to and not claim.bound:
        raise ValueError(f"PersistentVolumeClaim {name} is not yet bound to PersistentVolume {bound_to}, its volume")
    try:
        if bound_to:
            volume = storage.volumes[bound_to]
            return made.once(("volume", bound_to), lambda: made.same(_of_volume(volume)))
        of_class, node = _class_of(claim, storage), claim.selected_node
        if node:
            return made.same(({labels.HOSTNAME: one_of((node,))},))
        return made.once(("class", of_class.metadata.name), lambda: made.same(_of_class(of_class)))
    except ValueError as error:
        raise type(error)(f"PersistentVolumeClaim {name}: {error}") from None


def _class_of(claim: PersistentVolumeClaim, storage: Storage) -> StorageClass:
    wanted = claim.spec.storage_class_name
    if not wanted:
        raise ValueError(
            "it is not bound and has no StorageClass: set spec.storageClassName, or create a volume for it"
        )
    found = storage.classes.get(wanted)
    if found is None:
        raise ValueError(f"StorageClass {wanted} does not exist")
    if found.volume_binding_mode != FIRST_CONSUMER:
        raise ValueError(
            f"it is not bound, and StorageClass {wanted} binds volumes at once: the pod waits for its volume"
        )
    if found.provisioner == NO_PROVISIONER:
        raise ValueError(f"it is not bound, and StorageClass {wanted} provisions no volumes: create a volume for it")
    return found


def _of_volume(volume: PersistentVolume) -> Alternatives:
    required = volume.spec.node_affinity.required
    if required is None:
        return ANYWHERE
    terms = (term.match_expressions for term in required.node_selector_terms if term.match_expressions)
    return _any_of(terms, f"PersistentVolume {volume.metadata.name}")


def _of_class(found: StorageClass) -> Alternatives:
    if not found.allowed_topologies:
        return ANYWHERE
    terms = (
        [Requirement(key=one.key, operator="In", values=one.values) for one in term.match_label_expressions]
        for term in found.allowed_topologies
    )
    return _any_of(terms, f"StorageClass {found.metadata.name}")


def _any_of(terms: Iterable[Sequence[Requirement]], what: str) -> Alternatives:
    combined = Combined(what)
    found = tuple(one for term in terms for one in combined(_expression(expression) for expression in term))
    if not found:
        raise ValueError(f"no Node satisfies the topology of {what}")
    return found


def _expression(one: Requirement) -> Alternatives:
    """One label; that of a zone allows machines outside all zones if it has one of their values."""
    key = labels.ZONE if one.key == DISK_ZONE else one.key
    if key != labels.ZONE or one.operator != "In" or OUTSIDE_ZONES.isdisjoint(one.values):
        return (of_entries([Requirement(key=key, operator=one.operator, values=one.values)]),)
    zones = [value for value in one.values if value not in OUTSIDE_ZONES]
    within: Alternatives = ({labels.ZONE: one_of(zones)},) if zones else ()
    # The Node of a machine outside all zones has zone 0, or no zone.
    return (*within, {labels.ZONE: ABSENT}, {labels.ZONE: one_of(("0",))})


def both(ones: Alternatives, others: Alternatives) -> Alternatives:
    """The combinations that do not exclude each other. Raises TooLargeError if there are too many."""
    return Combined("what its volumes and devices require")((ones, others))


class Combined:
    """Combines alternatives, and counts the labels that this compares before it does. `what`: the cause of errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._compared = 0

    def __call__(self, parts: Iterable[Alternatives]) -> Alternatives:
        """The combinations of one of each part that do not exclude each other, each once. Raises TooLargeError."""
        found = ANYWHERE
        for part in parts:
            self._compared += len(found) * (len(part) + _labels(part)) + len(part) * _labels(found)
            _check(self._compared, COMBINED_MAX, self._what)
            pairs = (combine(one, other) for one in found for other in part if not excludes(one, other))
            found = tuple({_key(one): one for one in pairs}.values())
        return found


def _check(compared: int, most: int, what: str) -> None:
    if compared > most:
        raise TooLargeError(f"{what} takes more than {most:,} comparisons of labels: {REMEDY}")


def _labels(found: Alternatives) -> int:
    return sum(1 + len(one.values) // VALUES_A_COMPARISON for requirements in found for one in requirements.values())


def _key(found: Requirements) -> Hashable:
    return frozenset(found.items())
