"""`explain` of a Pod: where the next scheduling decision places it, and for each NodePool what it would buy or why not.

The first answer is one decision about all pending pods, as the controller makes it. Those of the NodePools are
decisions about this pod alone, as if no existing machine had room.
"""

import msgspec

from controllers.provisioning.cluster import ClusterSnapshot
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver import model
from controllers.provisioning.solver.solver import Solver
from provisioner.api import labels
from provisioner.api.conditions import READY
from provisioner.api.zones import is_regional

from .explain_answer import Answer, Entry, prices_of, usd
from .explain_claim import explain_claim
from .explain_world import World

MEMORY = (
    "Nodes that kube-scheduler refused, how long pods wait, and offerings that lately failed for NodeClaims that are"
    " gone: only the running controller remembers them"
)
NAMES_MAX = 5


async def explain_pod(world: World, name: str) -> Answer:
    """What happens to the pod `namespace/name`."""
    pod = world.provisioning.demand.pods.get(name)
    if not isinstance(pod, CachedPod):
        return Answer(kind="Pod", name=name, answer="needs no machine: it has ended")
    if pod.spec.node_name:
        return await _placed(world, name, pod.spec.node_name, f"is on Node {pod.spec.node_name}", world.unread)
    if pod.waits_for:
        return Answer(kind="Pod", name=name, answer=f"no machine is bought for it: {pod.waits_for}")
    found, decision = await world.provisioning.provisioner.preview(world.types)
    place = next((node for node, names in decision.existing.items() if name in names), "")
    if place:
        answer = f"has room on {found.places.get(place, f'node/{place}')}"
        return await _placed(world, name, place, answer, (*world.unread, MEMORY))
    machine, facts = (
        next((one for one in decision.machines if name in one.pods), None),
        {"note": found.notes.get(name, "")},
    )
    if machine is not None:
        verb = "would run" if world.unread else "will run"  # quota and capacity may be unknown
        answer = f"{verb} on a new {_shown(machine)}, {usd(machine.price)} from NodePool {machine.node_pool}"
        facts |= {
            "zones": _listed(_zones(machine)) or "any",
            "orInstead": _listed(machine.instance_types[1:]),
            "togetherWith": _listed([one for one in machine.pods if one != name]),
            "prices": prices_of(world.region, world.types),
        }
    else:
        why = found.errors.get(name) or decision.errors.get(name, "")
        answer = f"stays pending: {'no NodePool has a machine for it' if why.startswith('NodePool ') else why}"
    pools = {"nodePools": _node_pools(found, name)}
    return Answer(kind="Pod", name=name, answer=answer, facts=facts, parts=pools, unknown=(*world.unread, MEMORY))


async def _placed(world: World, name: str, place: str, answer: str, unknown: tuple[str, ...]) -> Answer:
    """The answer about a pod with room on the Node or the NodeClaim of this name, and what that one waits for."""
    claim = next((one for one in world.caches.claims.items() if place in (one.name, one.status.node_name)), None)
    if claim is None:
        return Answer(kind="Pod", name=name, answer=answer, unknown=unknown)
    of_claim = await explain_claim(world, claim)
    if claim.deleting or claim.condition(READY, "True") is None:
        answer = f"{answer}, {of_claim.answer}"
    facts = {"nodeClaim": claim.name, **{key: of_claim.facts[key] for key in ("why", "nodePool", "price")}}
    return Answer(kind="Pod", name=name, answer=answer, facts=facts, unknown=unknown)


def _node_pools(found: ClusterSnapshot, name: str) -> tuple[Entry, ...]:
    """What each NodePool would buy for this pod alone, or why it buys nothing."""
    pods = [one for one in found.snapshot.pods if one.name == name]
    rows = [Entry(name=pool, answer=f"not used: {why}") for pool, why in found.unusable.items()]
    rows += [_alone(found.snapshot, pool, pod) for pod in pods for pool in found.snapshot.node_pools]
    return tuple(sorted(rows, key=lambda one: one.name))


def _alone(snapshot: model.Snapshot, pool: model.NodePool, pod: model.Pod) -> Entry:
    full = [one.name for one in snapshot.nodes]
    decision = Solver(msgspec.structs.replace(snapshot, pods=(pod,), node_pools=(pool,))).solve((pod,), full=full)
    for machine in decision.machines:
        weight = f", weight {pool.weight}" if pool.weight else ""
        return Entry(name=pool.name, answer=f"for a {_shown(machine)}{weight}", price=machine.price)
    return Entry(name=pool.name, answer=decision.errors.get(pod.name, "").removeprefix(f"NodePool {pool.name}: "))


def _shown(machine: model.NewMachine) -> str:
    zones, kinds = _zones(machine), machine.requirements.get(labels.CAPACITY_TYPE)
    where = where_of(zones[0]) if len(zones) == 1 else ""
    return f"{machine.instance_types[0]}{where}{' (spot)' if kinds is not None and kinds.allows('spot') else ''}"


def _zones(machine: model.NewMachine) -> list[str]:
    """Those that the machine may be in; none for any."""
    zone = machine.requirements.get(labels.ZONE)
    return [] if zone is None or zone.complement else sorted(zone.values)


def where_of(zone: str) -> str:
    """The value of a zone label in words."""
    return "" if is_regional(zone) else f" in zone {zone}"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names[:NAMES_MAX]) + (f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else "")
