"""One pass of all methods of disruption over objects that were read from files, with shared budgets.

Machines that are removed because they are empty come first, then those that have drifted, then at most one command of
consolidation. The condition Consolidatable stands for the time since the last pod event.

Source: docs/references/karpenter.md#disruption-budgets, docs/references/karpenter.md#consolidation.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.provisioning.decisions import NewNodeClaim, new_node_claim
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.observed import Observed
from controllers.provisioning.offered import settings_of
from controllers.provisioning.pods import CachedPod, PodDigest
from controllers.provisioning.podspecs import podspec
from controllers.provisioning.provisionable import TERMINAL
from controllers.provisioning.scenario import NodeInput, Scenario, model_instance_type, well_known_labels
from controllers.provisioning.solver.model import NewMachine
from controllers.provisioning.static_machine import static_machine
from provisioner.api import labels
from provisioner.api.conditions import CONSOLIDATABLE, READY
from provisioner.api.meta import Condition, Time
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool, PoolRequirement
from provisioner.api.owner import is_member
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.schedulable import SchedulablePod
from provisioner.api.time import EARLIEST

from .blockers import empty, with_blockers
from .candidates import price_of
from .command import Command
from .consolidation import consolidate
from .drift import NO_BUDGET, drift, is_drifted
from .emptiness import decide
from .leftovers import kept_by_pods
from .machine import Machine, budget_left
from .places import for_pods
from .pod_budgets import PodBudgets
from .static_drift import static_drift
from .view import View

EMPTY_BUDGET = "No allowed disruptions for disruption reason Empty due to blocking budget"
EMPTY_WAITS = "It is empty and waits for consolidateAfter"


class DisruptionScenario(Scenario, frozen=True, kw_only=True, rename="camel"):
    """All that one pass depends on."""

    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] | None = ()
    now: Time | None = None


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


def one_pass(scenario: DisruptionScenario, now: datetime) -> PassOutput:
    """What would be disrupted at this time. Raises ValueError that names an object which cannot be read."""
    types = InstanceTypes(
        types=tuple(model_instance_type(one) for one in scenario.instance_types or ()),
        well_known=well_known_labels(scenario),
    )
    entries, digest = [_joined(one) for one in scenario.nodes or ()], PodDigest()
    bound = {one.node.name: _cached(one.pods, digest) for one in entries if one.node is not None}
    pending = (_pending(one) for one in _cached(scenario.pods or (), digest))
    observed = Observed(
        node_pools=tuple(_usable(one) for one in scenario.node_pools or ()),
        nodes=tuple(one.node for one in entries if one.node is not None),
        claims=tuple(one.node_claim for one in entries if one.node_claim is not None),
        pods=(*(pod for pods in bound.values() for pod in pods), *pending),
        daemons=tuple(podspec(one) for one in scenario.daemon_pods or ()),
        max_new=scenario.max_new_node_claims,
        node_classes={one.name: one for one in scenario.node_classes or ()},
        namespaces={one.metadata.name: one.metadata.labels for one in scenario.namespaces or ()},
    )
    budgets = PodBudgets(scenario.pod_disruption_budgets or ())
    machines = [
        _machine(one, one.node_claim, bound.get(_node_name(one), ()), budgets, now)
        for one in entries
        if one.node_claim is not None
    ]
    return pass_over(observed, types, machines, now)


def pass_over(observed: Observed, types: InstanceTypes, machines: Iterable[Machine], now: datetime) -> PassOutput:
    """The same for machines of the NodePools in `observed`; how long each is quiet is taken from its NodeClaim."""
    quiet = (msgspec.structs.replace(one, quiet_since=_quiet_since(one.claim, now)) for one in machines)
    return _Pass(observed, types, quiet, now).output()


class _Pass:
    """The machines of one pass; those of earlier commands use the budgets of later ones."""

    def __init__(self, observed: Observed, types: InstanceTypes, machines: Iterable[Machine], now: datetime) -> None:
        self._now = now
        self._types = types
        self._pools = tuple(observed.node_pools)
        self._observed = observed
        self._machines = {one.claim.uid: one for one in machines}
        self._commands: list[Command] = []
        self._kept: dict[str, str] = {}

    def output(self) -> PassOutput:
        """All methods in the order of the controller."""
        self._empty()
        self._drifted()
        found = consolidate(self._view())
        if found.command is not None:
            self._begin(found.command)
        kept = {**found.kept, **self._kept}
        gone = {one.claim.uid for command in self._commands for one in command.machines}
        names = {one.claim.name: _shown(one) for uid, one in self._machines.items() if uid not in gone}
        return PassOutput(
            commands=tuple(_output(one) for one in self._commands),
            # A cause may be a subclass of str, which JSON does not encode.
            blocked={names[name]: str(why) for name, why in sorted(kept.items()) if name in names},
        )

    def _empty(self) -> None:
        removed = list[Machine]()
        for pool in self._pools:
            machines = self._of(pool)
            found = decide(pool, machines, self._now)
            kept = kept_by_pods(self._view(), pool, found.remove)
            gone = {one.claim.uid for one in found.remove} - kept.keys()
            removed += [one for one in found.remove if one.claim.uid in gone]
            waiting = [one for one in machines if one.claim.uid not in gone and empty(one) and not one.going]
            why = EMPTY_BUDGET if found.blocked else EMPTY_WAITS
            if pool.spec.replicas is None:
                self._kept |= {one.claim.name: kept.get(one.claim.uid) or one.blocked or why for one in waiting}
        if removed:
            saving = sum(self._price(one) for one in removed)
            self._begin(Command(reason="Empty", machines=tuple(removed), saving=saving))

    def _static_machine(self, pool: NodePool) -> NewMachine | None:
        settings = settings_of(pool.spec.template.spec.node_class_ref, self._observed.node_classes)
        return static_machine(pool, self._types, settings)

    def _drifted(self) -> None:
        for pool in self._pools:
            static = static_drift(pool, self._of(pool), self._now, max_new=self._observed.max_new)
            replacement = self._static_machine(pool) if static.replace else None
            self._kept |= static.kept
            if static.held:
                self._kept |= {one.claim.name: static.held for one in self._of(pool) if is_drifted(one)}
            replacements = (replacement,) if replacement is not None else ()
            for machine in static.replace if replacements else ():
                wanted = Command(reason="Drifted", machines=(machine,), replacements=replacements)
                command = for_pods(self._view(), wanted)
                if isinstance(command, Command):
                    self._begin(command)
                else:
                    self._kept[machine.claim.name] = command
        while True:
            found = drift(self._view())
            if found.command is None:
                break
            self._begin(found.command)
        over = [one for pool in self._pools if pool.name in found.no_budget for one in self._of(pool)]
        self._kept |= {**found.kept, **{one.claim.name: NO_BUDGET for one in over if is_drifted(one)}}

    def _begin(self, command: Command) -> None:
        self._commands.append(command)
        for one in command.machines:
            self._machines[one.claim.uid] = msgspec.structs.replace(one, leaving=True)
            self._kept.pop(one.claim.name, None)
        if self._observed.max_new is not None:
            left = max(0, self._observed.max_new - len(command.replacements))
            self._observed = msgspec.structs.replace(self._observed, max_new=left)

    def _of(self, pool: NodePool) -> list[Machine]:
        return [one for one in self._machines.values() if is_member(one.claim, pool)]

    def _view(self) -> View:
        budgets = {pool.name: budget_left(pool, self._of(pool), "Underutilized", self._now) for pool in self._pools}
        machines = tuple(self._machines.values())
        return View(observed=self._observed, types=self._types, machines=machines, budgets=budgets, now=self._now)

    def _price(self, one: Machine) -> float:
        try:
            return price_of(one, self._types.types)
        except ValueError:
            return 0.0


def _usable(pool: NodePool) -> NodePool:
    """The NodePool as one whose state is not known is used: Ready, and with both capacity types unless it has one."""
    spec = pool.spec.template.spec
    if not any(one.key == labels.CAPACITY_TYPE for one in spec.requirements):
        both = PoolRequirement(key=labels.CAPACITY_TYPE, operator="Exists")
        spec = msgspec.structs.replace(spec, requirements=(*spec.requirements, both))
    template = msgspec.structs.replace(pool.spec.template, spec=spec)
    status = pool.status
    if not any(one.type == READY for one in status.conditions):
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


def _cached(pods: Iterable[SchedulablePod], digest: PodDigest) -> tuple[CachedPod, ...]:
    """Those that have not ended, as the controller caches them, without their volumes."""
    made = (digest(one) for one in pods if one.status.phase not in TERMINAL)
    return tuple(msgspec.structs.replace(one, claims=()) for one in made if isinstance(one, CachedPod))


def _pending(pod: CachedPod) -> CachedPod:
    """A pod without a Node is pending, whatever its conditions are."""
    return msgspec.structs.replace(pod, waits_for="")


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
