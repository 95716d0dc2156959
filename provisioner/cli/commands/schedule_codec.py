"""Scenarios and decisions of `schedule` as JSON.

A scenario is read into what the caches of the controller hold, so that the controller's own decisions are made about
it. NodePools whose state is not known are used, kube-scheduler has tried to place all pods, volumes do not count, and
devices of ResourceClaims are not known. The condition Consolidatable stands for the time since the last pod event.

Source: docs/references/karpenter.md#scheduling, docs/references/karpenter.md#disruption-budgets,
docs/references/karpenter.md#consolidation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from cloudprovider.cloud import Cloud, InstanceOffering, InstanceType
from controllers.disruption.blockers import with_blockers
from controllers.disruption.command import Command
from controllers.disruption.machine import Machine
from controllers.disruption.methods import Pass
from controllers.disruption.pod_budgets import PodBudgets
from controllers.disruption.view import View, consolidation_budgets
from controllers.provisioning.cluster import ClusterSnapshot, cluster_snapshot
from controllers.provisioning.instances import WELL_KNOWN, InstanceTypes
from controllers.provisioning.nodeclaims import OF_NODE
from controllers.provisioning.nodepools import provisions
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod, PodDigest
from controllers.provisioning.podspecs import podspec
from controllers.provisioning.solver.model import Decision, NewMachine, PodSpec, Snapshot
from controllers.provisioning.solver.reasons import quantities
from controllers.provisioning.solver.resources import parse, total
from provisioner.api import labels
from provisioner.api.conditions import CONSOLIDATABLE, READY
from provisioner.api.meta import EMPTY, Condition, Taint, Time
from provisioner.api.namespace import Namespace
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod, PodCondition, Quantities
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.requirements import Requirement, Requirements, combine, normalise_key, of_entries
from provisioner.api.time import EARLIEST
from provisioner.api.value_sets import one_of

from .schedule_alternatives import Alternative, alternatives
from .schedule_fleet import FleetMachine, fleet

UNREAD = "the devices of its ResourceClaims are not known: they are not read of manifests"


class OfferingInput(msgspec.Struct, frozen=True, kw_only=True):
    """An offering of an instance type; see `InstanceOffering`."""

    zone: str = msgspec.field(default="", name="Zone")
    capacity_type: str = msgspec.field(default="on-demand", name="CapacityType")
    price: float | None = msgspec.field(default=None, name="Price")
    order_price: float | None = msgspec.field(default=None, name="OrderPrice")
    available: bool = msgspec.field(default=True, name="Available")
    cause: str = msgspec.field(default="", name="Cause")
    requirements: tuple[Requirement, ...] = msgspec.field(default=(), name="Labels")
    taints: tuple[Taint, ...] = msgspec.field(default=(), name="Taints")
    quotas: Mapping[str, int] = msgspec.field(default={}, name="Quotas")


class InstanceTypeInput(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type; `overhead`: what system and kubelet reserve, whole or divided by purpose."""

    name: str
    requirements: tuple[Requirement, ...] = ()
    capacity: Quantities = EMPTY
    overhead: Mapping[str, str | int | float | dict[str, str | int | float] | None] = {}
    offerings: tuple[OfferingInput, ...] = ()


class NodeInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Node, its NodeClaim, or both, and the pods that run on it."""

    node: Node | None = None
    node_claim: NodeClaim | None = None
    pods: tuple[Pod, ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that one decision depends on. `max_new_node_claims`: how many NodeClaims may still be created.

    `pod_disruption_budgets` and `now` concern disruption only; `now` None: the time of the decision.
    """

    node_pools: tuple[NodePool, ...] | None = ()
    instance_types: tuple[InstanceTypeInput, ...] | None = ()
    daemon_pods: tuple[Pod, ...] | None = ()
    nodes: tuple[NodeInput, ...] | None = ()
    pods: tuple[Pod, ...] | None = ()
    well_known_labels: tuple[str, ...] | None = ()
    node_classes: tuple[AgentPoolNodeClass, ...] | None = ()
    namespaces: tuple[Namespace, ...] | None = ()
    max_new_node_claims: int | None = None
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] | None = ()
    now: Time | None = None


class NewNodeClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A NodeClaim to create. `price`: of the first instance type, USD an hour; None if it is not known.

    `alternatives`: what it could be instead of the first instance type.
    """

    node_pool: str
    pods: tuple[str, ...]
    instance_types: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    requests: Mapping[str, str]
    price: float | None
    alternatives: tuple[Alternative, ...] = ()


class DecisionOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`micros`: how long the decision took, in microseconds of wall time. `fleet`: only if no pod is pending."""

    new_node_claims: tuple[NewNodeClaim, ...]
    existing: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, str]
    micros: int
    fleet: tuple[FleetMachine, ...] | None = None


class CommandOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be disrupted now. `saving`: USD an hour."""

    reason: str
    decision: str
    nodes: tuple[str, ...]
    replacements: tuple[NewNodeClaim, ...]
    saving: float


class PassOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`blocked`: why other machines are kept, by the name of the Node. `micros`: wall time of the decisions."""

    commands: tuple[CommandOutput, ...]
    blocked: Mapping[str, str]
    micros: int = 0


def types_of(scenario: Scenario, cloud: Cloud) -> InstanceTypes:
    """The instance types that the scenario states. Raises ValueError that names the field."""
    named = frozenset(normalise_key(key) for key in scenario.well_known_labels or ())
    types = tuple(_instance_type(one) for one in scenario.instance_types or ())
    return InstanceTypes(types=types, well_known=WELL_KNOWN | named, cloud=cloud)


def snapshot(scenario: Scenario, types: InstanceTypes) -> ClusterSnapshot:
    """What decisions about pending pods read. Raises ValueError that names an object other than a pod."""
    _, _, observed = _read(scenario)
    provisioning = tuple(one for one in observed.node_pools if provisions(one))
    found = cluster_snapshot(msgspec.structs.replace(observed, node_pools=provisioning), types)
    if wrong := (*found.unusable.values(), *(why for _, why in found.unreadable)):
        raise ValueError(wrong[0])
    pods = [one for one in observed.pods if isinstance(one, CachedPod)]
    unread = {one.name: UNREAD for one in pods if one.devices and one.name in found.errors}
    waiting = {one.name: f"no machine is bought for it: {one.waits_for}" for one in pods if one.waits_for}
    return msgspec.structs.replace(found, errors={**found.errors, **unread, **waiting})


def fleet_of(scenario: Scenario, types: InstanceTypes) -> tuple[FleetMachine, ...]:
    """The machines that exist. Raises ValueError that names an object which cannot be read."""
    return fleet(_read(scenario)[2], types)


def output(found: Snapshot, decision: Decision, errors: Mapping[str, str], micros: int) -> DecisionOutput:
    """The decision for programs. `errors`: of pods that could not be decoded."""
    return DecisionOutput(
        new_node_claims=tuple(new_node_claim(machine, alternatives(machine, found)) for machine in decision.machines),
        existing=decision.existing,
        errors={**errors, **decision.errors},
        micros=micros,
    )


def one_pass(scenario: Scenario, types: InstanceTypes, now: datetime) -> PassOutput:
    """What would be disrupted at this time. Raises ValueError that names an object which cannot be read."""
    entries, bound, observed = _read(scenario)
    budgets = PodBudgets(scenario.pod_disruption_budgets or ())
    machines = tuple(
        _machine(one, one.node_claim, bound.get(_node_name(one), ()), budgets, now)
        for one in entries
        if one.node_claim is not None
    )
    return pass_over(
        View(
            observed=observed,
            types=types,
            node_pools=observed.node_pools,
            machines=machines,
            budgets=consolidation_budgets(observed.node_pools, machines, now),
            now=now,
        )
    )


