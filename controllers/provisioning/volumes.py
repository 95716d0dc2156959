"""Where the volumes of a pod let it run, and the pods that wait for a volume instead of a machine.

A bound volume is used where its PersistentVolume can be attached, a volume of a StorageClass that binds with the first
consumer where the class provisions volumes. Unlike in Karpenter the host name of a local volume counts, because no new
machine can use such a volume.

Source: https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/provisioning/scheduling/volumetopology.go,
https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode,
https://github.com/kubernetes-sigs/azuredisk-csi-driver/tree/master/docs (labels of zones).
"""

from collections.abc import Iterable, Sequence

from controllers.model.storage import Storage
from provisioner.api import labels
from provisioner.api.schedulable import SelectorExpression
from provisioner.api.value_sets import ABSENT, one_of
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass

from .podspecs import label_requirements
from .solver.requirements import Requirements, combine, excludes

DISK_ZONE = "topology.disk.csi.azure.com/zone"
FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
# The values of the zone's label outside all zones: of the disk driver's, and of a Node's on Azure.
OUTSIDE_ZONES = frozenset({"", "0"})

Alternatives = tuple[Requirements, ...]
ANYWHERE: Alternatives = ({},)


def volume_requirements(claims: Iterable[str], storage: Storage) -> Alternatives:
    """The requirements of a pod's volumes, any one suffices; () if they restrict nothing.

    Raises ValueError with the cause if no machine would help the pod.
    """
    found = ANYWHERE
    for name in claims:
        if storage.error:
            raise ValueError(f"the volumes of pods cannot be read: {storage.error}")
        found = both(found, _of_claim(name, storage))
        if not found:
            raise ValueError(f"no Node can use all of its volumes: {', '.join(claims)} exclude each other")
    return () if found == ANYWHERE else found


def compatible(pod: Alternatives, volumes: Alternatives) -> Alternatives:
    """Those of `volumes` that an alternative of the pod's own requirements allows. Raises ValueError if none is."""
    found = tuple(volume for volume in volumes if any(not excludes(one, volume) for one in pod))
    if volumes and not found:
        key = excludes(pod[0], volumes[0])
        raise ValueError(f"its volumes require {key} {volumes[0][key]}, but the pod {key} {pod[0][key]}")
    return found


def _of_claim(name: str, storage: Storage) -> Alternatives:
    claim = storage.claims.get(name)
    if claim is None:
        raise ValueError(f"PersistentVolumeClaim {name} does not exist")
    if claim.metadata.deleting:
        raise ValueError(f"PersistentVolumeClaim {name} is being deleted")
    bound_to = claim.spec.volume_name
    if claim.status.phase == "Lost" or (bound_to and bound_to not in storage.volumes):
        raise ValueError(f"PersistentVolumeClaim {name} is bound to PersistentVolume {bound_to}, which does not exist")
    try:
        return _of_volume(storage.volumes[bound_to]) if bound_to else _of_class(_class_of(name, claim, storage))
    except ValueError as error:
        raise ValueError(f"PersistentVolumeClaim {name}: {error}") from None


def _class_of(name: str, claim: PersistentVolumeClaim, storage: Storage) -> StorageClass:
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
        [SelectorExpression(key=one.key, operator="In", values=one.values) for one in term.match_label_expressions]
        for term in found.allowed_topologies
    )
    return _any_of(terms, f"StorageClass {found.metadata.name}")


def _any_of(terms: Iterable[Sequence[SelectorExpression]], what: str) -> Alternatives:
    found = tuple(one for term in terms for one in _term(term))
    if not found:
        raise ValueError(f"no Node satisfies the topology of {what}")
    return found


def _term(expressions: Iterable[SelectorExpression]) -> Alternatives:
    found = ANYWHERE
    for one in expressions:
        found = both(found, _expression(one))
    return found


def _expression(one: SelectorExpression) -> Alternatives:
    """One label; that of a zone allows machines outside all zones if it has one of their values."""
    key = labels.ZONE if one.key == DISK_ZONE else one.key
    if key != labels.ZONE or one.operator != "In" or OUTSIDE_ZONES.isdisjoint(one.values):
        return (label_requirements([SelectorExpression(key=key, operator=one.operator, values=one.values)]),)
    zones = [value for value in one.values if value not in OUTSIDE_ZONES]
    within: Alternatives = ({labels.ZONE: one_of(zones)},) if zones else ()
    # A machine that does not exist yet has no zone, its Node will have zone 0.
    return (*within, {labels.ZONE: ABSENT}, {labels.ZONE: one_of(("0",))})


def both(ones: Alternatives, others: Alternatives) -> Alternatives:
    """The combinations that do not exclude each other."""
    found: list[Requirements] = []
    for one in ones:
        for other in others:
            if not excludes(one, other) and (both := combine(one, other)) not in found:
                found.append(both)
    return tuple(found)
