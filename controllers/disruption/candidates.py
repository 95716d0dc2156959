"""The machines that consolidation may remove or replace, and why the others are kept.

Source: docs/references/karpenter.md#consolidation.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from controllers.provisioning.demand import with_volumes
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.offered import NodeClasses
from controllers.provisioning.podspecs import interchangeable
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.causes import Reason
from provisioner.api.conditions import CONSOLIDATABLE, DRIFTED, INITIALIZED
from provisioner.api.meta import EMPTY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in, nodepool_of

from .blockers import NOMINATED, NOT_INITIALIZED, Unreported, empty, has_gpus
from .gpu_models import GpuModels
from .gpu_parts import GpuParts
from .machine import Machine, consolidate_after
from .view import View

WHEN_EMPTY, UNDERUTILIZED, BALANCED = "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A machine whose pods may move. `pods`: those that need another place, kept on their GPU model.

    `node`: the name of the Node. `gpu_model`: "" if no pod uses a GPU. `price`: USD an hour. `cost`: of the disruption.
    `unbound`: the own constraints of those of the pods that only this program keeps on their model, by name.
    """

    machine: Machine
    pool: NodePool
    policy: str
    node: str
    size: str
    capacity_type: str
    price: float
    cost: float = 1.0
    gpu_model: str = ""
    pods: tuple[model.Pod, ...] = ()
    unbound: Mapping[str, model.PodSpec] = {}

    @property
    def rank(self) -> tuple[float, str]:
        """Sorts candidates: much money for little disruption first."""
        return -self.price / self.cost, self.node


def candidates(view: View) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates by rank, and why the other machines are kept, by the name of the NodeClaim.

    Machines without pods are in neither: emptiness removes them.
    """
    pools = {pool.metadata.uid: pool for pool in view.observed.node_pools}
    kept, found = dict[str, str](), list[Candidate]()
    for machine in view.machines:
        owner = nodepool_of(machine.claim)
        pool = pools.get(owner.uid) if owner is not None else None
        if pool is None or machine.going or empty(machine):
            continue
        if why := _kept(machine, pool, view):
            kept[machine.claim.name] = why
            continue
        try:
            found.append(_candidate(machine, pool, view))
        except ValueError as error:
            kept[machine.claim.name] = str(error)
    moving, unmovable = with_pods(found, view)
    return sorted(moving, key=lambda one: one.rank), kept | unmovable


def unpriced(machine: Machine, pool: NodePool) -> Candidate:
    """A machine that goes whatever it costs."""
    known = {**machine.claim.metadata.labels, **(machine.node.metadata.labels if machine.node is not None else EMPTY)}
    return Candidate(
        machine=machine,
        pool=pool,
        policy="",
        node=machine.claim.status.node_name,
        size=known.get(labels.INSTANCE_TYPE, ""),
        capacity_type=known.get(labels.CAPACITY_TYPE, ""),
        price=0.0,
    )


def with_pods(
    found: Iterable[Candidate], view: View, *, eventual: bool = False
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates with the pods that need another place, and why others are kept, by the name of the NodeClaim.

    `eventual`: a pod that is not created again does not keep a machine whose terminationGracePeriod bounds the drain.
    """
    models, kept = GpuModels(view.types, GpuParts(view.observed, view.types.cloud)), dict[str, str]()
    known = list[tuple[Candidate, list[tuple[str, model.PodSpec, model.PodSpec]]]]()
    for one in found:
        try:
            bounded = one.machine.claim.spec.termination_grace_period is not None
            specs = [*_moving(one, view, models, lose=eventual and bounded)]
        except ValueError as error:
            kept[one.machine.claim.name] = str(error)
            continue
        gpus = any(pod.recreated and pod.eviction.gpus for pod in one.machine.pods)
        known.append((msgspec.structs.replace(one, gpu_model=models.of(one.size)) if gpus else one, specs))
    bound = [(name, spec) for _, specs in known for name, spec, _ in specs]
    present = {id(pod.constraints): pod.constraints for one in view.machines for pod in one.pods}
    pods = iter(interchangeable(bound, present.values()))
    made = [
        msgspec.structs.replace(
            one,
            pods=tuple(islice(pods, len(specs))),
            unbound={name: own for name, spec, own in specs if own is not spec},
        )
        for one, specs in known
    ]
    return made, kept


def policy_of(pool: NodePool, machine: Machine) -> str:
    """Without a policy, machines with GPUs are only removed when they are empty."""
    given = pool.spec.disruption.consolidation_policy
    if given is not None:
        return given
    return WHEN_EMPTY if has_gpus(machine.claim, machine.node) else UNDERUTILIZED