def pass_over(view: View) -> PassOutput:
    """One pass over this view; how long each machine is quiet is taken from its NodeClaim."""
    quiet = tuple(msgspec.structs.replace(one, quiet_since=_quiet_since(one.claim, view.now)) for one in view.machines)
    done = Pass(msgspec.structs.replace(view, machines=quiet))
    done.run_all()
    names = {one.claim.name: _shown(one) for one in quiet}
    return PassOutput(
        commands=tuple(_output(one) for one in done.commands),
        # A cause may be a subclass of str, which JSON does not encode.
        blocked={names[name]: str(why) for name, why in sorted(done.kept.items())},
    )


def new_node_claim(machine: NewMachine, others: tuple[Alternative, ...] = ()) -> NewNodeClaim:
    """A planned machine for programs."""
    # `registered` and `initialized` only decide which daemon pods count; a NodeClaim does not require them.
    wanted = {key: allowed for key, allowed in machine.requirements.items() if key not in OF_NODE}
    return NewNodeClaim(
        node_pool=machine.node_pool,
        pods=machine.pods,
        instance_types=machine.instance_types,
        requirements=_requirements(wanted),
        requests=quantities(machine.requests),
        price=machine.price,
        alternatives=others,
    )


def _requirements(found: Requirements) -> tuple[Requirement, ...]:
    """Requirements as the NodeClaim has them; bounds become Gte and Lte."""
    entries = []
    for key, allowed in sorted(found.items()):
        bounds = (("Gte", allowed.least), ("Lte", allowed.most))
        entries += [
            Requirement(key=key, operator=operator, values=(str(bound),))
            for operator, bound in bounds
            if bound is not None
        ]
        if allowed.values or all(bound is None for _, bound in bounds):
            entries.append(
                Requirement(
                    key=key,
                    operator=allowed.operator,
                    values=tuple(sorted(allowed.values)),
                    min_values=allowed.min_values or None,
                )
            )
    return tuple(entries)


def _instance_type(found: InstanceTypeInput) -> InstanceType:
    try:
        capacity = parse(found.capacity)
        overhead = _overhead(found.overhead)
        requirements = combine({labels.INSTANCE_TYPE: one_of((found.name,))}, of_entries(found.requirements))
    except ValueError as error:
        raise ValueError(f"instance type {found.name}: {error}") from None
    return InstanceType(
        name=found.name,
        requirements=requirements,
        capacity=capacity,
        allocatable={name: max(0, amount - overhead.get(name, 0)) for name, amount in capacity.items()},
        offerings=tuple(
            InstanceOffering(
                zone=one.zone,
                capacity_type=one.capacity_type or "on-demand",
                price=one.price,
                order_price=one.order_price,
                available=one.available,
                cause=one.cause,
                requirements=of_entries(one.requirements),
                taints=one.taints,
                quotas=one.quotas,
            )
            for one in found.offerings
        ),
    )


def _overhead(found: Mapping[str, str | int | float | dict[str, str | int | float] | None]) -> dict[str, int]:
    """The sum of an overhead that is divided by purpose, such as kubeReserved, or the overhead itself."""
    parts = [parse(part) for part in found.values() if isinstance(part, dict)]
    flat = parse({name: part for name, part in found.items() if part is not None and not isinstance(part, dict)})
    return total((*parts, flat))


