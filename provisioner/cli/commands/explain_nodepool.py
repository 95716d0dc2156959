"""`explain` of a NodePool: what each machine costs, why it stays, and what disruption would do now."""

import math

from controllers.disruption.candidates import price_of
from controllers.disruption.expiration import expires_at
from controllers.disruption.machine import Machine, budget_use, count_of
from controllers.nodepool.cost_limit import limits_of
from controllers.nodepool.replica_schedules import desired
from controllers.planner.plan import phase_of
from controllers.provisioning.nodepools import why_unusable
from provisioner.api import labels
from provisioner.api.causes import REASONS
from provisioner.api.nodepool import NodePool
from provisioner.api.object_errors import OBJECT_ERRORS
from provisioner.api.time import format_duration

from .console import counted
from .explain_answer import Answer, Entry, prices_of, usd
from .explain_pod import where_of
from .explain_world import World
from .schedule_codec import CommandOutput, PassOutput, pass_over

MEMORY = (
    "when pods last changed on a machine (the condition Consolidatable counts instead), on which machines pods are"
    " expected, and which replacements were undone, whose machines wait: only the running controller remembers them"
)
NOTHING = "no method of disruption concerns it"
UNKNOWN = "whether a method of disruption concerns it is not known"


async def explain_nodepool(world: World, pool: NodePool) -> Answer:
    """The machines of the NodePool. Disruption is decided for all NodePools, whose machines take each other's pods."""
    machines, unusable = world.provisioning.machines.of(pool), why_unusable(pool)
    decided, failed = PassOutput(commands=(), blocked={}), ""
    if not unusable:
        try:
            decided = await _decided(world)
        except OBJECT_ERRORS as error:
            failed = f"what disruption would do: {error}; correct the object"
    left = {_name(one): _seconds_left(world, one, pool) for one in machines}
    expired = tuple(name for name, seconds in left.items() if seconds <= 0)
    commands = {name: command.reason for command in decided.commands for name in command.nodes}
    commands |= dict.fromkeys(expired, "Expired")
    rows = {
        name: _machine(
            world, one, commands.get(name, ""), decided.blocked.get(name, UNKNOWN if failed else ""), left[name]
        )
        for name, one in sorted((_name(one), one) for one in machines)
    }
    prices, count = [one.price for one in rows.values() if one.price is not None], len(rows.keys() & commands.keys())
    unpriced = f", {len(rows) - len(prices)} of unknown price" if len(prices) < len(rows) else ""
    verdict = f"{count or 'none'} would be disrupted now" if not failed else "disruption is not known"
    budgets = {reason: budget_use(pool, count_of(machines), reason, world.now) for reason in REASONS}
    used, own = pool.status.resources, [one for one in decided.commands if not rows.keys().isdisjoint(one.nodes)]
    if expired:
        own.append(CommandOutput(reason="Expired", decision="delete", nodes=expired, replacements=(), saving=0.0))
    return Answer(
        kind="NodePool",
        name=pool.name,
        answer=f"{counted(len(rows), 'machine')}, {usd(sum(prices))}{unpriced}; {verdict}",
        facts={
            "ready": f"no, nothing is bought, replaced or consolidated: {unusable}" if unusable else "yes",
            "replicas": _replicas(world, pool),
            "limits": ", ".join(f"{key} {used.get(key, 0)} of {most}" for key, most in sorted(limits_of(pool).items())),
            "budgets": "; ".join(
                f"{reason} {one.used} of {'any number' if one.allowed is None else one.allowed} used"
                for reason, one in budgets.items()
            ),
            "prices": prices_of(world.region, world.prices),
        },
        parts={"disruptionNow": tuple(map(_command, own)), "machines": tuple(rows.values())},
        unknown=(*world.unread, *filter(None, [failed]), MEMORY),
    )


def _replicas(world: World, pool: NodePool) -> str:
    """How many NodeClaims a static NodePool is to have, and by which schedule; "" for a dynamic one."""
    node_class = world.caches.node_classes.get(pool.spec.template.spec.node_class_ref.name)
    found = desired(pool, node_class.spec.replica_schedules if node_class is not None else (), world.now)
    if found is None:
        return ""
    return f"{found.replicas} of {pool.spec.replicas}, by {found}" if found.scheduled else str(found.replicas)


async def _decided(world: World) -> PassOutput:
    """One pass over the NodePools that are used."""
    view, _ = await world.disruption.view(world.disruption.read(world.types, world.provisioning.max_new()))
    return pass_over(view)


def _seconds_left(world: World, one: Machine, pool: NodePool) -> float:
    """Until it expires, which no budget, no pod and no annotation delays; infinity without an end."""
    at = None if one.going else expires_at(one.claim, pool)
    return math.inf if at is None else (at - world.now).total_seconds()


def _machine(world: World, one: Machine, reason: str, blocked: str, left: float) -> Entry:
    """`reason`: why it would be removed now. `blocked`: why not by a method. `left`: seconds until it expires."""
    name, pods = _name(one), counted(sum(pod.own for pod in one.pods), "pod")
    known = {**one.claim.metadata.labels, **(one.node.metadata.labels if one.node is not None else {})}
    size, zone, kind = (known.get(key, "") for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE))
    if one.going:
        why = "its removal or its replacement has begun"
    elif reason:
        why = f"would be removed now: {reason}"
    else:
        why = f"stays: {'; '.join(dict.fromkeys(filter(None, (blocked, one.blocked)))) or NOTHING}"
    try:
        price = price_of(one, world.prices)
    except ValueError:
        price = None
    expires = f"expires in {format_duration(left)}" if 0 < left < math.inf else ""
    answer = ", ".join(filter(None, (phase_of(one.claim), f"{size}{where_of(zone)}", kind, expires, pods)))
    return Entry(name=name, answer=answer, price=price, why=why)


def _command(command: CommandOutput) -> Entry:
    new = ", ".join(f"{one.instance_types[0]} ({usd(one.price)})" for one in command.replacements)
    answer = f"{command.decision} {', '.join(command.nodes)}{f' by {new}' if new else ''}"
    return Entry(name=command.reason, answer=f"{answer}, saves {usd(command.saving)}")


def _name(one: Machine) -> str:
    return one.node.name if one.node is not None else one.claim.name
