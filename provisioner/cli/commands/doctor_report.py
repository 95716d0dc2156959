"""The report of `doctor`: for each machine its GPUs, the cause if some are missing, and the workloads kept away."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from controllers.model.conditions import was_usable
from controllers.model.diagnosis import Diagnosis, Workloads
from controllers.model.facts import Facts
from controllers.model.readiness import recorded_taints
from controllers.node.health.diagnosis import diagnose
from controllers.node.health.placement import OPERATOR_KINDS, snippet
from controllers.nodeclaim.lifecycle import dra
from controllers.nodeclaim.lifecycle.gpu_resources import gpu_state
from provisioner.api.conditions import INITIALIZED, LAUNCHED, REGISTERED
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Toleration
from provisioner.api.workload import Job

from .console import counted, moment
from .doctor_workloads import AddedToleration, Missing, missing


class PluginPod(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why GPUs are missing. `object`: the workload or pod that is concerned, "" if there is none. `tolerations`: those
    that the device plugin lacks, to be added to `add_to`."""

    cause: str
    object: str
    message: str
    remedy: str
    since: datetime | None
    details: tuple[str, ...]
    plugin_pod: PluginPod | None
    tolerations: tuple[AddedToleration, ...] = ()
    add_to: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One NodeClaim and its Node, "" without one.

    `ready`: it is initialized, with all its GPUs. `waits_for`: the first condition that is not True.
    `resource` "": no GPUs are expected. `driver`: the DRA driver that publishes them, "": a device plugin does;
    `allocatable` counts those in its complete pools. `startup_taints`: those that are still on the Node.
    """

    claim: str
    node: str
    ready: bool
    waits_for: str
    resource: str
    driver: str
    allocatable: int
    expected: int
    diagnosis: Finding | None
    startup_taints: tuple[str, ...]
    workloads: tuple[Missing, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`ready`: how many NodeClaims have all their GPUs; `without_node`: how many have no Node yet."""

    machines: tuple[Machine, ...]
    ready: int
    without_node: int


def source_of(f: Facts) -> str:
    """The DRA driver, or the extended resource, of the GPUs of this machine; "" if none are expected."""
    state = gpu_state(f)
    return state.source if state is not None and state.expected else ""


def is_open(f: Facts) -> bool:
    """Whether the claim is initialized and its Node shows all GPUs."""
    state, claim = gpu_state(f), f.claim
    initialized = claim is not None and claim.condition(INITIALIZED, "True") is not None
    return initialized and f.node is not None and (state is None or not state.short)


def machine(f: Facts, found: Workloads, jobs: Sequence[Job]) -> Machine:
    """The report of one machine."""
    claim, node, state = f.claim or NodeClaim(), f.node, gpu_state(f)
    startup, cause, rest = (*claim.spec.startup_taints, *recorded_taints(claim)), None, tuple[Missing, ...]()
    if node is not None:
        since = _since(claim, node, f.now)
        rest = missing(found, jobs, node, f.gpus.resource, startup)
        if state is not None and not state.unknown:
            cause = diagnose(node, state, msgspec.structs.replace(found, since=since), startup)
    return Machine(
        claim=claim.name,
        node=node.name if node is not None else "",
        ready=is_open(f),
        waits_for=_waits_for(claim),
        resource=state.resource if state is not None else "",
        driver=dra.gpu_driver(f),
        allocatable=state.allocatable if state is not None else 0,
        expected=state.expected if state is not None else 0,
        diagnosis=_finding(cause, rest) if cause is not None else None,
        startup_taints=_present(startup, node),
        workloads=rest,
    )


def _since(claim: NodeClaim, node: Node, now: datetime) -> datetime:
    """Since when the GPUs are missing, as far as the objects tell."""
    lost, ready = claim.condition(INITIALIZED, "False"), node.ready_condition
    if lost is not None:
        return lost.last_transition_time
    first = ready.last_transition_time if ready is not None and not was_usable(claim) else None
    return first or now