def _read(scenario: Scenario) -> tuple[list[NodeInput], dict[str, tuple[CachedPod, ...]], Observed]:
    """The machines, the pods on them by the name of their Node, and what the caches of a controller would hold."""
    entries, digest = [_joined(one) for one in scenario.nodes or ()], PodDigest()
    bound = {one.node.name: _cached(one.pods, digest) for one in entries if one.node is not None}
    pending = _cached((_tried(one) for one in scenario.pods or () if not one.metadata.deleting), digest)
    observed = Observed(
        node_pools=tuple(_usable(one) for one in scenario.node_pools or ()),
        nodes=tuple(one.node for one in entries if one.node is not None),
        claims=tuple(one.node_claim for one in entries if one.node_claim is not None),
        pods=(*(pod for pods in bound.values() for pod in pods), *pending),
        daemons=tuple(_daemons(scenario.daemon_pods or ())),
        max_new=scenario.max_new_node_claims,
        node_classes={one.name: one for one in scenario.node_classes or ()},
        namespaces={one.metadata.name: one.metadata.labels for one in scenario.namespaces or ()},
    )
    return entries, bound, observed


def _daemons(pods: Iterable[Pod]) -> Iterator[PodSpec]:
    """Those that can be scheduled, as the controller counts DaemonSets."""
    for one in pods:
        with suppress(ValueError):
            yield podspec(one)


def _usable(pool: NodePool) -> NodePool:
    """The NodePool as one whose state is not known is used: Ready, and with both capacity types unless it has one."""
    spec = pool.spec.template.spec
    if not any(one.key == labels.CAPACITY_TYPE for one in spec.requirements):
        both = Requirement(key=labels.CAPACITY_TYPE, operator="Exists")
        spec = msgspec.structs.replace(spec, requirements=(*spec.requirements, both))
    template = msgspec.structs.replace(pool.spec.template, spec=spec)
    status = pool.status
    if pool.condition(READY) is None:
        ready = Condition(type=READY, status="True", last_transition_time=EARLIEST)
        status = msgspec.structs.replace(status, conditions=(*status.conditions, ready))
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, template=template), status=status)


def _joined(found: NodeInput) -> NodeInput:
    """The entry with what the names of its objects imply."""
    if found.node is None and found.node_claim is None:
        raise ValueError("an entry of nodes has neither a node nor a nodeClaim")
    name, claim = found.node.name if found.node is not None else "", found.node_claim
    if claim is not None:
        status = msgspec.structs.replace(claim.status, node_name=name)
        meta = msgspec.structs.replace(claim.metadata, uid=claim.uid or claim.name)
        claim = msgspec.structs.replace(claim, metadata=meta, status=status)
    pods = (msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name=name)) for one in found.pods)
    return NodeInput(node=found.node, node_claim=claim, pods=tuple(pods))


def _cached(pods: Iterable[Pod], digest: PodDigest) -> tuple[CachedPod, ...]:
    """Those that have not ended, as the controller caches them, without their volumes."""
    made = (digest(one) for one in pods if not one.ended)
    return tuple(msgspec.structs.replace(one, claims=()) for one in made if isinstance(one, CachedPod))


def _tried(pod: Pod) -> Pod:
    """The pod as one that kube-scheduler found unschedulable, which no manifest states."""
    conditions = (PodCondition(type="PodScheduled", status="False", reason="Unschedulable"),)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


def _machine(
    found: NodeInput, claim: NodeClaim, bound: Sequence[CachedPod], budgets: PodBudgets, now: datetime
) -> Machine:
    pods = tuple(pod for pod in bound if pod.own)
    made = Machine(claim=claim, node=found.node, pods=pods, quiet_since=now)
    return with_blockers(made, bound, budgets, now)


def _quiet_since(claim: NodeClaim, now: datetime) -> datetime:
    return EARLIEST if claim.condition(CONSOLIDATABLE, "True") is not None else now


def _node_name(found: NodeInput) -> str:
    return found.node.name if found.node is not None else ""


def _shown(one: Machine) -> str:
    return one.node.name if one.node is not None else one.claim.name


def _output(command: Command) -> CommandOutput:
    return CommandOutput(
        reason=command.reason,
        decision=command.decision,
        nodes=tuple(_shown(one) for one in command.machines),
        replacements=tuple(new_node_claim(one) for one in command.replacements),
        saving=round(command.saving, 6),
    )
