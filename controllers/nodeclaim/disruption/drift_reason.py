"""Why a machine has drifted: what differs from the machine that its NodePool would create now, as a pure function.

Only NodeClaims that a NodePool of this controller owns can drift. A property that cannot be read neither causes
nor ends drift. A machine that was created when a newer version was known already does not drift because it lacks it:
another one would lack it too. AKS names a new node image before new agent pools get it: it is a reason only for
machines that are older than an agent pool which was created with it, whenever this process started.

Source: https://karpenter.sh/docs/concepts/disruption/#drift, docs/references/karpenter.md#drift,
docs/references/agent-pools.md#node-images.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from cloudprovider.cloud import InstanceType
from cloudprovider.interface import Cluster, Instance, Newest, ResourceSku, image_kind
from controllers.disruption.expiration import expiry
from controllers.nodeclass import hash as node_class_hash
from controllers.nodepool import hash as node_pool_hash
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import requirements
from provisioner.api import labels, reasons
from provisioner.api.conditions import DRIFTED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by
from provisioner.api.requirements import Requirements, combine, conflict, normalise_key, of_labels
from provisioner.api.value_sets import value_set

# Instance types of a younger NodeClaim were listed when it was created.
INSTANCE_TYPE_SECONDS = 3600.0

_NUMBERS = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")


class DriftFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known; None: it does not exist, or is not known. `clock_set`: `now` cannot be compared with other times.

    `pool` owns the claim, `new_class` is the node class that it refers to now, and `node_class` that of the claim.
    `instance` is the agent pool of the claim, `pools()` are all. `kubernetes` is what a new machine gets, `image` the
    newest one of its kind, "" if it is not known. `skus`: those of the subscription, by name in lower case.
    """

    claim: NodeClaim
    now: datetime
    clock_set: bool = False
    pool: NodePool | None = None
    new_class: AgentPoolNodeClass | None = None
    node_class: AgentPoolNodeClass | None = None
    instance: Instance | None = None
    cluster: Cluster | None = None
    kubernetes: Newest | None = None
    image: str = ""
    pools: Callable[[], Sequence[Instance]] = tuple
    instance_types: InstanceTypes | None = None
    skus: Mapping[str, ResourceSku] | None = None


class DriftReason(msgspec.Struct, frozen=True):
    """`reason` "": the machine has not drifted. `detail`: what differs."""

    reason: str = ""
    detail: str = ""


NO_DRIFT = DriftReason()


def drift_reason(f: DriftFacts) -> DriftReason | None:
    """The first drift; None: not known, so that the condition stays as it is."""
    if f.pool is None or not is_owned_by(f.claim, f.pool) or f.pool.metadata.deleting or f.pool.metadata.unreadable:
        return None
    if f.new_class is None or f.new_class.metadata.deleting:
        return None  # no other machine can be created
    if f.claim.condition(LAUNCHED, "True") is None:
        return NO_DRIFT
    if f.instance is None or f.instance.busy:
        return None  # AKS may be changing what is compared
    current = f.claim.condition(DRIFTED, "True")
    for reason, check in CHECKS:
        detail = check(f, f.pool, f.instance)
        if detail:
            return DriftReason(reason, detail)
        if detail is None and current is not None and current.reason == reason:
            return None
    return NO_DRIFT


# Each returns what differs, "" if nothing does, None if that is not known.


def _template(f: DriftFacts, pool: NodePool, _: Instance) -> str | None:
    made, versions = f.claim.metadata.annotations, (pool.metadata.annotations, f.claim.metadata.annotations)
    if any(one.get(labels.NODEPOOL_HASH_VERSION) != node_pool_hash.HASH_VERSION for one in versions):
        return None
    # Computed, because the annotation of the NodePool is written after its change.
    same = made.get(labels.NODEPOOL_HASH) in (None, node_pool_hash.template_hash(pool))
    return "" if same else f"the template of NodePool {pool.name} changed"


def _requirements(f: DriftFacts, pool: NodePool, instance: Instance) -> str | None:
    if f.instance_types is None:
        return None
    try:
        wanted = requirements(pool.spec.template.spec.requirements, f.instance_types.cloud)
        listed = f.claim.spec.requirements
        own = combine(*({normalise_key(one.key): value_set(one.operator, one.values)} for one in listed))
    except ValueError:
        return None  # a condition of the NodePool names the error
    kind = _instance_type(f, instance)
    of_type: Requirements = kind.requirements if kind is not None else {}
    known = {**own, **of_labels(f.claim.metadata.labels), **of_type}
    key = conflict(known, wanted, f.instance_types.well_known)
    return f"{key} is not as the requirements of NodePool {pool.name}" if key else ""