def _waits_for(claim: NodeClaim) -> str:
    for kind in (LAUNCHED, REGISTERED, INITIALIZED):
        found = claim.condition(kind, "Unknown", "False")
        if found is not None:
            return f"{kind} is {found.status}: {found.reason}: {found.message}"
    return ""


def _present(startup: Iterable[Taint], node: Node | None) -> tuple[str, ...]:
    on_node = node.spec.taints if node is not None else ()
    return tuple(str(one) for one in on_node if any(one.matches(other) for other in startup))


def _finding(found: Diagnosis, rest: Sequence[Missing]) -> Finding:
    pod = found.plugin_pod
    lacking = next((one for one in rest if found.object == _name(one)), None)
    return Finding(
        cause=found.cause.value,
        object=found.object,
        message=found.cause_text,
        remedy=found.remedy,
        since=found.since,
        details=found.details,
        plugin_pod=PluginPod(namespace=pod.namespace, name=pod.name) if pod is not None else None,
        tolerations=lacking.tolerations if lacking is not None else (),
        add_to=lacking.add_to if lacking is not None else "",
    )


# The text


def lines(found: Report) -> Iterator[str]:
    """The report for people."""
    for one in found.machines:
        yield from _of_machine(one)
        yield ""
    rest = f", {counted(found.without_node, 'NodeClaim')} without a Node" if found.without_node else ""
    closed = sum(not one.ready for one in found.machines)
    if closed:
        verb = "lacks GPUs or is not initialized" if closed == 1 else "lack GPUs or are not initialized"
        yield f"{counted(closed, 'machine')} {verb}; {found.ready} ready{rest}"
    else:
        yield f"every Node has its GPUs: {found.ready} ready{rest}"


def _of_machine(one: Machine) -> Iterator[str]:
    yield f"NodeClaim {one.claim}, {f'Node {one.node}' if one.node else 'no Node yet'}"
    if one.waits_for:
        yield f"  {one.waits_for}"
    if one.resource and one.expected:
        what, where = (f"DRA driver {one.driver}", "published") if one.driver else (one.resource, "allocatable")
        yield f"  {what}: {one.allocatable} of {one.expected} {where}"
    if one.diagnosis is not None:
        yield from _of_finding(one.diagnosis)
    for taint in one.startup_taints:
        yield f"  startup taint: {taint}; its owner must remove it"
    others = [other for other in one.workloads if one.diagnosis is None or not _is_about(one.diagnosis, other)]
    if others:
        yield "  other workloads that do not run on the Node:"
    for other in others:
        by_operator = any(kind in other.add_to for kind in OPERATOR_KINDS)
        owned = f"; add to {other.add_to}:" if other.tolerations and by_operator else ""
        yield f"    {_name(other)} {other.problem}{owned}"
        yield from _tolerations(other.tolerations, 6)


def _is_about(found: Finding, other: Missing) -> bool:
    """Whether the cause concerns this workload, or its pod."""
    pod = found.plugin_pod
    return found.object == _name(other) or (pod is not None and other.pod == f"{pod.namespace}/{pod.name}")


def _of_finding(found: Finding) -> Iterator[str]:
    yield f"  cause: {found.cause}: {found.message}"
    if found.since is not None:
        yield f"  since: {moment(found.since)}"
    for detail in found.details:
        yield f"  seen: {detail}"
    if found.tolerations:
        yield f"  remedy: add to {found.add_to}:"
        yield from _tolerations(found.tolerations, 4)
    else:
        yield f"  remedy: {found.remedy}"


def _tolerations(added: Iterable[AddedToleration], indent: int) -> tuple[str, ...]:
    found = [Toleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect) for one in added]
    return snippet(found, indent=indent) if found else ()


def _name(one: Missing) -> str:
    return f"{one.kind} {one.namespace}/{one.name}"
