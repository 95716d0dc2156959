"""The machines that exist, what each costs and the room on it: the answer of `schedule` when no pod is pending."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.machines import machines
from controllers.provisioning.observed import Observed
from controllers.provisioning.price_messages import usd_per_hour
from controllers.provisioning.solver.model import ExistingNode
from controllers.provisioning.solver.reasons import quantities
from controllers.provisioning.solver.resources import total, without
from provisioner.api import labels

from .console import counted, table
from .explain_answer import prices_of

HEAD = ("MACHINE", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "USD/H", "PODS", "ROOM")
# Of memory, in the thousandths in which the solver counts; smaller amounts are left out of the room.
MIB = 1000 * 2**20
# Room of these limits pods less than the other resources of a machine do.
MINOR = frozenset({"pods", "ephemeral-storage"})


class FleetMachine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine of a NodePool or of another NodeClaim; one that does not exist yet has the name of its NodeClaim.

    `instance_type`, `zone`, `capacity_type`: "" if several are possible. `price`: USD an hour, None if it is not known.
    `pods`: without those of DaemonSets. `room`: what the pods on it leave of its resources. `leaving`: it is being
    removed, and takes no pods.
    """

    name: str
    node_pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float | None
    pods: int
    room: Mapping[str, str]
    leaving: bool = False
    coming: bool = False


def fleet(observed: Observed, types: InstanceTypes) -> tuple[FleetMachine, ...]:
    """By NodePool and name. Nodes without a NodeClaim and without a NodePool are left out."""
    claimed = {*observed.claims_by_node(), *(one.name for one in observed.claims)}
    found, _ = machines(observed, types)
    made = (_machine(one, types, leaving=leaving) for one, leaving in found if one.node_pool or one.name in claimed)
    return tuple(sorted(made, key=lambda one: (one.node_pool, one.name)))


def _machine(one: ExistingNode, types: InstanceTypes, *, leaving: bool) -> FleetMachine:
    size, zone = types.cloud.canonical_name(_value(one, labels.INSTANCE_TYPE)), _value(one, labels.ZONE)
    capacity_type = _value(one, labels.CAPACITY_TYPE)
    left = without(one.allocatable, total(pod.spec.requests for pod in one.pods))
    return FleetMachine(
        name=one.name,
        node_pool=one.node_pool,
        instance_type=size,
        zone=zone,
        capacity_type=capacity_type,
        price=types.price(one.node_pool, size, capacity_type, zone),
        pods=sum(not pod.daemon for pod in one.pods),
        room=quantities({name: _rounded(name, max(0, amount)) for name, amount in left.items() if name not in MINOR}),
        leaving=leaving,
        coming=one.planned,
    )


def _value(one: ExistingNode, key: str) -> str:
    """The only value that it may have; "" if there are several."""
    allowed = one.requirements.get(key)
    return next(iter(allowed.values)) if allowed is not None and len(allowed.values) == 1 else ""


def fleet_lines(found: Sequence[FleetMachine], region: str, types: InstanceTypes) -> Iterator[str]:
    """For people."""
    if found:
        yield from table(HEAD, [tuple(_cells(one)) for one in found])
        yield ""
    known = sum(one.price or 0.0 for one in found)
    yield f"No Pod is pending. {counted(len(found), 'machine')}, {usd_per_hour(known)} ({prices_of(region, types)})"
    if unpriced := sum(one.price is None for one in found):
        yield f"{counted(unpriced, 'machine')} without a price: not part of the sum."


def _cells(one: FleetMachine) -> Iterator[str]:
    yield one.name
    yield one.node_pool
    yield one.instance_type
    yield one.zone
    yield one.capacity_type
    yield "" if one.price is None else f"{one.price:.3f}"
    yield str(one.pods)
    room = ", ".join(f"{name} {amount}" for name, amount in sorted(one.room.items(), key=_devices_first))
    yield "is being removed" if one.leaving else f"{room} (no Node yet)" if one.coming else room


def _rounded(name: str, amount: int) -> int:
    return amount // MIB * MIB if name == "memory" else amount


def _devices_first(item: tuple[str, str]) -> tuple[bool, str]:
    return "/" not in item[0], item[0]
