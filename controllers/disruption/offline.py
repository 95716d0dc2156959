"""One pass of the methods of disruption over objects that were read from files, and its result as JSON.

The condition Consolidatable stands for the time since the last pod event.

Source: docs/references/karpenter.md#disruption-budgets, docs/references/karpenter.md#consolidation.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.provisioning.decisions import NewNodeClaim, new_node_claim
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod, PodDigest
from controllers.provisioning.podspecs import podspec
from controllers.provisioning.provisionable import TERMINAL
from controllers.provisioning.scenario import NodeInput, Scenario
from provisioner.api import labels
from provisioner.api.conditions import CONSOLIDATABLE, READY
from provisioner.api.meta import Condition, Time
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.requirements import Requirement
from provisioner.api.schedulable import SchedulablePod
from provisioner.api.time import EARLIEST

from .blockers import with_blockers
from .command import Command
from .machine import Machine
from .methods import Pass
from .pod_budgets import PodBudgets
from .view import View, consolidation_budgets


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


def one_pass(scenario: DisruptionScenario, types: InstanceTypes, now: datetime) -> PassOutput:
    """What would be disrupted at this time. Raises ValueError that names an object which cannot be read."""
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


def _usable(pool: NodePool) -> NodePool:
    """The NodePool as one whose state is not known is used: Ready, and with both capacity types unless it has one."""
    spec = pool.spec.template.spec
    if not any(one.key == labels.CAPACITY_TYPE for one in spec.requirements):
        both = Requirement(key=labels.CAPACITY_TYPE, operator="Exists")
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