def _listed(f: DriftFacts, _: NodePool, instance: Instance) -> str | None:
    if f.instance_types is None or not f.instance_types.types:
        return None
    age = (f.now - f.claim.metadata.creation_timestamp).total_seconds()
    if age < INSTANCE_TYPE_SECONDS or _instance_type(f, instance) is not None:
        return ""
    # A release of this program can lack a size that Azure has.
    if f.skus is None:
        return None
    lacks = f"instance type {instance.size} is not known in the region"
    return "" if instance.size.casefold() in f.skus else lacks


def _node_class(f: DriftFacts, _: NodePool, __: Instance) -> str | None:
    wanted, made = node_class_hash.hash_annotations(f.node_class), f.claim.metadata.annotations
    if not wanted or made.get(labels.NODECLASS_HASH_VERSION) != wanted[labels.NODECLASS_HASH_VERSION]:
        return None
    same = made.get(labels.NODECLASS_HASH) in (None, wanted[labels.NODECLASS_HASH])
    return "" if same else f"AgentPoolNodeClass {f.claim.spec.node_class_ref.name} changed"


def _kubernetes(f: DriftFacts, _: NodePool, instance: Instance) -> str | None:
    newest = f.kubernetes
    if newest is None:
        return None
    found = _outdated(f, instance, instance.kubernetes_version, newest.version, lambda: newest.since)
    return f"{instance.kubernetes_version}, the control plane has {found}" if found else found


def _image(f: DriftFacts, _: NodePool, instance: Instance) -> str | None:
    found = _outdated(f, instance, instance.image_version, f.image, lambda: _made_with(f.image, f.pools()))
    return f"{instance.image_version}, the newest is {found}" if found else found


def _made_with(image: str, pools: Sequence[Instance]) -> datetime | None:
    """When the youngest agent pool was created that has this image or a newer one of its kind; None: none has it.

    The tag of its PUT states that, so it survives a restart. A pool that AKS upgraded is as old as it was.
    """
    wanted = _numbers(image)
    if wanted is None:
        return None
    found = (one for one in pools if image_kind(one.image_version) == image_kind(image))
    made = (one.put_time for one in found if (_numbers(one.image_version) or ()) >= wanted)
    return max((at for at in made if at is not None), default=None)


def _expired(f: DriftFacts, pool: NodePool, _: Instance) -> str | None:
    """Of static NodePools: a machine that expires is replaced before it is removed. Others are deleted."""
    at = expiry(f.claim) if pool.spec.replicas is not None else None
    if at is None:
        return ""
    if f.clock_set:
        return None
    return f"spec.expireAfter {f.claim.spec.expire_after} has passed" if f.now >= at else ""


CHECKS: tuple[tuple[str, Callable[[DriftFacts, NodePool, Instance], str | None]], ...] = (
    (reasons.NODEPOOL_DRIFTED, _template),
    (reasons.REQUIREMENTS_DRIFTED, _requirements),
    (reasons.INSTANCE_TYPE_NOT_FOUND, _listed),
    (reasons.NODECLASS_DRIFT, _node_class),
    (reasons.K8S_VERSION_DRIFT, _kubernetes),
    (reasons.IMAGE_DRIFT, _image),
    (reasons.EXPIRED, _expired),
)


def _instance_type(f: DriftFacts, instance: Instance) -> InstanceType | None:
    """That of the machine; Azure does not keep the case of names."""
    size, types = instance.size.casefold(), f.instance_types.types if f.instance_types is not None else ()
    return next((one for one in types if one.name.casefold() == size), None)


def _outdated(
    f: DriftFacts, instance: Instance, version: str, newest: str, known_since: Callable[[], datetime | None]
) -> str | None:
    """The newer version, "" if there is none. While the cluster changes, AKS may be upgrading the agent pools.

    `known_since`: when new machines were first made with it, None if none was; asked about outdated machines only.
    """
    if f.cluster is None or not f.cluster.running or f.cluster.state != "Succeeded":
        return None
    have, wanted = _numbers(version), _numbers(newest)
    if have is None or wanted is None:
        return None
    if have >= wanted:
        return ""
    since = known_since()
    if since is None:
        return None
    return "" if instance.put_time is not None and instance.put_time >= since else newest


def _numbers(version: str) -> tuple[int, ...] | None:
    """The numbers of a Kubernetes version, or of the release at the end of the name of a node image."""
    found = _NUMBERS.fullmatch(version.rpartition("-")[2])
    return tuple(int(part) for part in found[1].split(".")) if found is not None else None