def why_unwanted(machine: Machine, pool: NodePool | None, reason: Reason) -> str:
    """Why a command under way no longer has a cause, "" if it has: a user can take back what caused it.

    `pool`: None if it is not known. Nothing else ends a cause: pods and prices change while a replacement starts.
    """
    if reason == "Drifted":
        return "" if machine.claim.condition(DRIFTED, "True") is not None else "it is no longer drifted"
    return _not_consolidated(machine, pool) if reason == "Underutilized" and pool is not None else ""


def _not_consolidated(machine: Machine, pool: NodePool) -> str:
    """Why the NodePool states that this machine is not consolidated while pods use it, "" if it is."""
    if consolidate_after(pool) is None:
        return f'NodePool "{pool.name}" has consolidation disabled'
    if policy_of(pool, machine) == WHEN_EMPTY:
        return f'NodePool "{pool.name}" has consolidation policy WhenEmpty, but node is not empty'
    return ""


def cost_of(machine: Machine) -> float:
    """Of its disruption: 1, and the costs of the evictions of its pods."""
    return 1.0 + sum(max(0.0, pod.eviction.cost) for pod in machine.pods if pod.moves)


def price_of(machine: Machine, types: InstanceTypes) -> float:
    """USD an hour. Raises ValueError that states what is not known."""
    size, capacity_type = (_label(machine, key) for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE))
    price = types.price(counted_in(machine.claim), size, capacity_type, _label(machine, labels.ZONE))
    if price is None and all(one.name != size for one in types.types):
        raise ValueError(f'Instance Type "{size}" not found')
    if price is None:
        raise ValueError(f"price of {size} in {_label(machine, labels.REGION) or 'this region'} is unknown")
    return price


def _kept(machine: Machine, pool: NodePool, view: View) -> str:
    """Why the machine is not a candidate, "" if it is one."""
    node = machine.node
    if pool.spec.replicas is not None:
        return Unreported(f'NodePool "{pool.name}" is static')
    if why := _not_consolidated(machine, pool):
        return Unreported(why)
    if node is None or node.deleting or not is_initialized(machine):
        return NOT_INITIALIZED
    if why := machine.blocked or reserved(machine.claim, view.observed.node_classes):
        return why
    if machine.nominated_seconds > 0:
        return NOMINATED
    if machine.claim.condition(CONSOLIDATABLE, "True") is None:
        return f"NodeClaim is not Consolidatable: its pods changed within {_after(pool)}"
    return ""


def _candidate(machine: Machine, pool: NodePool, view: View) -> Candidate:
    """Raises ValueError if its price is not known."""
    return Candidate(
        machine=machine,
        pool=pool,
        policy=policy_of(pool, machine),
        node=machine.node.name if machine.node is not None else "",
        size=_label(machine, labels.INSTANCE_TYPE),
        capacity_type=_label(machine, labels.CAPACITY_TYPE),
        price=price_of(machine, view.types),
        cost=cost_of(machine),
    )


def reserved(claim: NodeClaim, node_classes: NodeClasses) -> str:
    """Why the removal of a machine saves nothing, "" if it may: a capacity reservation is billed with or without it."""
    known = node_classes.get(claim.spec.node_class_ref.name) if is_own(claim.spec.node_class_ref) else None
    group = known.spec.capacity_reservation_group_id if known is not None else ""
    return f"its capacity is reserved and paid for by {group.rpartition('/')[2]}" if group else ""


def is_initialized(machine: Machine) -> bool:
    """Whether the Node can run pods, as far as its NodeClaim and its label tell."""
    node = machine.node
    ready = node is not None and node.metadata.labels.get(labels.INITIALIZED) == "true"
    return ready and machine.claim.condition(INITIALIZED, "True") is not None


def _moving(
    one: Candidate, view: View, models: GpuModels, *, lose: bool
) -> Iterator[tuple[str, model.PodSpec, model.PodSpec]]:
    """The pods that need another place, kept on their GPU model and as they are.

    Raises ValueError for one that has none.
    """
    for pod in one.machine.pods:
        # A protection for a time can have passed, which `moves` does not tell.
        if pod.recreated and not pod.protects(view.now):
            try:
                spec = with_volumes(pod, view.observed.storage, view.types.cloud)
            except ValueError as error:
                raise ValueError(f"not all pods would schedule, {pod.name} => {error}") from None
            yield pod.name, models.kept(spec, one.size, one.node) if pod.eviction.gpus else spec, spec
        elif not (lose or pod.metadata.deleting):
            raise ValueError(f"Pod would not be created again elsewhere (Pod={pod.name})")


def _label(machine: Machine, key: str) -> str:
    """Of the Node, or of the NodeClaim if the Node lacks it. Raises ValueError if a machine must have it."""
    node = machine.node
    known = node.metadata.labels if node is not None else EMPTY
    value = known.get(key) or machine.claim.metadata.labels.get(key, "")
    if not value and key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE):
        raise ValueError(f'Node does not have label "{key}"')
    return value


def _after(pool: NodePool) -> str:
    return f"consolidateAfter {pool.spec.disruption.consolidate_after}"
