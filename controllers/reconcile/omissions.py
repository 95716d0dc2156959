"""Events about NodePools and machines that a scheduling decision leaves out, once for each new cause.

Source: docs/references/karpenter.md#events.
"""

from collections.abc import Iterable, Iterator, Mapping

from controllers.actuator.actuator import Actuator
from controllers.model.steps import Event
from controllers.provisioning.cluster import ClusterSnapshot
from controllers.provisioning.launchable import Refusals
from controllers.provisioning.solver.candidates import offers
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool

NO_TYPES = "NodePool requirements filtered out all compatible available instance types"

Subject = NodePool | NodeClaim | Node


class OmissionEvents:
    """Remembers the cause of each object that the last decision left out.

    A NodePool that is not Ready has a condition and an Event of its own.
    """

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._recorded: dict[tuple[str, str, str], str] = {}

    def record(self, pools: Iterable[NodePool], found: ClusterSnapshot, refused: Mapping[str, Refusals]) -> None:
        """Record the Events of one decision. `refused`: what NodePools cannot launch, by name."""
        left_out: dict[tuple[str, str, str], str] = {}
        pools = tuple(pools)
        for about, event in (*_pools(pools, found), *_refused(pools, refused), *_machines(found)):
            key = about.kind, about.metadata.uid, event.reason
            if self._recorded.get(key) == event.message or self._actuator.record_event(about, event):
                left_out[key] = event.message
        self._recorded = left_out


def _pools(pools: Iterable[NodePool], found: ClusterSnapshot) -> Iterator[tuple[Subject, Event]]:
    snapshot = found.snapshot
    types = {one.name: snapshot.instance_types if one.types is None else one.types for one in snapshot.node_pools}
    empty = {one.name for one in snapshot.node_pools if not offers(one, types[one.name], snapshot.well_known)}
    for pool in pools:
        if pool.name in empty:
            yield pool, Event(type="Warning", reason=reasons.NO_COMPATIBLE_INSTANCE_TYPES, message=NO_TYPES)


def _refused(pools: Iterable[NodePool], refused: Mapping[str, Refusals]) -> Iterator[tuple[Subject, Event]]:
    """What a NodePool cannot launch although it is available to others."""
    for pool in pools:
        if not (causes := refused.get(pool.name, ())):
            continue
        sizes = sorted({scope.size or "any size" for scope, _ in causes})
        more = f" and {len(sizes) - 1} other sizes" if len(sizes) > 1 else ""
        message = f"Cannot launch {sizes[0]}{more}: {causes[-1][1]}; correct the NodePool or its node class"
        yield pool, Event(type="Warning", reason=reasons.LAUNCH_FAILED, message=message)


def _machines(found: ClusterSnapshot) -> Iterator[tuple[Subject, Event]]:
    for about, cause in found.unreadable:
        message = f"it does not count as a machine for pending pods: {cause}; correct the field"
        yield about, Event(type="Warning", reason=reasons.FIELD_UNREADABLE, message=message)
